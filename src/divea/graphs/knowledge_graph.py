"""A knowledge graph as arrays: labels, triples, literals, and the adjacency that the algorithms use."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.errors import InputError
from divea.graphs.labels import Hashes, as_labels, find_labels, hash_labels
from divea.types import Ids

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Triples = npt.NDArray[np.int32]
"""Rows of head id, relation id and tail id."""

MOST_TRIPLES = (1 << 30) - 1
"""The most triples of a graph: the adjacency stores each twice and counts its entries with 32 bits."""


@dataclass(frozen=True, eq=False)
class Attributes:
    """The literals of a graph: one row per literal, sorted by entity, predicate, value and kind."""

    entities: Ids
    """The entity id of each row."""
    predicates: Ids
    """The position of each row's predicate in `predicate_labels`."""
    predicate_labels: pa.Array
    values: pa.Array
    """The literals as text."""
    kinds: pa.Array
    """How to read each value: empty for a plain string, `@en` for a language, otherwise a datatype IRI."""

    def __len__(self) -> int:
        return len(self.entities)

    def rows_by_predicate(self) -> list[npt.NDArray[np.int64]]:
        """The rows of each predicate, in the order of `predicate_labels`; each list is sorted by entity."""
        predicates = np.asarray(self.predicates)
        counts = np.bincount(predicates, minlength=len(self.predicate_labels))
        return np.split(np.argsort(predicates, kind="stable"), np.cumsum(counts)[:-1])

    def table(self) -> pa.Table:
        """The rows as an Arrow table with the columns entity, predicate (both ids), value and kind."""
        return pa.table(
            {
                "entity": pa.array(self.entities),
                "predicate": pa.array(self.predicates),
                "value": self.values,
                "kind": self.kinds,
            }
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes):
            return NotImplemented
        return self.predicate_labels.equals(other.predicate_labels) and self.table().equals(other.table())

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities, relations and the triples between them.

    Ids are positions in `entities` and `relations`, which are in the order of their labels' hashes. `triples`
    is a set, sorted by head, relation and tail. The same triples therefore give the same arrays whatever file
    they were read from.

    Create a graph with `from_triples`, `divea.read_graph` or a `GraphBuilder`; the constructor does not check
    its arguments.

    Examples
    --------
    >>> triples = [("Rome", "capitalOf", "Italy"), ("Milan", "cityIn", "Italy")]
    >>> graph = KnowledgeGraph.from_triples(triples, extra_entities=["Oslo"])
    >>> graph
    KnowledgeGraph(4 entities, 2 relations, 2 triples)
    >>> graph.label(graph.find(["Italy", "Atlantis"]))
    ['Italy', None]
    >>> graph.degrees[graph.find(["Italy", "Oslo"])].tolist()
    [2, 0]
    >>> graph.subgraph(graph.find(["Rome", "Italy"]))
    KnowledgeGraph(2 entities, 2 relations, 1 triples)
    """

    entities: pa.Array
    """The label of each entity."""
    relations: pa.Array
    """The label of each relation."""
    triples: Triples
    attributes: Attributes | None = None
    """The literals; None if there are none."""
    repeated_triples: int = 0
    """The number of triples that the input repeated; the graph contains each of them once."""

    @classmethod
    def from_triples(
        cls, triples: Iterable[tuple[str, str, str]], extra_entities: Iterable[str] = ()
    ) -> KnowledgeGraph:
        """A graph from labels.

        Parameters
        ----------
        triples
            (head, relation, tail) labels, in any order; repeated ones count once.
        extra_entities
            Labels of entities that need not be in any triple.
        """
        from divea.graphs.builder import GraphBuilder

        columns = list(zip(*triples, strict=True)) or [(), (), ()]
        builder = GraphBuilder()
        builder.add_triples(*(as_labels(column) for column in columns))
        builder.add_entities(as_labels(extra_entities))
        graph = builder.build()
        if "" in graph.relations.to_pylist() or graph.find([""])[0] >= 0:
            raise InputError("a label is empty")
        return graph

    @property
    def num_entities(self) -> int:
        return len(self.entities)

    @property
    def num_relations(self) -> int:
        return len(self.relations)

    @property
    def num_triples(self) -> int:
        return len(self.triples)

    @property
    def heads(self) -> Ids:
        return self.triples[:, 0]

    @property
    def tails(self) -> Ids:
        return self.triples[:, 2]

    def find(self, labels: Iterable[str] | pa.Array | pa.ChunkedArray) -> Ids:
        """The id of each entity label, -1 for a label that is not an entity of this graph."""
        return find_labels(as_labels(labels), self.entities, self._entity_hashes)

    def label(self, ids: npt.ArrayLike) -> list[str | None]:
        """The label of each entity id, None for an id of -1."""
        wanted = np.asarray(ids, dtype=np.int64)
        labels: list[str | None] = self.entities.take(pa.array(wanted, mask=wanted < 0)).to_pylist()
        return labels

    @cached_property
    def names(self) -> pa.Array:
        """A readable name for each entity: its label attribute if it has one, else the end of its IRI."""
        from divea.graphs.names import entity_names

        return entity_names(self)

    @cached_property
    def _entity_hashes(self) -> Hashes:
        return hash_labels(self.entities)

    @cached_property
    def degrees(self) -> Ids:
        """The number of triples of each entity; a self-loop counts once."""
        counts = np.bincount(self.heads, minlength=self.num_entities)
        other_tails = self.tails[self.heads != self.tails]
        counts += np.bincount(other_tails, minlength=self.num_entities)
        return counts.astype(np.int32)

    @property
    def adjacency(self) -> csr_array:
        """The number of triples between any two entities, as a symmetric int32 CSR matrix.

        Self-loops are left out: an entity is no evidence for itself, and algorithms that need a term for the
        entity itself add their own.
        """
        # Not a cached_property: before Python 3.12, all graphs share its lock and would wait for each other.
        if "_adjacency" not in self.__dict__:
            self.__dict__["_adjacency"] = self._count_adjacency()
        adjacency: csr_array = self.__dict__["_adjacency"]
        return adjacency

    def _count_adjacency(self) -> csr_array:
        from scipy.sparse import csr_array

        if self.num_triples > MOST_TRIPLES:
            raise InputError(f"{self.num_triples} triples; divea handles graphs of at most {MOST_TRIPLES}")
        is_loop = self.heads == self.tails
        heads, tails = self.heads[~is_loop], self.tails[~is_loop]
        # Triples are sorted by head, so the tails already are the column indices of a CSR matrix.
        counts = np.bincount(heads, minlength=self.num_entities)
        row_ends = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(counts, dtype=np.int32)])
        shape = self.num_entities, self.num_entities
        outgoing = csr_array((np.ones(len(tails), dtype=np.int32), tails, row_ends), shape=shape)
        outgoing.sum_duplicates()
        return outgoing + outgoing.T.tocsr()

    def subgraph(self, entity_ids: npt.ArrayLike) -> KnowledgeGraph:
        """The graph of these entities and of the triples between them.

        All the given entities are kept, including those without a triple, and they are numbered in the order
        of their ids here. All relations are kept with their ids. Attributes are left out.

        The time depends on the triples of the given entities and hardly on the size of this graph.
        """
        kept = np.asarray(entity_ids, dtype=np.int32)
        if not (kept[1:] > kept[:-1]).all():
            kept = np.unique(kept)
        if len(kept) == 0:
            return KnowledgeGraph(self.entities[:0], self.relations, self.triples[:0])
        triples, counts = self._triples_of_heads(kept)
        tails, is_kept = _ranks_among(kept, triples[:, 2], self.num_entities)
        triples[:, 0] = np.arange(len(kept), dtype=np.int32).repeat(counts)
        triples[:, 2] = tails
        inner = triples.compress(is_kept, axis=0)
        return KnowledgeGraph(self.entities.take(pa.array(kept)), self.relations, inner)

    def _triples_of_heads(self, heads: Ids) -> tuple[Triples, npt.NDArray[np.int64]]:
        """A copy of the triples that have these heads, and the number of triples of each head."""
        first = self._first_triple_of_head.take(heads)
        counts = self._first_triple_of_head.take(heads + 1) - first
        # The rows first, first + 1, ... of each head, one head after the other.
        rows_before = counts.cumsum() - counts
        rows = np.arange(counts.sum()) + (first - rows_before).repeat(counts)
        return np.asarray(self.triples).take(rows, axis=0), counts

    @cached_property
    def _first_triple_of_head(self) -> npt.NDArray[np.int64]:
        """The row of each head's first triple, followed by the number of triples."""
        counts = np.bincount(self.heads, minlength=self.num_entities)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KnowledgeGraph):
            return NotImplemented
        return (
            self.entities.equals(other.entities)
            and self.relations.equals(other.relations)
            and np.array_equal(self.triples, other.triples)
            and self.attributes == other.attributes
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"KnowledgeGraph({self.num_entities} entities, {self.num_relations} relations, "
            f"{self.num_triples} triples)"
        )


def _ranks_among(kept: Ids, ids: Ids, size: int) -> tuple[Ids, npt.NDArray[np.bool_]]:
    """The rank of each id in the sorted array `kept`, and whether the id is in it at all.

    The ranks come from a table of all `size` ids, which is much faster here than a binary search per id. An
    id that is not in `kept` has rank 0 in the table, and is recognised because it is not the first of `kept`.
    """
    rank_of_id = np.zeros(size, dtype=np.int32)
    rank_of_id[kept] = np.arange(len(kept), dtype=np.int32)
    ranks = rank_of_id.take(ids)
    return ranks, kept.take(ranks) == ids
