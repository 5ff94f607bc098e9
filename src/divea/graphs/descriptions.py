"""Descriptions of pairs by the neighbours of both ends, for people who judge a pair."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.ids import contains, ranges
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.graphs.links import Links
from divea.graphs.names import iri_ends, readable
from divea.graphs.task import AlignmentTask
from divea.types import Ids

Numbers = npt.NDArray[np.int64]


def describe_pairs(
    task: AlignmentTask,
    source: Ids,
    target: Ids,
    names: tuple[pa.Array, pa.Array],
    most: int,
    known: Links | None = None,
) -> tuple[pa.Array, pa.Array]:
    """Some triples of both ends of each pair as text, such as "capital of: Italy; inverse born in: Romulus".

    Neighbours that match each other, by `known` or by another of the pairs, come first, in the same order
    at both ends. The others follow; those with few triples come first, because they say more about an entity
    than those that many share. Triples of an entity with itself are left out.

    Parameters
    ----------
    source, target
        The ids of both ends of each pair.
    names
        A name for each entity of both graphs.
    most
        The most triples of an end.
    known
        Pairs that match; by default the seeds.

    Examples
    --------
    >>> left = KnowledgeGraph.from_triples([("Rome", "capital of", "Italy"), ("Romulus", "born in", "Rome")])
    >>> right = KnowledgeGraph.from_triples([("Roma", "sta in", "Italia")])
    >>> task = AlignmentTask(left, right)
    >>> ends = left.find(["Rome", "Italy"]), right.find(["Roma", "Italia"])
    >>> [texts.to_pylist() for texts in describe_pairs(task, *ends, (left.names, right.names), 1)]
    [['capital of: Italy', 'inverse capital of: Rome'], ['sta in: Italia', 'inverse sta in: Roma']]
    """
    target_of = np.full(task.source.num_entities, -1, dtype=np.int64)
    known = task.seeds if known is None else known
    target_of[known.source] = known.target
    target_of[source] = target
    has_target = np.flatnonzero(target_of >= 0)
    source_of = np.full(task.target.num_entities, -1, dtype=np.int64)
    source_of[target_of[has_target]] = has_target
    left, right = _triples_of(task.source, source), _triples_of(task.target, target)
    # A neighbour matches if its counterpart is a neighbour of the other end of the same pair.
    size = task.target.num_entities + 1
    expected, present = left.row * size + target_of[left.other], right.row * size + right.other
    place = np.empty(task.source.num_entities, dtype=np.int64)
    place[np.argsort(task.source.degrees, kind="stable")] = np.arange(len(place))
    left_matches, right_matches = contains(np.sort(present), expected), contains(np.sort(expected), present)
    left_place = np.where(left_matches, place[left.other], -1)
    right_place = np.where(right_matches, place[source_of[right.other]], -1)
    rows = len(source)
    return (
        _texts(task.source, left.first(most, left_place, task.source.degrees), names[0], rows),
        _texts(task.target, right.first(most, right_place, task.target.degrees), names[1], rows),
    )


def describe_entities(graph: KnowledgeGraph, entities: Ids, names: pa.Array, most: int) -> pa.Array:
    """Some triples of each entity as text; neighbours with few triples come first.

    >>> graph = KnowledgeGraph.from_triples([("Rome", "capital of", "Italy")])
    >>> describe_entities(graph, graph.find(["Rome"]), graph.names, 1).to_pylist()
    ['capital of: Italy']
    """
    triples = _triples_of(graph, entities)
    without_place = np.full(len(triples.row), -1, dtype=np.int64)
    return _texts(graph, triples.first(most, without_place, graph.degrees), names, len(entities))


@dataclass(frozen=True)
class _Triples:
    """Triples of the entities of some rows, as seen from these entities."""

    row: Numbers
    relation: Ids
    other: Ids
    """The neighbour."""
    is_inverse: npt.NDArray[np.bool_]
    """Whether the neighbour is the head of the triple."""

    def first(self, most: int, place: Numbers, degrees: Ids) -> _Triples:
        """The first triples of each row: in order of their places, then those without one, by degree."""
        has_place = place >= 0
        value = np.where(has_place, place, degrees[self.other])
        # One number per triple sorts much faster than three; equal ones stay in the order of the graph.
        size = int(value.max(initial=0)) + 1
        order = np.argsort((2 * self.row + ~has_place) * size + value, kind="stable")
        counts = np.bincount(self.row)
        position = ranges(np.zeros_like(counts), counts)
        chosen = order[position < most]
        return _Triples(self.row[chosen], self.relation[chosen], self.other[chosen], self.is_inverse[chosen])


def _triples_of(graph: KnowledgeGraph, entities: Ids) -> _Triples:
    """The triples of the entity of each row; an entity may be that of several rows."""
    triples = np.asarray(graph.triples)
    triples = triples[triples[:, 0] != triples[:, 2]]
    owner, other = (
        np.concatenate([triples[:, 0], triples[:, 2]]),
        np.concatenate([triples[:, 2], triples[:, 0]]),
    )
    by_owner = np.argsort(owner, kind="stable")
    counts_of_owner = np.bincount(owner, minlength=graph.num_entities)
    first_of_owner = np.cumsum(counts_of_owner) - counts_of_owner
    counts = counts_of_owner[entities]
    found = by_owner[ranges(first_of_owner[entities], counts)]
    relation = np.concatenate([triples[:, 1], triples[:, 1]])
    row = np.repeat(np.arange(len(entities)), counts)
    return _Triples(row, relation[found], other[found], found >= len(triples))


def _texts(graph: KnowledgeGraph, triples: _Triples, names: pa.Array, rows: int) -> pa.Array:
    """The triples of each row as one text."""
    relations = readable(iri_ends(graph.relations).cast(LABEL)).take(pa.array(triples.relation))
    inverse = pc.binary_join_element_wise(pa.scalar("inverse", LABEL), relations, pa.scalar(" ", LABEL))
    texts = pc.binary_join_element_wise(
        pc.if_else(pa.array(triples.is_inverse), inverse, relations),
        names.take(pa.array(triples.other)),
        pa.scalar(": ", LABEL),
    )
    ends = np.concatenate([[0], np.cumsum(np.bincount(triples.row, minlength=rows))])
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), texts)
    return pc.binary_join(lists, pa.scalar("; ", LABEL))
