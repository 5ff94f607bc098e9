"""A knowledge graph as arrays: labels, triples, and the adjacency that the algorithms read."""

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


@dataclass(frozen=True, eq=False)
class Attributes:
    """Literals of a graph, one row per statement, sorted by entity and predicate.

    `kinds` says how to read a value: empty for a plain string, `@en` for a language, otherwise
    the IRI of a datatype.
    """

    entities: Ids
    predicates: Ids
    predicate_labels: pa.Array
    values: pa.Array
    kinds: pa.Array

    def __len__(self) -> int:
        return len(self.entities)

    def table(self) -> pa.Table:
        """The rows as an Arrow table, without the labels."""
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


Triples = npt.NDArray[np.int32]

MOST_TRIPLES = (1 << 30) - 1
"""Each is stored twice in the adjacency, whose entries are counted with 32 bits."""


@dataclass(frozen=True, eq=False)
class KnowledgeGraph:
    """Entities, relations and the triples between them.

    Ids are positions in `entities` and `relations`, which stand in the order of their labels'
    hashes; `triples` is a set, sorted by head, relation, tail. So the same statements give the
    same arrays whatever the file they came from. Make one with `from_triples`, with
    `divea.read_graph`, or with a `GraphBuilder`.

    >>> graph = KnowledgeGraph.from_triples([("Rome", "capitalOf", "Italy")], extra_entities=["Oslo"])
    >>> graph
    KnowledgeGraph(3 entities, 1 relations, 1 triples)
    >>> graph.label(graph.find(["Italy", "Atlantis"]))
    ['Italy', None]
    """

    entities: pa.Array
    relations: pa.Array
    triples: Triples
    attributes: Attributes | None = None
    repeated_triples: int = 0
    """How many statements the files made more than once; a graph holds each one once."""

    @classmethod
    def from_triples(
        cls, triples: Iterable[tuple[str, str, str]], extra_entities: Iterable[str] = ()
    ) -> KnowledgeGraph:
        """A graph from (head, relation, tail) labels; `extra_entities` may stand in no triple."""
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

    @cached_property
    def _entity_hashes(self) -> Hashes:
        return hash_labels(self.entities)

    def find(self, labels: Iterable[str] | pa.Array | pa.ChunkedArray) -> Ids:
        """The id of each entity label, -1 for a label that is not an entity of this graph."""
        return find_labels(as_labels(labels), self.entities, self._entity_hashes)

    def label(self, ids: npt.ArrayLike) -> list[str | None]:
        """The label of each entity id, None for an id of -1."""
        wanted = np.asarray(ids, dtype=np.int64)
        labels: list[str | None] = self.entities.take(pa.array(wanted, mask=wanted < 0)).to_pylist()
        return labels

    @property
    def adjacency(self) -> csr_array:
        """Undirected neighbours as int32 CSR; the value is how many triples join the two.

        Both directions are stored and self-loops are left out: an entity is no evidence for
        itself, and the algorithms add their own term for it where they want one.
        """
        # Not a cached_property: until Python 3.12 two graphs would wait for each other at its lock.
        if "_adjacency" not in self.__dict__:
            self.__dict__["_adjacency"] = self._find_adjacency()
        found: csr_array = self.__dict__["_adjacency"]
        return found

    def _find_adjacency(self) -> csr_array:
        from scipy.sparse import csr_array

        if self.num_triples > MOST_TRIPLES:
            raise InputError(f"{self.num_triples} triples; divea handles graphs of at most {MOST_TRIPLES}")
        proper = self.heads != self.tails
        heads, tails = self.heads[proper], self.tails[proper]
        # Triples are sorted by head, so one direction is stored as it stands, and the other is its transpose.
        counts = np.bincount(heads, minlength=self.num_entities)
        ends = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(counts, dtype=np.int32)])
        shape = self.num_entities, self.num_entities
        out = csr_array((np.ones(len(tails), dtype=np.int32), tails, ends), shape=shape)
        out.sum_duplicates()  # the multiplicity
        return out + out.T.tocsr()

    @cached_property
    def degrees(self) -> Ids:
        """Number of triples each entity stands in (a self-loop counts once)."""
        counts = np.bincount(self.heads, minlength=self.num_entities)
        loose = self.tails[self.heads != self.tails]
        counts += np.bincount(loose, minlength=self.num_entities)
        return counts.astype(np.int32)

    @cached_property
    def _triples_of_head(self) -> npt.NDArray[np.int64]:
        """Where each head's triples begin; one entry more than entities."""
        counts = np.bincount(self.heads, minlength=self.num_entities)
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])

    def subgraph(self, entity_ids: npt.ArrayLike) -> KnowledgeGraph:
        """The graph between these entities, all of them kept; relations keep their ids.

        Entities are renumbered by their rank in `entity_ids` sorted, so the order of ids, and
        with it every invariant of this class, is kept. Attributes are left behind.
        """
        kept = np.asarray(entity_ids, dtype=np.int32)
        if not (np.diff(kept) > 0).all():
            kept = np.unique(kept)
        if len(kept) == 0:
            return KnowledgeGraph(self.entities[:0], self.relations, self.triples[:0])
        # Triples are sorted by head, so only those of the kept heads are read: a small subgraph
        # of a large graph costs no pass over the large one.
        first, end = self._triples_of_head.take(kept), self._triples_of_head.take(kept + 1)
        counts = end - first
        rows = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        triples = np.asarray(self.triples).take(rows, axis=0)
        # Where an entity stands among the kept. The table is never cleared, which would be such a pass:
        # for others it holds anything, and the look back tells.
        place = np.empty(self.num_entities, dtype=np.uint32)
        place[kept] = np.arange(len(kept), dtype=np.uint32)
        tails = np.minimum(place.take(triples[:, 2]), len(kept) - 1).astype(np.int32)
        inside = kept.take(tails) == triples[:, 2]
        triples[:, 0] = np.repeat(np.arange(len(kept), dtype=np.int32), counts)
        triples[:, 2] = tails
        inner = triples.compress(inside, axis=0)
        return KnowledgeGraph(self.entities.take(pa.array(kept)), self.relations, inner)

    @cached_property
    def names(self) -> pa.Array:
        """A human-readable name for each entity: its label attribute, else the end of its IRI."""
        from divea.graphs.names import entity_names

        return entity_names(self)

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
