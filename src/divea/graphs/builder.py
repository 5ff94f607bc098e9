"""Builds a knowledge graph from batches of label columns, in little more memory than the graph itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.knowledge_graph import Attributes, KnowledgeGraph, Triples
from divea.graphs.labels import LABEL, LabelInterner
from divea.types import Ids

_KEY_LIMIT = 1 << 63
"""Keys of triples are signed 64-bit integers and must be below this."""


class GraphBuilder:
    """Collects columns of labels, batch by batch, and builds one `KnowledgeGraph` from them.

    Batches are kept as codes of four bytes per label; only distinct labels are kept as text. The order of
    the batches and of their rows has no effect on the graph.

    Examples
    --------
    >>> from divea.graphs.labels import as_labels
    >>> builder = GraphBuilder()
    >>> builder.add_triples(as_labels(["a", "b"]), as_labels(["r", "r"]), as_labels(["b", "c"]))
    >>> builder.add_triples(as_labels(["a"]), as_labels(["s"]), as_labels(["c"]))
    >>> builder.build()
    KnowledgeGraph(3 entities, 2 relations, 3 triples)
    """

    def __init__(self) -> None:
        self._entities = LabelInterner()
        self._relations = LabelInterner()
        self._predicates = LabelInterner()
        # Columns of triples, as blocks of codes.
        self._heads: list[Ids] = []
        self._relation_codes: list[Ids] = []
        self._tails: list[Ids] = []
        # Columns of attributes.
        self._subjects: list[Ids] = []
        self._predicate_codes: list[Ids] = []
        self._values: list[pa.Array] = []
        self._kinds: list[pa.Array] = []

    def add_triples(self, heads: pa.Array, relations: pa.Array, tails: pa.Array) -> None:
        """Add triples between entities: three columns of labels, plain or dictionary-encoded."""
        if len(heads):
            self._heads.append(self._add_grouped_entities(heads))
            self._tails.append(self._entities.add(tails))
            self._relation_codes.append(self._relations.add(_dictionary_encoded(relations)))

    def add_attributes(
        self, subjects: pa.Array, predicates: pa.Array, values: pa.Array, kinds: pa.Array
    ) -> None:
        """Add literals of entities.

        Parameters
        ----------
        subjects, predicates
            Columns of labels, plain or dictionary-encoded.
        values, kinds
            The literals and how to read them; see `Attributes`.
        """
        if len(subjects):
            self._subjects.append(self._add_grouped_entities(subjects))
            self._predicate_codes.append(self._predicates.add(_dictionary_encoded(predicates)))
            self._values.append(values.cast(LABEL))
            self._kinds.append(kinds.cast(LABEL))

    def add_entities(self, labels: pa.Array) -> None:
        """Add entities that need not be in any triple."""
        if len(labels):
            self._entities.add(labels)

    def build(self) -> KnowledgeGraph:
        """The graph of everything that was added. The builder cannot be used afterwards."""
        # Arrow still holds the memory that parsing used, and sorting needs it.
        pa.default_memory_pool().release_unused()
        entities, entity_id = self._entities.finish()
        relations, relation_id = self._relations.finish()
        added = sum(map(len, self._heads))
        triples = self._sorted_triples(entity_id, relation_id, len(entities), len(relations))
        attributes = self._sorted_attributes(entity_id)
        return KnowledgeGraph(entities, relations, triples, attributes, added - len(triples))

    def _add_grouped_entities(self, labels: pa.Array) -> Ids:
        """The codes of a column in which equal labels are mostly consecutive.

        Dumps are grouped by subject, so only the first label of each run of equal labels is looked up: a
        quarter of the heads or less.
        """
        if pa.types.is_dictionary(labels.type):
            return self._entities.add(labels)
        runs = pc.run_end_encode(labels)
        lengths = np.diff(runs.run_ends.to_numpy(), prepend=0)
        return np.repeat(self._entities.add(runs.values), lengths)

    def _sorted_triples(self, entity_id: Ids, relation_id: Ids, entities: int, relations: int) -> Triples:
        """The distinct triples as ids, sorted by head, relation and tail."""
        if entities * relations * entities >= _KEY_LIMIT:
            columns = [
                _ids_of_codes(self._heads, entity_id),
                _ids_of_codes(self._relation_codes, relation_id),
                _ids_of_codes(self._tails, entity_id),
            ]
            return np.unique(np.stack(columns, axis=1), axis=0)
        # One integer per triple sorts several times faster than rows of three, in less memory.
        keys: npt.NDArray[np.int64] = _ids_of_codes(self._heads, entity_id).astype(np.int64)
        keys *= relations
        keys += _ids_of_codes(self._relation_codes, relation_id)
        keys *= entities
        keys += _ids_of_codes(self._tails, entity_id)
        keys.sort()
        is_first = _differs_from_previous(keys[1:] != keys[:-1], len(keys))
        if not is_first.all():
            keys = keys[is_first]
        return _triples_of_keys(keys, entities, relations)

    def _sorted_attributes(self, entity_id: Ids) -> Attributes | None:
        """The distinct literals, sorted by all columns; None if there are none."""
        if not self._subjects:
            return None
        subjects = _ids_of_codes(self._subjects, entity_id)
        predicate_labels, predicate_id = self._predicates.finish()
        table = pa.table(
            {
                "entity": pa.array(subjects),
                "predicate": pa.array(_ids_of_codes(self._predicate_codes, predicate_id)),
                "value": pa.chunked_array(self._values),
                "kind": pa.chunked_array(self._kinds),
            }
        )
        return _attributes_of(table, predicate_labels)


def add_literals(
    graph: KnowledgeGraph, entities: Ids, predicate: str, values: pa.Array, kinds: pa.Array | None = None
) -> KnowledgeGraph:
    """The graph with further literals of one predicate; literals that it already has count once.

    Parameters
    ----------
    entities
        The entity id of each literal.
    predicate
        The label of the predicate, which the graph may have or not.
    values, kinds
        The literals and how to read them; see `Attributes`. Without kinds they are plain strings.

    Examples
    --------
    >>> from divea.graphs.labels import as_labels
    >>> graph = KnowledgeGraph.from_triples([("Rome", "capitalOf", "Italy")])
    >>> named = add_literals(graph, graph.find(["Rome", "Rome"]), "name", as_labels(["Roma", "Rom"]))
    >>> named.attributes.values.to_pylist()
    ['Rom', 'Roma']
    """
    if not len(entities):
        return graph
    interner = LabelInterner()
    added = pa.table(
        {
            "entity": pa.array(entities, pa.int32()),
            "predicate": pa.array(interner.add(pa.array([predicate], LABEL)).repeat(len(entities))),
            "value": values.cast(LABEL),
            "kind": pa.repeat(pa.scalar("", LABEL), len(entities)) if kinds is None else kinds.cast(LABEL),
        }
    )
    tables = [added]
    if graph.attributes is not None:
        code_of_predicate = interner.add(graph.attributes.predicate_labels)
        codes = pa.array(code_of_predicate[graph.attributes.predicates])
        tables.append(graph.attributes.table().set_column(1, "predicate", codes))
    table = pa.concat_tables(tables)
    predicate_labels, id_of_code = interner.finish()
    table = table.set_column(1, "predicate", pa.array(id_of_code[table["predicate"].to_numpy()]))
    return replace(graph, attributes=_attributes_of(table, predicate_labels))


def _attributes_of(table: pa.Table, predicate_labels: pa.Array) -> Attributes:
    """The distinct rows of a table of literals, sorted by all columns."""
    order = pc.sort_indices(table, [(name, "ascending") for name in table.column_names])
    table = _without_repeats(table.take(order).combine_chunks())
    return Attributes(
        table["entity"].to_numpy(),
        table["predicate"].to_numpy(),
        predicate_labels,
        as_one_array(table["value"]),
        as_one_array(table["kind"]),
    )


def as_one_array(column: pa.ChunkedArray) -> pa.Array:
    """A chunked column as one array; a column of one chunk is not copied."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], type=column.type)


