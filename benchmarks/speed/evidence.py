"""First-order drop costs and elimination in rounds next to exact drop costs: time, and what they choose.

DBP15K, split 20/0, N = 5, S = all entities divided by N, source side with delta1 = .5. "Same picks" is the
share of the exact contexts that first-order costs choose too. Informativeness is the sum of evidence over
all parts (Eq. 9), compared with that of the exact contexts. No test link is read.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from benchmarks.common import (
    DBP15K,
    SMALL_SIZES,
    DataSet,
    Figures,
    Needs,
    Spread,
    add_data,
    add_rounds,
    in_turns,
    measure,
)
from divea.config import EvidenceSettings
from divea.division.context import pick_contexts
from divea.division.groups import group_source, members_of
from divea.division.informativeness import Informativeness
from divea.division.selection import tie_breakers
from divea.graphs import AlignmentTask
from divea.types import Ids

NEEDS = Needs("DBP15K", "CPU", "3 min")

PARTS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)
    parser.add_argument("--threads", type=int, default=1)
    add_rounds(parser, 5)
    parser.add_argument("--no-exact", action="store_true", help="leave out the exact costs, which take long")


def run(options: argparse.Namespace) -> Figures:
    torch.set_num_threads(options.threads)
    figures = Figures()
    units = {"data": "", "S": "", "method": "", "time": "s", "exact time / time": "", "same picks": ""}
    units |= {"informativeness": "", "informativeness over exact": "%"}
    table = figures.table("drop costs", units)
    for name in options.sets:
        problem = Problem.of(DataSet(name, options.data).task(), SMALL_SIZES[name])
        problem.contexts("first_order")  # so that all libraries are loaded
        quick = ("first_order", "rounds")
        works = {method: partial(measure, partial(problem.contexts, method)) for method in quick}
        found = in_turns(works, options.rounds)
        if not options.no_exact:
            found |= in_turns({"exact": partial(measure, partial(problem.contexts, "exact"))}, 1)
        exact = found.get("exact")
        best = problem.informativeness(exact.results[0]) if exact else None
        for method, rounds in found.items():
            picked = rounds.results[0]
            informative = problem.informativeness(picked)
            seconds = [one.seconds for one in rounds.measurements]
            table.add(
                {
                    "data": name,
                    "S": problem.size,
                    "method": method,
                    "time": rounds.seconds,
                    "exact time / time": Spread.of(exact.seconds.median / one for one in seconds)
                    if exact
                    else None,
                    "same picks": shared(picked, exact.results[0]) if exact else None,
                    "informativeness": informative,
                    "informativeness over exact": 100 * (informative / best - 1) if best else None,
                }
            )
    return figures


@dataclass(frozen=True)
class Problem:
    """The source contexts that a division would choose."""

    task: AlignmentTask
    size: int
    members: list[Ids]
    measure: Informativeness

    @classmethod
    def of(cls, task: AlignmentTask, size: int) -> Problem:
        groups, _ = group_source(task, PARTS)
        measure = Informativeness.of(task.source.adjacency, task.seeds.source, EvidenceSettings())
        return cls(task, size, members_of(groups, task.unmatched_source), measure)

    def contexts(self, method: str) -> list[Ids]:
        return list(
            pick_contexts(
                self.task.source.adjacency,
                self.members,
                self.task.seeds.source,
                [self.size // 2 - len(own) for own in self.members],
                tie_breakers(self.task.source.num_entities, 0, "source"),
                EvidenceSettings.checked({"method": method}),
            )
        )

    def informativeness(self, contexts: list[Ids]) -> float:
        parts = zip(self.members, contexts, strict=True)
        return float(sum(self.measure.evidence(np.union1d(own, new), own).sum() for own, new in parts))


def shared(picked: list[Ids], exact: list[Ids]) -> float:
    """The mean share of the exact picks of a part that were picked too."""
    shares = [len(np.intersect1d(ours, best)) / len(best) for ours, best in zip(picked, exact, strict=True)]
    return float(np.mean(shares))
