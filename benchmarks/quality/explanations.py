"""Whether explanations are true: the evidence that they call strongest matters more than other neighbours.

Pairs are sampled from a run of structure alone. For each of them, the triples to the neighbours that the
explanation names first are removed from both graphs, and in a second copy as many triples to other
neighbours, chosen at random. Labels are propagated over both copies from the seeds and from all confident
pairs but the sampled ones. An explanation is right if the similarity of its pair drops more in the first
copy. Test links are not read.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

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

NEEDS = Needs("DBP15K", "CPU or GPU", "5 min (CPU)")

MODEL = LabelPropagationOptions(rounds=1)
LEAST_CONFIDENCE = 0.5

Removal = list[tuple[int, list[int]]]
"""Entities, each with the neighbours that lose their triples to it."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)
    add_device(parser)
    parser.add_argument("--pairs", type=int, default=200, help="sampled pairs")
    parser.add_argument("--removed", type=int, default=2, help="neighbours that are removed from each pair")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    columns = dict.fromkeys(("data", "pairs", "removed", "explanation is right", "drop", "random drop"), "")
    table = figures.table("explanations", columns)
    for name in options.sets:
        task = DataSet(name, options.data).task()
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "run"
            align(task, features="none", subtasks=1, out=out, device=options.device)
            evidence = read_evidence(out / EVIDENCE, task)
            drops = compare(task, evidence, options.pairs, options.removed, options.device)
        table.add(
            {
                "data": name,
                "pairs": len(drops),
                "removed": options.removed,
                "explanation is right": float((drops[:, 0] > drops[:, 1]).mean()),
                "drop": float(drops[:, 0].mean()),
                "random drop": float(drops[:, 1].mean()),
            }
        )
    return figures


def compare(task: AlignmentTask, evidence: Evidence, pairs: int, removed: int, device: str) -> np.ndarray:
    """How much the similarity of each sampled pair drops without its strongest neighbours, and without as
    many others.
    """
    draw = np.random.default_rng(0)
    known = Counterparts.of(task, evidence)
    indexes, agreement = (EdgeIndex(task.source), EdgeIndex(task.target)), RelationAgreement.of(task, known)
    confident = np.flatnonzero(evidence.confidence >= LEAST_CONFIDENCE)
    sampled: list[tuple[int, int]] = []
    strongest: tuple[Removal, Removal] = [], []
    random: tuple[Removal, Removal] = [], []
    for row in draw.permutation(confident).tolist():
        pair = int(evidence.source[row]), int(evidence.target[row])
        edges = indexes[0].of(pair[0]), indexes[1].of(pair[1])
        found = matching_neighbours(task, known, *edges, agreement)[:removed]
        named = [item.source for item in found], [item.target for item in found]
        others = [np.setdiff1d(own_edges.neighbour, own) for own_edges, own in zip(edges, named, strict=True)]
        if len(found) < removed or min(map(len, others)) < removed:
            continue
        sampled.append(pair)
        for side in (0, 1):
            strongest[side].append((pair[side], named[side]))
            random[side].append((pair[side], draw.choice(others[side], removed, replace=False).tolist()))
        if len(sampled) == pairs:
            break
    told_pairs = np.stack([evidence.source[confident], evidence.target[confident]], axis=1)
    kept = told_pairs[~np.isin(told_pairs[:, 0], [source for source, _ in sampled])]
    told = task.seeds.union(Links.from_pairs(kept))
    before, *after = (
        similarity(AlignmentTask(source, target, task.seeds), told, sampled, device)
        for source, target in (
            (task.source, task.target),
            (without(task.source, strongest[0]), without(task.target, strongest[1])),
            (without(task.source, random[0]), without(task.target, random[1])),
        )
    )
    return np.stack([before - one for one in after], axis=1)


def without(graph: KnowledgeGraph, removal: Removal) -> KnowledgeGraph:
    """The graph without the triples between some entities and some of their neighbours."""
    size = graph.num_entities
    gone = np.array([entity * size + other for entity, others in removal for other in others])
    heads, tails = graph.heads.astype(np.int64), graph.tails.astype(np.int64)
    is_gone = np.isin(heads * size + tails, gone) | np.isin(tails * size + heads, gone)
    return replace(graph, triples=graph.triples[~is_gone])


def similarity(task: AlignmentTask, told: Links, pairs: list[tuple[int, int]], device: str) -> np.ndarray:
    """The cosine of pairs after label propagation."""
    vectors = Propagation(MODEL).compute(task, told, device=device)
    assert vectors is not None
    source, target = np.array(pairs, dtype=np.int64).T
    return cosines(vectors, source, target)
