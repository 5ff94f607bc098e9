"""Builds a knowledge graph from a stream of label columns, in memory near that of the result."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.knowledge_graph import Attributes, KnowledgeGraph, Triples
from divea.graphs.labels import LABEL, LabelInterner
from divea.types import Ids

_LARGEST_KEY = 1 << 63


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
        self._relations = LabelInterner()
        self._predicates = LabelInterner()
        self._heads: list[Ids] = []
        self._tails: list[Ids] = []
        self._relation_codes: list[Ids] = []
        self._subjects: list[Ids] = []
        self._predicate_codes: list[Ids] = []
        self._values: list[pa.Array] = []
        self._kinds: list[pa.Array] = []

    def add_triples(self, heads: pa.Array, relations: pa.Array, tails: pa.Array) -> None:
        """Statements between entities."""
        if len(heads):
            self._heads.append(self._add_runs(heads))
            self._tails.append(self._entities.add(tails))
            self._relation_codes.append(self._relations.add(as_dictionary(relations)))

    def _add_runs(self, labels: pa.Array) -> Ids:
        """As `LabelInterner.add`, for a column whose equal values mostly stand together.

        Dumps are grouped by subject, so this looks up a quarter of the heads or less.
        """
        if pa.types.is_dictionary(labels.type):
            return self._entities.add(labels)
        runs = pc.run_end_encode(labels)
        lengths = np.diff(runs.run_ends.to_numpy(), prepend=0)
        return np.repeat(self._entities.add(runs.values), lengths)

    def add_attributes(
        self, subjects: pa.Array, predicates: pa.Array, values: pa.Array, kinds: pa.Array
    ) -> None:
        """Statements whose object is a literal; see `Attributes` for the kinds."""
        if len(subjects):
            self._subjects.append(self._add_runs(subjects))
            self._predicate_codes.append(self._predicates.add(as_dictionary(predicates)))
            self._values.append(values.cast(LABEL))
            self._kinds.append(kinds.cast(LABEL))

    def add_entities(self, labels: pa.Array) -> None:
        """Entities that may stand in no statement at all."""
        if len(labels):
            self._entities.add(labels)

    def build(self) -> KnowledgeGraph:
        """The graph; the builder is spent afterwards."""
        # What parsing used and freed is still held by Arrow; sorting needs the room.
        pa.default_memory_pool().release_unused()
        entities, entity_id = self._entities.finish()
        relations, relation_id = self._relations.finish()
        stated = sum(map(len, self._heads))
        triples = self._triples(entity_id, relation_id, len(entities), len(relations))
        return KnowledgeGraph(
            entities, relations, triples, self._attributes(entity_id), stated - len(triples)
        )

    def _triples(self, entity_id: Ids, relation_id: Ids, entities: int, relations: int) -> Triples:
        """Sorted and without copies."""
        if entities * relations * entities >= _LARGEST_KEY:
            columns = [
                _spend(self._heads, entity_id),
                _spend(self._relation_codes, relation_id),
                _spend(self._tails, entity_id),
            ]
            return np.unique(np.stack(columns, axis=1), axis=0)
        # One integer per triple sorts several times faster than rows of three, in less memory.
        keys: npt.NDArray[np.int64] = _spend(self._heads, entity_id).astype(np.int64)
        keys *= relations
        keys += _spend(self._relation_codes, relation_id)
        keys *= entities
        keys += _spend(self._tails, entity_id)
        keys.sort()
        first = _starts_of_runs(keys[1:] != keys[:-1], len(keys))
        keys = keys if first.all() else keys[first]
        triples = np.empty((len(keys), 3), dtype=np.int32)
        for column, base in ((2, entities), (1, relations)):
            np.remainder(keys, max(base, 1), out=triples[:, column], casting="unsafe")
            keys //= max(base, 1)
        triples[:, 0] = keys
        return triples

    def _attributes(self, entity_id: Ids) -> Attributes | None:
        if not self._subjects:
            return None
        subjects = _spend(self._subjects, entity_id)
        labels, predicate_id = self._predicates.finish()
        table = pa.table(
            {
                "entity": pa.array(subjects),
                "predicate": pa.array(_spend(self._predicate_codes, predicate_id)),
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


def as_dictionary(column: pa.Array) -> pa.Array:
    """A column of few distinct labels as a dictionary, so that only those are looked up."""
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array; one that is whole already is not copied."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def _spend(blocks: list[Ids], id_of_code: Ids) -> Ids:
    """Codes to ids, freeing each block as it goes."""
    ids = np.empty(sum(map(len, blocks)), dtype=np.int32)
    end = len(ids)
    while blocks:
        block = blocks.pop()
        np.take(id_of_code, block, out=ids[end - len(block) : end])
        end -= len(block)
    return ids


def _starts_of_runs(changes: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    """Which of `count` sorted rows differ from the row before them."""
    return np.concatenate([np.ones(1, dtype=bool), changes])[:count]


def _without_repeats(table: pa.Table) -> pa.Table:
    changed = np.zeros(max(len(table) - 1, 0), dtype=bool)
    for name in table.column_names:
        column = table[name]
        changed |= pc.not_equal(column[1:], column[:-1]).to_numpy()
    return table.filter(pa.array(_starts_of_runs(changed, len(table))))
