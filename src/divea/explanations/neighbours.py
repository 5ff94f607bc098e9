"""Matching neighbours: the structural evidence for a pair, and each neighbour's share of it.

Two neighbours are evidence if they match each other, and stronger evidence if relations with the same meaning
lead to them. The agreement of two relations is the cosine of their triples over all matched entities: how
often one connects the counterparts of what the other connects. Two neighbours count with their confidence
times the agreement of the relations that lead to them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.ids import ranges
from divea.resources.row_blocks import in_threads
from divea.runs.evidence import Evidence

Numbers = npt.NDArray[np.int64]

LEAST_CONFIDENCE = 0.5
"""The least confidence of the pairs that the agreement of relations is computed from."""

LEAST_AGREEMENT = 0.01
"""The least agreement of any relations, so that neighbours count even if their relations are rare."""


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
    """Two neighbours that match each other, one of each end of a pair."""

    source: int
    target: int
    source_relations: tuple[str, ...]
    target_relations: tuple[str, ...]
    confidence: float | None
    """None if confidence was not calibrated; 1 for a seed."""
    is_seed: bool
    share: float
    """Their share of the structural evidence."""


def edges_of(graph: KnowledgeGraph, entity: int) -> Edges:
    """The triples of an entity."""
    heads, tails = graph.heads, graph.tails
    outgoing = np.flatnonzero((heads == entity) & (tails != entity))
    incoming = np.flatnonzero((tails == entity) & (heads != entity))
    return _edges(graph, outgoing, incoming)


def _edges(graph: KnowledgeGraph, outgoing: Numbers, incoming: Numbers) -> Edges:
    """Edges from the rows of triples."""
    triples = np.asarray(graph.triples)
    neighbour = np.concatenate([triples[outgoing, 2], triples[incoming, 0]]).astype(np.int64)
    relation = np.concatenate([triples[outgoing, 1], triples[incoming, 1]]).astype(np.int64)
    return Edges(neighbour, relation, np.arange(len(neighbour)) < len(outgoing))


class EdgeIndex:
    """The triples of every entity, sorted once: gives the same as `edges_of`, but fast for many entities.

    >>> graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("c", "r", "a")])
    >>> index = EdgeIndex(graph)
    >>> all(len(index.of(one).neighbour) == len(edges_of(graph, one).neighbour) for one in range(3))
    True
    """

    def __init__(self, graph: KnowledgeGraph):
        self._graph = graph
        self._by_tail = np.argsort(graph.tails, kind="stable")
        self._tails = graph.tails[self._by_tail]

    def of(self, entity: int) -> Edges:
        """The triples of an entity."""
        graph = self._graph
        # Triples are sorted by head.
        first, end = np.searchsorted(graph.heads, [entity, entity + 1])
        outgoing = np.arange(first, end)
        first, end = np.searchsorted(self._tails, [entity, entity + 1])
        incoming = self._by_tail[first:end]
        return _edges(
            graph, outgoing[graph.tails[outgoing] != entity], incoming[graph.heads[incoming] != entity]
        )


@dataclass(frozen=True)
class Counterparts:
    """What each source entity is matched with, by a seed or by the run."""

    target: npt.NDArray[np.int64]
    """By source id; -1 for none."""
    confidence: npt.NDArray[np.float64]
    """By source id: 1 for a seed, NaN if there is no match or no confidence."""
    is_seed: npt.NDArray[np.bool_]
    source: npt.NDArray[np.int64]
    """By target id; -1 for none. If several sources have the same target, the most confident of them."""

    @classmethod
    def of(cls, task: AlignmentTask, evidence: Evidence) -> Counterparts:
        """From the seeds of a task and the assigned pairs of a run."""
        target = np.full(task.source.num_entities, -1, dtype=np.int64)
        confidence = np.full(len(target), np.nan)
        is_seed = np.zeros(len(target), dtype=bool)
        target[evidence.source], confidence[evidence.source] = evidence.target, evidence.confidence
        seeds = task.seeds
        target[seeds.source], confidence[seeds.source], is_seed[seeds.source] = seeds.target, 1.0, True
        matched = np.flatnonzero(target >= 0)
        source = np.full(task.target.num_entities, -1, dtype=np.int64)
        source[target[matched]] = matched
        # Few targets, or none, have several sources. Sorting only those saves most of the time.
        is_shared = np.zeros(len(source), dtype=bool)
        is_shared[target[matched[source[target[matched]] != matched]]] = True
        shared = matched[is_shared[target[matched]]]
        shared = shared[np.argsort(confidence[shared], kind="stable")]
        source[target[shared]] = shared
        return cls(target, confidence, is_seed, source)

    def confidence_of(self, source: int) -> float | None:
        """The confidence of the match of a source entity, if it has one."""
        found = float(self.confidence[source])
        return None if np.isnan(found) else found


def matching_neighbours(
    task: AlignmentTask, known: Counterparts, here: Edges, there: Edges, agreement: RelationAgreement
) -> list[MatchingNeighbours]:
    """The neighbours of a pair that match each other, the strongest evidence first.

    Parameters
    ----------
    here, there
        The triples of the source and of the target of the pair.
    agreement
        The agreement of their relations.
    """
    near = np.unique(here.neighbour)
    near = near[np.isin(known.target[near], there.neighbour)]
    found = list(zip(near.tolist(), known.target[near].tolist(), strict=True))
    # Without confidence, all matches count the same.
    weight = np.where(np.isnan(known.confidence[near]), 1.0, known.confidence[near])
    totals = np.array([agreement.total(here.to(one), there.to(other)) for one, other in found])
    parts = weight * totals if found else weight
    shares = parts / max(parts.sum(), 1e-12)
    rows = [
        MatchingNeighbours(
            one,
            other,
            relation_labels(here.to(one), task.source),
            relation_labels(there.to(other), task.target),
            known.confidence_of(one),
            bool(known.is_seed[one]),
            float(share),
        )
        for (one, other), share in zip(found, shares, strict=True)
    ]
    return sorted(rows, key=lambda row: (-row.share, task.source.entities[row.source].as_py()))


@dataclass(frozen=True)
class RelationAgreement:
    """How far the relations of both graphs connect matching entities, from 0 to 1."""

    same: csr_array
    """Source relations x target relations, read in the same direction."""
    inverse: csr_array
    """The same, with the target relation read from tail to head."""

    @classmethod
    def of(
        cls,
        task: AlignmentTask,
        known: Counterparts,
        source_relations: Numbers | None = None,
        target_relations: Numbers | None = None,
    ) -> RelationAgreement:
        """The agreement of some relations of the source with some of the target, by all matched entities.

        Parameters
        ----------
        source_relations, target_relations
            The relations; all of them by default.
        """
        counterpart = np.where(known.confidence < LEAST_CONFIDENCE, -1, known.target)
        is_matched = np.zeros(task.target.num_entities, dtype=bool)
        is_matched[counterpart[counterpart >= 0]] = True
        sides = (task.source, source_relations, counterpart >= 0), (task.target, target_relations, is_matched)
        ours, theirs = in_threads(lambda side: _triples_between(*side), sides)
        size = task.target.num_entities
        heads, tails = counterpart[ours[:, 0]], counterpart[ours[:, 2]]
        pairs = theirs[:, 0].astype(np.int64) * size + theirs[:, 2]
        by_pair = np.argsort(pairs)
        distinct, first, count = np.unique(pairs[by_pair], return_index=True, return_counts=True)
        relation_there = theirs[by_pair, 1]
        shape = task.source.num_relations, task.target.num_relations
        lengths = [
            np.sqrt(np.maximum(np.bincount(side[:, 1], minlength=count), 1))
            for side, count in zip((ours, theirs), shape, strict=True)
        ]

        def cosines(wanted: Numbers) -> csr_array:
            place = np.searchsorted(distinct, wanted)
            # A pair above all of these has no place: it is compared with -1.
            found = np.flatnonzero(np.append(distinct, -1)[place] == wanted)
            place = place[found]
            here = np.repeat(ours[found, 1], count[place])
            there = relation_there[ranges(first[place], count[place])]
            weight = 1 / (lengths[0][here] * lengths[1][there])
            return csr_array((weight, (here, there)), shape=shape)

        return cls(*in_threads(cosines, (heads * size + tails, tails * size + heads)))

    def total(self, source: list[tuple[int, bool]], target: list[tuple[int, bool]]) -> float:
        """The agreement of the relations that lead to two neighbours, summed up."""
        found = sum(
            (self.same if points_out == points_out_there else self.inverse)[relation, other]
            for relation, points_out in source
            for other, points_out_there in target
        )
        return max(float(found), LEAST_AGREEMENT)


def _triples_between(
    graph: KnowledgeGraph, relations: Numbers | None, is_matched: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int32]:
    """The triples between matched entities, with these relations if they are given."""
    triples = np.asarray(graph.triples)
    if relations is not None:
        is_wanted = np.zeros(graph.num_relations, dtype=bool)
        is_wanted[relations] = True
        triples = triples[is_wanted[triples[:, 1]]]
    return triples[is_matched[triples[:, 0]] & is_matched[triples[:, 2]]]


def relation_labels(relations: list[tuple[int, bool]], graph: KnowledgeGraph) -> tuple[str, ...]:
    """The labels of relations; those that point at the entity start with `inverse of`."""
    return tuple(
        ("" if points_out else "inverse of ") + graph.relations[relation].as_py()
        for relation, points_out in relations
    )
