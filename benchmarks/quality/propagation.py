"""The settings of the locality `propagate`, and what the odds of a degree add, judged on held-out seeds.

In each of five folds a fifth of the seeds is held out. A held-out link is covered if its target is among the
candidates of its part, which has as many candidates as unmatched entities. N = 5. No test link is read.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

from benchmarks.common import SETS, DataSet, Figures, Needs, add_data, validation_folds
from divea.division import discovery, locality
from divea.division.groups import group_source, members_of
from divea.graphs import AlignmentTask
from divea.types import Ids

NEEDS = Needs("all real sets", "CPU", "3 min")

PARTS = 5
DEFAULT = locality.HOPS, locality.HUB_DAMPING


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, list(SETS))
    parser.add_argument("--hops", type=int, nargs="*", default=[2, 4, 6, 8, 12])
    parser.add_argument(
        "--damping", type=float, nargs="*", default=[0.0, 1.0], help="hub damping, with 6 hops"
    )


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    tasks = {name: DataSet(name, options.data).task() for name in options.sets}
    table = figures.table("coverage of held-out seeds", {"setting": "", **dict.fromkeys(tasks, "")})
    hops, damping = DEFAULT
    variants = [(number, damping, True) for number in options.hops]
    variants += [(hops, value, True) for value in options.damping]
    for hop, damp, with_odds in [*variants, (hops, damping, False)]:
        odds = "" if with_odds else ", every degree as likely"
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(locality, "HOPS", hop))
            stack.enter_context(mock.patch.object(locality, "HUB_DAMPING", damp))
            if not with_odds:
                stack.enter_context(mock.patch.object(discovery, "counterpart_odds", equal_odds))
            shares = {name: held_out_coverage(task) for name, task in tasks.items()}
        table.add({"setting": f"{hop} hops, hub damping {damp}{odds}", **shares})
    return figures


def equal_odds(adjacency: csr_array, seeds: Ids) -> np.ndarray:
    return np.ones(adjacency.shape[0], dtype=np.float32)


def held_out_coverage(task: AlignmentTask) -> float:
    covered = 0
    for reduced, held_out in validation_folds(task):
        groups, _ = group_source(reduced, PARTS)
        counts = np.array([len(own) for own in members_of(groups, reduced.unmatched_source)])
        found = discovery.discover_candidates(
            task.target.adjacency, reduced.seeds, groups, counts, taken=reduced.seeds.target
        )
        for part, candidates in enumerate(found):
            mine = groups[held_out.source] == part
            covered += int(np.isin(held_out.target[mine], candidates).sum())
    return covered / len(task.seeds)
