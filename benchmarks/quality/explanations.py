"""Whether explanations are true: whether the evidence that they call strongest matters more than the rest.

Pairs are sampled from a run of structure alone. The strongest evidence for a pair is the first neighbours of
its explanation, enough of them to carry a given share of the structural evidence. Their triples to the pair
are removed from both graphs; in a second copy, as many triples to random other neighbours are removed. All
confident pairs but the sampled ones are seeds of an alignment of both copies. An explanation is right if the
pair loses more in the first copy: similarity by label propagation, or the score of the alignment. Pairs
with too few other neighbours are left out. Test links are not read.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import DBP15K, DataSet, Figures, Needs, add_data, add_device
from divea.api import align
from divea.config import LabelPropagationOptions
from divea.explanations.neighbours import (
    Counterparts,
    EdgeIndex,
    RelationAgreement,
    matching_neighbours,
)
from divea.features.fusion import cosines
from divea.features.propagation import Propagation
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.runs.evidence import Evidence, read_evidence
from divea.runs.layout import EVIDENCE

NEEDS = Needs("DBP15K", "CPU or GPU", "15 min (CPU)")

MODEL = LabelPropagationOptions(rounds=1)
LEAST_CONFIDENCE = 0.5

Removal = list[tuple[int, list[int]]]
"""Entities, each with the neighbours that lose their triples to it."""

Measure = Callable[[AlignmentTask, list[tuple[int, int]], str], np.ndarray]


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)
    add_device(parser)
    parser.add_argument("--pairs", type=int, default=200, help="sampled pairs")
    parser.add_argument(
        "--share",
        type=float,
        nargs="+",
        default=[0.5, 0.75],
        help="of the structural evidence, to be removed",
    )


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    names = ("data", "share", "pairs", "left out", "removed", "measured by", "right", "drop", "random drop")
    table = figures.table("explanations", dict.fromkeys(names, ""))
    for name in options.sets:
        task = DataSet(name, options.data).task()
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            align(task, features="none", subtasks=1, out=out, device=options.device)
            evidence = read_evidence(out / EVIDENCE, task)
            for share in options.share:
                sample = draw_sample(task, evidence, options.pairs, share)
                for measure in (similarity, score):
                    drops = sample.drops(task, evidence, measure, options.device)
                    table.add(
                        {
                            "data": name,
                            "share": share,
                            "pairs": len(drops),
                            "left out": sample.left_out,
                            "removed": float(np.mean([len(others) for _, others in sample.strongest[0]])),
                            "measured by": measure.__name__,
                            "right": float((drops[:, 0] > drops[:, 1]).mean()),
                            "drop": float(drops[:, 0].mean()),
                            "random drop": float(drops[:, 1].mean()),
                        }
                    )
    return figures


@dataclass(frozen=True)
class Sample:
    """Pairs, and the neighbours of both ends that lose their triples to them."""

    pairs: list[tuple[int, int]]
    strongest: tuple[Removal, Removal]
    random: tuple[Removal, Removal]
    left_out: int
    """Pairs that have too few other neighbours."""

    def drops(self, task: AlignmentTask, evidence: Evidence, measure: Measure, device: str) -> np.ndarray:
        """How much each pair loses without its strongest neighbours, and without as many others."""
        confident = evidence.confidence >= LEAST_CONFIDENCE
        known = np.stack([evidence.source[confident], evidence.target[confident]], axis=1)
        kept = known[~np.isin(known[:, 0], [source for source, _ in self.pairs])]
        told = task.seeds.union(Links.from_pairs(kept))
        before, *after = (
            measure(AlignmentTask(source, target, told), self.pairs, device)
            for source, target in (
                (task.source, task.target),
                (without(task.source, self.strongest[0]), without(task.target, self.strongest[1])),
                (without(task.source, self.random[0]), without(task.target, self.random[1])),
            )
        )
        return np.stack([before - one for one in after], axis=1)


def draw_sample(task: AlignmentTask, evidence: Evidence, pairs: int, share: float) -> Sample:
    """Confident pairs at random, and which of their neighbours are removed."""
    draw = np.random.default_rng(0)
    known = Counterparts.of(task, evidence)
    indexes, agreement = (EdgeIndex(task.source), EdgeIndex(task.target)), RelationAgreement.of(task, known)
    sample = Sample([], ([], []), ([], []), 0)
    for row in draw.permutation(np.flatnonzero(evidence.confidence >= LEAST_CONFIDENCE)).tolist():
        pair = int(evidence.source[row]), int(evidence.target[row])
        edges = indexes[0].of(pair[0]), indexes[1].of(pair[1])
        found = matching_neighbours(task, known, *edges, agreement)
        found = found[: carrying(share, [item.share for item in found])]
        named = [item.source for item in found], [item.target for item in found]
        others = [np.setdiff1d(own.neighbour, ids) for own, ids in zip(edges, named, strict=True)]
        if not found or min(map(len, others)) < len(found):
            sample = replace(sample, left_out=sample.left_out + 1)
            continue
        sample.pairs.append(pair)
        for side in (0, 1):
            sample.strongest[side].append((pair[side], named[side]))
            chosen = draw.choice(others[side], len(found), replace=False).tolist()
            sample.random[side].append((pair[side], chosen))
        if len(sample.pairs) == pairs:
            break
    return sample


def carrying(share: float, shares: Sequence[float]) -> int:
    """How many of the first shares add up to at least this one."""
    return min(int(np.searchsorted(np.cumsum(shares), share - 1e-9)) + 1, len(shares))


def without(graph: KnowledgeGraph, removal: Removal) -> KnowledgeGraph:
    """The graph without the triples between some entities and some of their neighbours."""
    size = graph.num_entities
    gone = np.array([entity * size + other for entity, others in removal for other in others])
    heads, tails = graph.heads.astype(np.int64), graph.tails.astype(np.int64)
    is_gone = np.isin(heads * size + tails, gone) | np.isin(tails * size + heads, gone)
    return replace(graph, triples=graph.triples[~is_gone])


def similarity(task: AlignmentTask, pairs: list[tuple[int, int]], device: str) -> np.ndarray:
    """The cosine of pairs after label propagation."""
    vectors = Propagation(MODEL).compute(task, task.seeds, device=device)
    assert vectors is not None
    source, target = np.array(pairs, dtype=np.int64).T
    return cosines(vectors, source, target)


def score(task: AlignmentTask, pairs: list[tuple[int, int]], device: str) -> np.ndarray:
    """The score of pairs in an alignment of one iteration; 0 if a pair is not listed."""
    changes: dict[str, Any] = {"iterations": 1, "confidence.held_back": 0.0}
    table = align(task, features="none", subtasks=1, device=device, **changes).ranked
    keys = task.source.find(table["source"]).astype(np.int64) * task.target.num_entities
    keys += task.target.find(table["target"])
    order = np.argsort(keys)
    wanted = np.array([source * task.target.num_entities + target for source, target in pairs])
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    found = order[place]
    return np.where(keys[found] == wanted, table["score"].to_numpy()[found], 0.0)
