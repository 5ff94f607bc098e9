"""Attributes of entities as objects: tables, Python triples, or a mapping of mappings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from divea.config.group import shown_value
from divea.errors import InputError
from divea.formats.label_columns import labels_of_column, require_label_columns
from divea.formats.python_values import each_value, labels_of, literals_of_column, literals_of_values
from divea.formats.sniff import GRAPH_HEADERS
from divea.formats.table_objects import ROWS, TableObject, one_array
from divea.graphs import GraphBuilder
from divea.graphs.labels import LABEL

TRIPLE_HEADERS = (("entity", "property", "value"), ("entity", "attribute", "value"), *GRAPH_HEADERS)
"""The column names that mark a table of attribute triples."""


def add_attributes(builder: GraphBuilder, given: Any, where: str) -> None:
    """Add attributes to a graph.

    A table with the columns of one of `TRIPLE_HEADERS` has a row for each literal. In any other table, each
    row is an entity: the first column has its label, and each further column is a property. Missing values
    are left out.

    Parameters
    ----------
    given
        A table; an iterable of triples (entity, property, value); or a mapping of entities to mappings of
        properties to values. In the latter two, a list, tuple or set stands for several values.
    where
        The argument that they were given as, for messages.
    """
    table = TableObject.of(given, where)
    if table is not None:
        positions = table.find(TRIPLE_HEADERS)
        if positions is None:
            _add_wide(builder, table)
        else:
            _add_long(builder, table, positions)
    elif isinstance(given, Mapping):
        add_values(
            builder,
            (
                (entity, name, value)
                for entity, values in given.items()
                for name, value in _properties(entity, values, where)
            ),
            where,
        )
    else:
        rows = rows_of(given, ("entity", "property", "value"), where, "a table, a dict of dicts")
        add_values(builder, rows, where)


def add_values(builder: GraphBuilder, triples: Iterable[Iterable[Any]], where: str) -> None:
    """Add literals from triples (entity, property, value); a list, tuple or set stands for several values."""
    rows = [(entity, name, one) for entity, name, value in triples for one in each_value(value)]
    entities, names, values = zip(*rows, strict=True) if rows else ((), (), ())
    texts, kinds = literals_of_values(values, names, where)
    _add(builder, labels_of(entities, where), labels_of(names, where), texts, kinds)


def rows_of(given: Any, names: tuple[str, ...], where: str, other: str = "a table") -> list[Iterable[Any]]:
    """The rows of an iterable of tuples or lists. Raises InputError if one does not have an item per name.

    Parameters
    ----------
    other
        What else may be given, for messages.
    """
    expected = f"({', '.join(names)})"
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        found = f"{type(given).__module__}.{type(given).__qualname__}".removeprefix("builtins.")
        raise InputError(f"expected {other} or tuples {expected}; found {found}", path=where)
    rows = list(given)
    for at, row in enumerate(rows, start=1):
        # Text has a length, too, and is no row.
        if isinstance(row, str | bytes | Mapping) or not hasattr(row, "__len__") or len(row) != len(names):
            raise InputError(f"item {at} is no tuple {expected}: {shown_value(row)}", path=where)
    return rows


def _properties(entity: Any, values: Any, where: str) -> Iterable[tuple[Any, Any]]:
    if not isinstance(values, Mapping):
        found = type(values).__name__
        raise InputError(
            f"expected a mapping of properties to values for each entity; found {found}", path=where
        )
    return values.items()


def _add_long(builder: GraphBuilder, table: TableObject, positions: list[int]) -> None:
    subject, predicate, value = positions
    texts, kind = literals_of_column(table.column(value), table.names[value], table.where)
    _add_columns(builder, table, subject, table.column(predicate), texts, kind)


def _add_wide(builder: GraphBuilder, table: TableObject) -> None:
    if len(table.names) < 2:
        message = "expected the columns entity, property and value, or an entity and a column per property"
        raise InputError(f"{message}; found {', '.join(table.names) or 'none'}", path=table.where)
    for at, name in enumerate(table.names[1:], start=1):
        if table.names.count(name) > 1:
            raise InputError(f"the column '{name}' appears twice", path=table.where)
        texts, kind = literals_of_column(table.column(at), name, table.where)
        predicates = pa.DictionaryArray.from_arrays(
            pa.repeat(pa.scalar(0, pa.int32()), len(texts)), labels_of([name], table.where)
        )
        _add_columns(builder, table, 0, predicates, texts, kind)


def _add_columns(
    builder: GraphBuilder,
    table: TableObject,
    subject: int,
    predicates: pa.Array | pa.ChunkedArray,
    texts: pa.Array | pa.ChunkedArray,
    kind: str,
) -> None:
    subjects = table.column(subject)
    require_label_columns(pa.schema([("entity", subjects.type)]), ["entity"], table.where)
    require_label_columns(pa.schema([("property", predicates.type)]), ["property"], table.where)
    if subjects.null_count:
        message = f"the column '{table.names[subject]}' has {subjects.null_count} missing values"
        raise InputError(message, path=table.where)
    rows = pa.table({"entity": subjects, "property": predicates, "value": texts})
    for batch in rows.to_batches(max_chunksize=ROWS):
        _add(
            builder,
            labels_of_column(batch["entity"], table.names[subject], table.where),
            labels_of_column(batch["property"], "property", table.where),
            batch["value"],
            pa.repeat(pa.scalar(kind, LABEL), len(batch)),
        )


def _add(
    builder: GraphBuilder, entities: pa.Array, predicates: pa.Array, texts: pa.Array, kinds: pa.Array
) -> None:
    """Add the literals that are not missing; all entities are part of the graph."""
    builder.add_entities(entities)
    is_literal = texts.is_valid()
    builder.add_attributes(
        *(one_array(column).filter(is_literal) for column in (entities, predicates, texts, kinds))
    )