def _dictionary_encoded(column: pa.Array) -> pa.Array:
    """A column of few distinct labels as a dictionary, so that only those are looked up."""
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def _ids_of_codes(blocks: list[Ids], id_of_code: Ids) -> Ids:
    """The ids of all codes as one array; empties `blocks`, so that each block is freed once it is copied."""
    ids = np.empty(sum(map(len, blocks)), dtype=np.int32)
    end = len(ids)
    while blocks:
        block = blocks.pop()
        np.take(id_of_code, block, out=ids[end - len(block) : end])
        end -= len(block)
    return ids


def _triples_of_keys(keys: npt.NDArray[np.int64], entities: int, relations: int) -> Triples:
    """The triples with the keys (head * relations + relation) * entities + tail; overwrites `keys`."""
    triples = np.empty((len(keys), 3), dtype=np.int32)
    for column, base in ((2, entities), (1, relations)):
        # An empty graph has no entities or relations, and nothing to divide.
        np.remainder(keys, max(base, 1), out=triples[:, column], casting="unsafe")
        keys //= max(base, 1)
    triples[:, 0] = keys
    return triples


def _differs_from_previous(changes: npt.NDArray[np.bool_], count: int) -> npt.NDArray[np.bool_]:
    """Which of `count` rows are the first or differ from the row before; `changes` leaves out the first."""
    return np.concatenate([np.ones(1, dtype=bool), changes])[:count]


def _without_repeats(table: pa.Table) -> pa.Table:
    """The distinct rows of a sorted table."""
    changes = np.zeros(max(len(table) - 1, 0), dtype=bool)
    for name in table.column_names:
        column = table[name]
        changes |= pc.not_equal(column[1:], column[:-1]).to_numpy()
    return table.filter(pa.array(_differs_from_previous(changes, len(table))))
