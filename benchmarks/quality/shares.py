"""Whether a division chooses the shares of S that a model does best with, judged on held-out seeds.

A fifth of the seeds is held out and treated as unmatched. For several source contexts (as a share of what
the unmatched entities leave of S) and several shares of connecting entities (delta2): the coverage of the
held-out links, and the H@1 of a small label propagation in the subtasks. N = 5. No test link is read.
"""

from __future__ import annotations

import argparse
from itertools import islice

import numpy as np

from benchmarks.common import (
    LARGE_SIZES,
    SMALL_SIZES,
    DataSet,
    Figures,
    Needs,
    add_data,
    validation_folds,
)
from divea.config import DivisionSettings, LabelPropagationOptions
from divea.division import DivEA, Division
from divea.evaluation import RankMetrics, coverage, listed_ranks
from divea.graphs import AlignmentTask, Links
from divea.loop.lists import Lists
from divea.loop.solve import solve
from divea.models.label_propagation import LabelPropagation

NEEDS = Needs("DBP15K and D-Y", "CPU", "20 min")

PARTS = 5
SIZES = {name: (SMALL_SIZES[name], LARGE_SIZES[name]) for name in SMALL_SIZES} | {"D-Y": (6000, 7200)}
GRID = ((0.06, 0.0), (0.1, 0.0), (0.14, 0.0), (0.18, 0.0), (0.24, 0.0), (0.1, 0.07), (0.18, 0.07))
"""Context, as a share of what the unmatched entities leave of S, and delta2."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, list(SIZES))
    parser.add_argument("--folds", type=int, default=3, help="of five, each a fifth of the seeds")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = dict.fromkeys(("data", "S", "context", "delta2", "coverage", "H@1"), "")
    table = figures.table("shares", units)
    for name in options.sets:
        task = DataSet(name, options.data).task()
        for size in SIZES[name]:
            for (context, delta2), found in compare(task, size, options.folds).items():
                covered, hits = (float(value) for value in np.mean(found, axis=0))
                row = {"data": name, "S": size, "context": context, "delta2": delta2}
                table.add({**row, "coverage": covered, "H@1": hits})
    return figures


def compare(
    task: AlignmentTask, size: int, folds: int
) -> dict[tuple[float | str, float], list[tuple[float, float]]]:
    """Coverage and H@1 of each fold, by context and delta2."""
    found: dict[tuple[float | str, float], list[tuple[float, float]]] = {}
    for reduced, held_out in islice(validation_folds(task), folds):
        # Held-out entities come on top of the limit, as they do when a division chooses shares.
        limit = size + len(held_out) // PARTS
        chosen = DivEA(PARTS, limit).divide(reduced)
        largest = max(len(subtask.unmatched) for subtask in chosen.subtasks)
        found.setdefault(("chosen", 0.0), []).append(judge(chosen, reduced, held_out))
        for context, delta2 in GRID:
            delta1 = (largest + context * (limit - largest)) / limit
            settings = DivisionSettings(delta1=delta1, delta2=delta2)
            division = DivEA(PARTS, limit, settings).divide(reduced)
            found.setdefault((context, delta2), []).append(judge(division, reduced, held_out))
    return found


def judge(division: Division, task: AlignmentTask, held_out: Links) -> tuple[float, float]:
    """Coverage and H@1 of the held-out links."""
    model = LabelPropagation(LabelPropagationOptions(labels=256, heads=64, draft_heads=32, rounds=3))
    solved = solve(
        model,
        task,
        division.subtasks,
        Links.from_pairs([]),
        random_seeds=[0] * len(division),
        top=1,
        nearest=0,
    )
    matches = Lists.of([result.matches for result in solved]).merged()
    return coverage(division, held_out).share, RankMetrics.of(listed_ranks(matches, held_out)).h1
