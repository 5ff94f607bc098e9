"""Builds a knowledge graph from a stream of label columns, in memory near that of the result."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.attributes import Attributes
from divea.graphs.knowledge_graph import KnowledgeGraph, Triples
from divea.graphs.labels import LABEL, Hashes, Ids, LabelInterner, hash_labels, rank_of


class _Vocabulary:
    """Codes for the few labels of relations and attribute predicates, in order of arrival."""

    def __init__(self) -> None:
        self._code: dict[str, int] = {}

    def encode(self, column: pa.Array) -> Ids:
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = [self._code.setdefault(label, len(self._code)) for label in column.dictionary.to_pylist()]
        return np.array(codes, dtype=np.int32)[column.indices.to_numpy(zero_copy_only=False)]

    def finish(self) -> tuple[pa.Array, Ids]:
        """The labels in hash order, and the final id of each code."""
        labels = pa.array(list(self._code), type=LABEL)
        order = np.argsort(hash_labels(labels))
        final = np.empty(len(order), dtype=np.int32)
        final[order] = np.arange(len(order), dtype=np.int32)
        return labels.take(pa.array(order)), final


class GraphBuilder:
    """Takes columns of labels, batch by batch, and gives one `KnowledgeGraph` at the end.

    >>> from divea.graphs.labels import as_labels
    >>> builder = GraphBuilder()
    >>> builder.add_triples(as_labels(["a", "b"]), as_labels(["r", "r"]), as_labels(["b", "c"]))
    >>> builder.build()
    KnowledgeGraph(3 entities, 1 relations, 2 triples)
    """

    def __init__(self) -> None:
        self._entities = LabelInterner()
        self._relations = _Vocabulary()
        self._predicates = _Vocabulary()
        self._heads: list[Hashes] = []
        self._tails: list[Hashes] = []
        self._relation_codes: list[Ids] = []
        self._subjects: list[Hashes] = []
        self._predicate_codes: list[Ids] = []
        self._values: list[pa.Array] = []
        self._kinds: list[pa.Array] = []

    def add_triples(self, heads: pa.Array, relations: pa.Array, tails: pa.Array) -> None:
        """Statements between entities."""
        if len(heads):
            self._heads.append(self._entities.add(heads))
            self._tails.append(self._entities.add(tails))
            self._relation_codes.append(self._relations.encode(relations))

    def add_attributes(
        self, subjects: pa.Array, predicates: pa.Array, values: pa.Array, kinds: pa.Array
    ) -> None:
        """Statements whose object is a literal; see `Attributes` for the kinds."""
        if len(subjects):
            self._subjects.append(self._entities.add(subjects))
            self._predicate_codes.append(self._predicates.encode(predicates))
            self._values.append(values.cast(LABEL))
            self._kinds.append(kinds.cast(LABEL))

    def add_entities(self, labels: pa.Array) -> None:
        """Entities that may stand in no statement at all."""
        if len(labels):
            self._entities.add(labels)

    def build(self) -> KnowledgeGraph:
        """The graph; the builder is spent afterwards."""
        entities, hashes = self._entities.finish()
        heads, tails = _spend(self._heads, hashes), _spend(self._tails, hashes)
        relations, relation_id = self._relations.finish()
        codes = _concatenate(self._relation_codes)
        triples, repeated = _sorted_set(heads, relation_id[codes], tails, len(entities), len(relations))
        return KnowledgeGraph(entities, relations, triples, self._attributes(hashes), repeated)

    def _attributes(self, hashes: Hashes) -> Attributes | None:
        if not self._subjects:
            return None
        subjects = _spend(self._subjects, hashes)
        labels, predicate_id = self._predicates.finish()
        table = pa.table(
            {
                "entity": pa.array(subjects),
                "predicate": pa.array(predicate_id[_concatenate(self._predicate_codes)]),
                "value": pa.chunked_array(self._values),
                "kind": pa.chunked_array(self._kinds),
            }
        )
        # Sorted and without copies, so that the order of the file leaves no trace.
        order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
        table = _without_repeats(table.take(order).combine_chunks())
        return Attributes(
            table["entity"].to_numpy(),
            table["predicate"].to_numpy(),
            labels,
            as_one_array(table["value"]),
            as_one_array(table["kind"]),
        )


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array, whatever the number of its chunks."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def _spend(blocks: list[Hashes], known: Hashes) -> Ids:
    """Hashes to ids, freeing each block as it goes."""
    ids = np.empty(sum(map(len, blocks)), dtype=np.int32)
    at = len(ids)
    while blocks:
        block = blocks.pop()
        ids[at - len(block) : at] = rank_of(block, known)
        at -= len(block)
    return ids


def _concatenate(blocks: list[Ids]) -> Ids:
    return np.concatenate(blocks) if blocks else np.zeros(0, dtype=np.int32)


def _sorted_set(
    heads: Ids, relations: Ids, tails: Ids, num_entities: int, num_relations: int
) -> tuple[Triples, int]:
    """Triples sorted and without copies, and how many copies there were."""
    if num_entities * num_relations * num_entities < 1 << 63:
        # One integer per triple sorts several times faster than three columns.
        keys: npt.NDArray[np.int64] = heads.astype(np.int64)
        keys *= num_relations
        keys += relations
        keys *= num_entities
        keys += tails
        keys.sort()
        keys = keys[_starts_of_runs(keys[1:] != keys[:-1], len(keys))]
        triples = np.empty((len(keys), 3), dtype=np.int32)
        np.remainder(keys, max(num_entities, 1), out=triples[:, 2], casting="unsafe")
        keys //= max(num_entities, 1)
        np.remainder(keys, max(num_relations, 1), out=triples[:, 1], casting="unsafe")
        keys //= max(num_relations, 1)
        triples[:, 0] = keys
    else:
        triples = np.stack([heads, relations, tails], axis=1)[np.lexsort((tails, relations, heads))]
        changes = (triples[1:] != triples[:-1]).any(axis=1)
        triples = triples[_starts_of_runs(changes, len(triples))]
    return triples, len(heads) - len(triples)


def _starts_of_runs(changes: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    """Which of `count` sorted rows differ from the row before them."""
    return np.concatenate([np.ones(1, dtype=bool), changes])[:count]


def _without_repeats(table: pa.Table) -> pa.Table:
    changed = np.zeros(max(len(table) - 1, 0), dtype=bool)
    for name in table.column_names:
        column = table[name]
        changed |= pc.not_equal(column[1:], column[:-1]).to_numpy()
    return table.filter(pa.array(_starts_of_runs(changed, len(table))))
