"""`divea.make_task`: a task from Python objects, such as DataFrames, or from files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from divea.formats.attribute_objects import rows_of
from divea.formats.graph_objects import graph_of
from divea.formats.label_columns import labels_of_column
from divea.formats.name_files import COLUMNS as NAME_COLUMNS
from divea.formats.python_values import each_value, is_missing, labels_of
from divea.formats.table_objects import TableObject, is_series, one_array
from divea.formats.task_folders import links_between, resolve_links, task_of, with_names
from divea.graphs import AlignmentTask, KnowledgeGraph, Links

LINK_COLUMNS = ("source", "target")
"""The columns of a table of seeds."""


def make_task(
    source: Any,
    target: Any,
    seeds: Any = None,
    *,
    source_attributes: Any = None,
    target_attributes: Any = None,
    source_names: Any = None,
    target_names: Any = None,
    skip_unknown_seeds: bool = False,
    skip_unknown_names: bool = False,
    keep_schema: bool = False,
) -> AlignmentTask:
    """Make a task from two graphs and, if there are any, known matches between them.

    Tables are those of pandas, polars and pyarrow, and of every library with the Arrow C stream protocol.
    Labels are text; integers become text. The index of a DataFrame is not read; a DataFrame
    whose index has the name of no column is refused.

    Parameters
    ----------
    source, target
        Graphs: a file that `read_graph` reads; a table with the columns head, relation and tail, or with
        three columns in this order; a graph of rdflib or networkx; an iterable of triples; or a
        `KnowledgeGraph`.
    seeds
        Known matches: a table with the columns source and target, or with two columns in this order; a
        dict of source labels to target labels; an iterable of pairs of labels; a file of links; or `Links`.
    source_attributes, target_attributes
        Literals of the entities: a table with the columns entity, property and value; a table with a row per
        entity, whose first column has the entity and whose other columns are properties; an iterable of
        triples (entity, property, value); or a dict of dicts, entity to property to value. Missing values are
        left out.
    source_names, target_names
        Names of the entities, which are preferred to other names: a table with the columns entity and name,
        a dict or a pandas Series of entities to names, an iterable of pairs, or a file. An entity may have
        several names; missing names are left out.
    skip_unknown_seeds, skip_unknown_names
        Leave out seeds, or names, of unknown entities instead of refusing them.
    keep_schema
        Align the classes and properties of RDF files and of graphs of rdflib too; by default they are left
        out, with the triples about them.

    Examples
    --------
    >>> task = make_task(
    ...     [("Rome", "capital of", "Italy"), ("Oslo", "capital of", "Norway")],
    ...     [("Roma", "capitale di", "Italia"), ("Oslo", "capitale di", "Norvegia")],
    ...     seeds={"Italy": "Italia"},
    ...     source_attributes={"Rome": {"founded": -753}},
    ... )
    >>> task.source, task.seeds, task.source.attributes.values.to_pylist()
    (KnowledgeGraph(4 entities, 1 relations, 2 triples), Links(1), ['-753'])
    """
    left = graph_of(source, source_attributes, where="source", keep_schema=keep_schema)
    right = graph_of(target, target_attributes, where="target", keep_schema=keep_schema)
    links = links_of(seeds, left, right, where="seeds", skip_unknown=skip_unknown_seeds)
    task = task_of(left, right, links, seeds if isinstance(seeds, str | Path) else "seeds")
    names = given_names(source_names, "source_names"), given_names(target_names, "target_names")
    return with_names(task, *names, skip_unknown=skip_unknown_names)


def links_of(
    given: Any, source: KnowledgeGraph, target: KnowledgeGraph, *, where: str, skip_unknown: bool = False
) -> Links:
    """Links from what `make_task` takes as seeds.

    Parameters
    ----------
    where
        The argument that they were given as, for messages.
    """
    if given is None or isinstance(given, Links):
        return Links.from_pairs([]) if given is None else given
    if isinstance(given, str | Path):
        return resolve_links(given, source, target, skip_unknown=skip_unknown)
    left, right = _pairs(given, LINK_COLUMNS, where)
    if not len(left):
        return Links.from_pairs([])
    return links_between(left, right, source, target, path=where, skip_unknown=skip_unknown)


def given_names(given: Any, where: str) -> str | Path | pa.Table | None:
    """Names as a table with the columns entity and name; text, such as a path, stays as it is.

    Parameters
    ----------
    given
        A path, or one of the objects that `make_task` takes.
    where
        The argument that they were given as, for messages.
    """
    if given is None or isinstance(given, str | Path):
        return given
    if (isinstance(given, Mapping) or is_series(given)) or TableObject.of(given, where) is None:
        rows = [
            (entity, name)
            for entity, names in _items(given, NAME_COLUMNS, where)
            for name in each_value(names)
            if not is_missing(name)
        ]
        entities, texts = zip(*rows, strict=True) if rows else ((), ())
        columns = [labels_of(entities, where), labels_of(texts, where)]
    else:
        columns = list(_pairs(given, NAME_COLUMNS, where, optional="name"))
    return pa.table(columns, names=list(NAME_COLUMNS))


def _pairs(
    given: Any, columns: tuple[str, str], where: str, optional: str | None = None
) -> tuple[pa.Array, pa.Array]:
    """Two columns of labels; rows of a table without a value in the optional column are left out."""
    table = None if isinstance(given, Mapping) or is_series(given) else TableObject.of(given, where)
    if table is None:
        rows = _items(given, columns, where)
        left, right = zip(*rows, strict=True) if rows else ((), ())
        return labels_of(left, where), labels_of(right, where)
    found = table.labels([columns], optional)
    first, second = (labels_of_column(one_array(found[name]), name, where) for name in columns)
    return first, second


def _items(given: Any, columns: tuple[str, str], where: str) -> list[Any]:
    """The pairs of a mapping, a Series or an iterable."""
    if isinstance(given, Mapping) or is_series(given):
        return list(given.items())
    return rows_of(given, columns, where, "a file, a table, a dict")
