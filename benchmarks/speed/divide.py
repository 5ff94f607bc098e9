"""The whole first division at growing sizes: time by step, memory, evenness, and how the cost grows.

Synthetic pairs, S = 23,000, N = entities / 10,000. Everything after the task folder is opened is measured:
adjacency, partition, shares, source contexts, discovery, target contexts, and subtasks written in the JAPE
layout. All sizes run in every round, because the fastest run of each would favour small sizes, which fit
into a quiet moment of the machine. "Ratio" is the total divided by the partitioner's own time in the same
run; the aim is at most 3. Coverage is that of the gold links of the pair. "Open" is the time to open the
task folder: arrays are mapped and not read.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import torch

from benchmarks.common import (
    Figures,
    Measurement,
    Needs,
    Rounds,
    Spread,
    Value,
    add_pairs,
    add_rounds,
    clock,
    in_turns,
    measure_in_child,
    synthetic_pair,
)
from divea.config import DivisionSettings
from divea.division import DivEA, Division, parallel, write_division
from divea.evaluation import coverage
from divea.formats import read_links
from divea.graphs import AlignmentTask, load_task
from divea.graphs.planted import planted_pair

NEEDS = Needs("synthetic pairs", "CPU, 4 GiB", "15 min")

SIZE = 23_000
ENTITIES_PER_PART = 10_000
STEPS = ("adjacency", "partition", "shares", "source contexts", "discovery", "target contexts", "write")


@dataclass(frozen=True)
class Divided:
    """A division, and the seconds of opening the task and of every step."""

    division: Division
    opening: float
    steps: dict[str, float]


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    sizes = [100_000, 300_000, 1_000_000, 2_000_000]
    parser.add_argument("--entities", type=int, nargs="+", default=sizes, help="entities of each graph")
    parser.add_argument("--partitioner", choices=("metis", "kaminpar", "random"), default="metis")
    parser.add_argument("--threads", type=int, default=2, help="threads; METIS has one in any case")
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = {"entities": "", "N": "", "total": "s", "ratio": "", **dict.fromkeys(STEPS, "s")}
    units |= {"open": "ms", "peak memory": "GiB", "smallest": "", "largest": "", "coverage": ""}
    table = figures.table("by size", units)
    folders = {entities: synthetic_pair(options.pairs, entities) for entities in options.entities}
    with tempfile.TemporaryDirectory() as out:
        works = {
            str(entities): partial(
                divided_in_child, folder, entities, options.partitioner, options.threads, Path(out)
            )
            for entities, folder in folders.items()
        }
        found = {int(entities): rounds for entities, rounds in in_turns(works, options.rounds).items()}
    for entities, rounds in found.items():
        table.add(row(entities, rounds, folders[entities]))
    if len(found) > 1:
        add_growth(figures, found)
    return figures


def divided_in_child(
    folder: Path, entities: int, partitioner: str, threads: int, out: Path
) -> Measurement[Divided]:
    with tempfile.TemporaryDirectory(dir=out) as written:
        arguments = folder / "task", parts_of(entities), partitioner, threads, Path(written) / "division"
        return measure_in_child(divide_and_write, *arguments)


def divide_and_write(
    folder: Path, parts: int, partitioner: str, threads: int, out: Path
) -> Callable[[], Divided]:
    torch.set_num_threads(threads)
    parallel.THREADS = min(parallel.THREADS, threads)
    opening = clock(lambda: load_task(folder))
    task = load_task(folder)
    settings = DivisionSettings.checked({"partitioner": partitioner})

    def work(task: AlignmentTask, strategy: DivEA, out: Path) -> Divided:
        division = strategy.divide(task)
        writing = clock(lambda: write_division(division, task, out, layouts=["jape"]))
        return Divided(division, opening, {**division.seconds, "write": writing})

    # A tiny division first, so that all libraries are loaded.
    work(planted_pair().task, DivEA(2, 100, settings), out.with_name("tiny"))
    return partial(work, task, DivEA(parts, SIZE, settings), out)


def parts_of(entities: int) -> int:
    return max(2, entities // ENTITIES_PER_PART)


def row(entities: int, rounds: Rounds[Divided], folder: Path) -> dict[str, Value]:
    division, task = rounds.results[0].division, load_task(folder / "task")
    sizes = [subtask.size for subtask in division.subtasks]
    totals = [measurement.seconds for measurement in rounds.measurements]
    partitions = [result.steps["partition"] for result in rounds.results]
    return {
        "entities": entities,
        "N": len(division),
        "total": rounds.seconds,
        "ratio": Spread.of(total / own for total, own in zip(totals, partitions, strict=True)),
        **{step: median(result.steps.get(step, 0.0) for result in rounds.results) for step in STEPS},
        "open": median(1000 * result.opening for result in rounds.results),
        "peak memory": max(one.process_memory for one in rounds.measurements) / 2**30,
        "smallest": min(sizes),
        "largest": max(sizes),
        "coverage": coverage(division, read_links(folder / "gold.tsv", task)).share,
    }


def add_growth(figures: Figures, found: dict[int, Rounds[Divided]]) -> None:
    """The exponent of the size that time grows with, fitted to all sizes of a round."""
    totals = np.array([[one.seconds for one in rounds.measurements] for rounds in found.values()])
    partitions = np.array([[one.steps["partition"] for one in rounds.results] for rounds in found.values()])
    sizes = list(found)
    for name, seconds in (("total", totals), ("all but the partition", totals - partitions)):
        slopes = [np.polyfit(np.log(sizes), np.log(column), 1)[0] for column in seconds.T]
        of_medians = float(np.polyfit(np.log(sizes), np.log(np.median(seconds, axis=1)), 1)[0])
        figures.add(f"growth exponent, {name}, of the medians", of_medians)
        figures.add(f"growth exponent, {name}, by round", Spread.of(float(slope) for slope in slopes))
