"""Matching neighbours: the structural evidence for a pair, and what each neighbour's part of it is.

Two neighbours are evidence if they match each other, and more so if relations that mean the same lead to
them. The agreement of two relations is the cosine of their triples over all matched entities: how often one
connects the counterparts of what the other connects. The part of two neighbours is their confidence times
the agreement of the relations that lead to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.runs.evidence import Evidence

LEAST_CONFIDENCE = 0.5
"""Confidence from which on pairs say which relations agree."""

LEAST_AGREEMENT = 0.01
"""What any two relations agree at least, so that neighbours count if their relations are rare."""


@dataclass(frozen=True)
class Edges:
    """The triples of one entity, seen from it. Self-loops are left out."""

    neighbour: npt.NDArray[np.int64]
    relation: npt.NDArray[np.int64]
    is_outgoing: npt.NDArray[np.bool_]

    def to(self, neighbour: int) -> list[tuple[int, bool]]:
        """The relations that lead to a neighbour, and whether they point at it."""
        rows = np.flatnonzero(self.neighbour == neighbour)
        return list(zip(self.relation[rows].tolist(), self.is_outgoing[rows].tolist(), strict=True))


@dataclass(frozen=True)
class MatchingNeighbours:
    """A neighbour of each end of a pair, which match each other."""

    source: int
    target: int
    source_relations: tuple[str, ...]
    """Relations to the neighbour; those that point at the entity start with `inverse of`."""
    target_relations: tuple[str, ...]
    confidence: float | None
    """None if confidence was not calibrated; 1 for a seed."""
    is_seed: bool
    share: float
    """The part of the structural evidence."""


def edges_of(graph: KnowledgeGraph, entity: int) -> Edges:
    """The triples of an entity."""
    heads, relations, tails = graph.triples[:, 0], graph.triples[:, 1], graph.triples[:, 2]
    outgoing = np.flatnonzero((heads == entity) & (tails != entity))
    incoming = np.flatnonzero((tails == entity) & (heads != entity))
    neighbour = np.concatenate([tails[outgoing], heads[incoming]]).astype(np.int64)
    relation = np.concatenate([relations[outgoing], relations[incoming]]).astype(np.int64)
    return Edges(neighbour, relation, np.arange(len(neighbour)) < len(outgoing))


def matching_neighbours(
    task: AlignmentTask, evidence: Evidence, source: int, target: int
) -> list[MatchingNeighbours]:
    """The neighbours of a pair that match each other, the strongest evidence first."""
    here, there = edges_of(task.source, source), edges_of(task.target, target)
    near = set(there.neighbour.tolist())
    found = [(one, *match_of(task, evidence, one)) for one in np.unique(here.neighbour).tolist()]
    found = [item for item in found if item[1] in near]
    agreement = RelationAgreement.of(task, evidence, here.relation, there.relation)
    parts = np.array(
        [
            (1.0 if confidence is None else confidence) * agreement.total(here.to(one), there.to(other))
            for one, other, confidence, _ in found
        ]
    )
    shares = parts / max(parts.sum(), 1e-12)
    rows = [
        MatchingNeighbours(
            one,
            other,
            _labels(here.to(one), task.source),
            _labels(there.to(other), task.target),
            confidence,
            is_seed,
            float(share),
        )
        for (one, other, confidence, is_seed), share in zip(found, shares, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.share, task.source.entities[row.source].as_py()))


def match_of(task: AlignmentTask, evidence: Evidence, source: int) -> tuple[int, float | None, bool]:
    """The target of a source entity (-1 for none), its confidence, and whether the pair is a seed."""
    seed = np.flatnonzero(task.seeds.source == source)
    if len(seed):
        return int(task.seeds.target[seed[0]]), 1.0, True
    row = evidence.row(source)
    if row is None:
        return -1, None, False
    confidence = float(evidence.confidence[row])
    return int(evidence.target[row]), None if np.isnan(confidence) else confidence, False


@dataclass(frozen=True)
class RelationAgreement:
    """How far relations of both graphs connect entities that match: 0 to 1."""

    same: csr_array
    """Source relations x target relations, read in the same direction."""
    inverse: csr_array
    """The same, with the target relation read from tail to head."""

    @classmethod
    def of(
        cls,
        task: AlignmentTask,
        evidence: Evidence,
        source_relations: npt.NDArray[np.int64],
        target_relations: npt.NDArray[np.int64],
    ) -> RelationAgreement:
        """The agreement of some relations of the source with some of the target, by all matched entities."""
        counterpart = np.full(task.source.num_entities, -1, dtype=np.int64)
        is_sure = ~(evidence.confidence < LEAST_CONFIDENCE)
        counterpart[evidence.source[is_sure]] = evidence.target[is_sure]
        counterpart[task.seeds.source] = task.seeds.target
        is_matched = np.zeros(task.target.num_entities, dtype=bool)
        is_matched[counterpart[counterpart >= 0]] = True
        ours, theirs = (
            graph.triples[np.isin(graph.triples[:, 1], relations)].astype(np.int64)
            for graph, relations in ((task.source, source_relations), (task.target, target_relations))
        )
        heads, tails = counterpart[ours[:, 0]], counterpart[ours[:, 2]]
        both = (heads >= 0) & (tails >= 0)
        theirs = theirs[is_matched[theirs[:, 0]] & is_matched[theirs[:, 2]]]
        size = task.target.num_entities
        shape = task.source.num_relations, task.target.num_relations
        forward = heads[both] * size + tails[both], ours[both, 1]
        backward = tails[both] * size + heads[both], ours[both, 1]
        other = theirs[:, 0] * size + theirs[:, 2], theirs[:, 1]
        return cls(_cosines(forward, other, shape), _cosines(backward, other, shape))

    def total(self, source: list[tuple[int, bool]], target: list[tuple[int, bool]]) -> float:
        """The sum over the relations that lead to two neighbours."""
        found = sum(
            (self.same if points_out == points_out_there else self.inverse)[relation, other]
            for relation, points_out in source
            for other, points_out_there in target
        )
        return max(float(found), LEAST_AGREEMENT)


def _cosines(
    ours: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    theirs: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    shape: tuple[int, int],
) -> csr_array:
    """The cosine of what relations connect; each side has pairs of entities and their relations."""
    pairs, number = np.unique(np.concatenate([ours[0], theirs[0]]), return_inverse=True)
    first, second = (
        csr_array((np.ones(len(relation)), (relation, place)), shape=(relations, len(pairs)))
        for relation, place, relations in (
            (ours[1], number[: len(ours[0])], shape[0]),
            (theirs[1], number[len(ours[0]) :], shape[1]),
        )
    )
    lengths = [1 / np.sqrt(np.maximum(np.diff(side.indptr), 1)) for side in (first, second)]
    return csr_array((first @ second.T).multiply(lengths[0][:, None]).multiply(lengths[1][None, :]))


def _labels(relations: list[tuple[int, bool]], graph: KnowledgeGraph) -> tuple[str, ...]:
    return tuple(
        ("" if points_out else "inverse of ") + graph.relations[relation].as_py()
        for relation, points_out in relations
    )
