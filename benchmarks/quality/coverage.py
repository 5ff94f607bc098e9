"""Coverage of test links before any model: divea's division, the paper's locality, CPS and SBP.

DBP15K, split 20/0, N = 5, every source entity without a seed unmatched. This benchmark reads test links, as
the paper's table does; no setting is chosen by it. "Together" counts links with both ends in any one
subtask, as SBP's papers do. The paper's own figures are after five iterations with RREA, on a smaller set
of unmatched entities. The second table compares partitioners over several random seeds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np

from benchmarks.common import (
    DBP15K,
    LARGE_SIZES,
    SMALL_SIZES,
    DataSet,
    Figures,
    Needs,
    Value,
    add_data,
    say,
)
from divea.config import DivisionSettings
from divea.division import CPS, SBP, DivEA, Strategy
from divea.division.groups import group_source
from divea.division.partition import PARTITIONERS, edge_cut
from divea.evaluation import coverage
from divea.graphs import AlignmentTask, Links

NEEDS = Needs("DBP15K, test links", "CPU", "1 min")

PARTS = 5
PAPER = {
    "zh-en": {"CPS": 0.826, "DivEA, S 7792": 0.880, "SBP": 0.943, "I-SBP": 0.960, "DivEA, S 9421": 0.970},
    "fr-en": {"CPS": 0.817, "DivEA, S 7930": 0.881, "SBP": 0.930, "I-SBP": 0.960, "DivEA, S 9594": 0.978},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)
    parser.add_argument("--random-seeds", type=int, default=5, help="how many, for the partitioners")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = dict.fromkeys(("data", "division", "coverage", "together", "smallest", "largest"), "")
    divisions = figures.table("coverage", units)
    units = dict.fromkeys(("data", "partitioner", "edges cut", "coverage", "standard deviation"), "")
    partitioners = figures.table("partitioners", units)
    for name in options.sets:
        data_set = DataSet(name, options.data)
        task = data_set.task()
        links = data_set.test_links(task)
        for strategy_name, strategy in strategies(name):
            division = strategy.divide(task)
            found = coverage(division, links)
            sizes = [subtask.size for subtask in division.subtasks]
            divisions.add(
                {
                    "data": name,
                    "division": strategy_name,
                    "coverage": found.share,
                    "together": found.share_together,
                    "smallest": min(sizes),
                    "largest": max(sizes),
                }
            )
        for rival, share in PAPER[name].items():
            divisions.add({"data": name, "division": f"{rival}, as published", "coverage": share})
        for partitioner in PARTITIONERS:
            if partitioner == "kaminpar" and find_spec("kaminpar") is None:
                say("kaminpar is not installed, so it is left out")
                continue
            judged = judge_partitioner(partitioner, task, links, SMALL_SIZES[name], options.random_seeds)
            partitioners.add({"data": name, "partitioner": partitioner, **judged})
    return figures


def judge_partitioner(
    partitioner: str, task: AlignmentTask, links: Links, size: int, random_seeds: int
) -> dict[str, Value]:
    """Mean share of edges cut and mean coverage over several random seeds."""
    cuts, shares = [], []
    settings = DivisionSettings.checked({"partitioner": partitioner, "delta1": 0.5})
    for random_seed in range(random_seeds):
        groups, _ = group_source(task, PARTS, partitioner=partitioner, random_seed=random_seed)
        cuts.append(edge_cut(task.source.adjacency, groups))
        division = DivEA(PARTS, size, settings, random_seed).divide(task)
        shares.append(coverage(division, links).share)
    return {
        "edges cut": float(np.mean(cuts)),
        "coverage": float(np.mean(shares)),
        "standard deviation": float(np.std(shares)),
    }


def strategies(name: str) -> Iterator[tuple[str, Strategy]]:
    """All divisions of a data set: at two sizes with the paper's shares and with chosen ones, and rivals."""
    for size, delta1 in ((SMALL_SIZES[name], 0.5), (LARGE_SIZES[name], 0.4)):
        for locality in ("propagate", "bfs"):
            for share in (delta1, None):
                settings = DivisionSettings.checked({"locality": locality, "delta1": share})
                yield f"{locality}, S {size}, delta1 {share or 'chosen'}", DivEA(PARTS, size, settings)
    yield "CPS", CPS(PARTS)
    yield "SBP", SBP(PARTS)
