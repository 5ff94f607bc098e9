"""Descriptions of entities by their neighbours, for people who judge a pair."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.graphs.names import iri_ends, readable
from divea.types import Ids


def describe_neighbours(graph: KnowledgeGraph, entities: Ids, names: pa.Array, most: int) -> pa.Array:
    """Some triples of each entity as text, such as "capital of: Italy; inverse born in: Romulus".

    Neighbours with few triples come first: they say more about an entity than those that many share. Triples
    of an entity with itself are left out.

    Parameters
    ----------
    entities
        The entities to describe; an entity may be repeated.
    names
        A name for each entity of the graph.
    most
        The most triples of an entity.

    Examples
    --------
    >>> graph = KnowledgeGraph.from_triples([("Rome", "capital of", "Italy"), ("Romulus", "born in", "Rome")])
    >>> describe_neighbours(graph, graph.find(["Rome", "Italy"]), graph.names, 1).to_pylist()
    ['capital of: Italy', 'inverse capital of: Rome']
    """
    distinct, place = np.unique(entities, return_inverse=True)
    row_of_entity = np.full(graph.num_entities, -1, dtype=np.int64)
    row_of_entity[distinct] = np.arange(len(distinct))
    row, relation, other, is_inverse = _triples_of(graph, row_of_entity)
    order = np.lexsort((is_inverse, relation, other, graph.degrees[other], row))
    row = row[order]
    first = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(distinct)))])
    is_kept = np.arange(len(row)) - first[row] < most
    order, row = order[is_kept], row[is_kept]
    labels = readable(iri_ends(graph.relations).cast(LABEL))
    forward = labels.take(pa.array(relation[order]))
    backward = pc.binary_join_element_wise(pa.scalar("inverse", LABEL), forward, pa.scalar(" ", LABEL))
    texts = pc.binary_join_element_wise(
        pc.if_else(pa.array(is_inverse[order]), backward, forward),
        readable(names).take(pa.array(other[order])),
        pa.scalar(": ", LABEL),
    )
    ends = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(distinct)))])
    lists = pa.LargeListArray.from_arrays(pa.array(ends, pa.int64()), texts)
    return pc.binary_join(lists, pa.scalar("; ", LABEL)).take(pa.array(place))


def _triples_of(graph: KnowledgeGraph, row_of_entity: np.ndarray) -> tuple[np.ndarray, ...]:
    """The row, relation, neighbour and direction of each triple of an entity that has a row."""
    heads, tails = np.asarray(graph.heads), np.asarray(graph.tails)
    relations = np.asarray(graph.triples[:, 1])
    is_loop = heads == tails
    outgoing = np.flatnonzero((row_of_entity[heads] >= 0) & ~is_loop)
    incoming = np.flatnonzero((row_of_entity[tails] >= 0) & ~is_loop)
    return (
        np.concatenate([row_of_entity[heads[outgoing]], row_of_entity[tails[incoming]]]),
        np.concatenate([relations[outgoing], relations[incoming]]),
        np.concatenate([tails[outgoing], heads[incoming]]),
        np.repeat([False, True], [len(outgoing), len(incoming)]),
    )
