"""Reads files of names, and adds the names to a graph as literals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.formats.delimited import first_row, read_columns
from divea.formats.parquet import column_names, read_label_columns
from divea.formats.sniff import kind_of
from divea.graphs import KnowledgeGraph
from divea.graphs.builder import add_literals
from divea.graphs.labels import LABEL, as_labels
from divea.graphs.names import GIVEN_NAME
from divea.io import usable_path
from divea.types import Ids
from divea.wording import worded

COLUMNS = ("entity", "name")
"""The columns of a file of names."""

_SHOWN = 5
"""The most unknown labels that a message shows."""


def read_names(path: str | Path) -> pa.Table:
    """Read names from TSV, CSV or Parquet: a table with the columns entity and name, row by row.

    A TSV or CSV file has two columns, or a header that names them; further columns are not read. An entity
    may have several names. Raises InputError if the file cannot be read or contains no names.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "names.csv"
    ...     _ = path.write_text("Q220,Rome\\nQ220,Roma\\n")
    ...     read_names(path)["name"].to_pylist()
    ['Rome', 'Roma']
    """
    path = usable_path(path)
    kind = kind_of(path)
    if kind not in ("table", "parquet"):
        raise InputError("expected names as TSV, CSV or Parquet, with the columns entity and name", path=path)
    columns = _read_parquet(path) if kind == "parquet" else _read_table(path)
    table = pa.table([as_labels(column) for column in columns], names=list(COLUMNS))
    if len(table) == 0:
        raise InputError("contains no names", path=path)
    return table


def add_names(
    graph: KnowledgeGraph,
    names: str | Path | pa.Table,
    *,
    skip_unknown: bool = False,
    other: KnowledgeGraph | None = None,
    argument: str = "names",
) -> KnowledgeGraph:
    """The graph with names as literals, with the predicate `GIVEN_NAME`.

    Literals that the graph already has are kept, including names that were given before. Raises InputError if
    a file cannot be read, or if a name belongs to an unknown entity.

    Parameters
    ----------
    names
        A file, or a table with the columns entity and name.
    skip_unknown
        Leave out names of unknown entities. If all are unknown, InputError is raised nevertheless.
    other
        The other graph of the task: if the names are those of its entities, the message says so.
    argument
        What messages call a table.
    """
    table, path = (names, argument) if isinstance(names, pa.Table) else (read_names(names), names)
    labels = without_brackets(table["entity"], graph)
    ids = graph.find(labels)
    is_known = ids >= 0
    if not is_known.all() and not (skip_unknown and is_known.any()):
        is_file = not isinstance(names, pa.Table)
        raise InputError(_unknown_message(labels, ids, other, is_file), path=path)
    known = as_labels(table["name"]).filter(pa.array(is_known))
    return add_literals(graph, ids[is_known], GIVEN_NAME, known)


def without_brackets(labels: pa.Array | pa.ChunkedArray, graph: KnowledgeGraph) -> pa.Array:
    """The labels; an unknown one such as `<http://a.example/x>` loses its brackets if it is then known."""
    found = as_labels(labels)
    bare = pc.replace_substring_regex(found, "^<(.+)>$", "\\1")
    is_better = (graph.find(found) < 0) & (graph.find(bare) >= 0)
    return pc.if_else(pa.array(is_better), bare, found)


def _read_table(path: Path) -> list[pa.ChunkedArray]:
    names = [column.strip().lower() for column in first_row(path)]
    if not {*COLUMNS} <= {*names}:
        return _joined([batch.columns for batch in read_columns(path, COLUMNS)])
    _refuse_repeats(names, path)
    # Columns that are not read may have any names, even equal ones.
    unique = [name if names.count(name) == 1 else f"column {at}" for at, name in enumerate(names, start=1)]
    optional = [name for name in unique if name not in COLUMNS]
    batches = read_columns(path, unique, header=True, optional=optional)
    return _joined([[batch[name] for name in COLUMNS] for batch in batches])


def _read_parquet(path: Path) -> list[pa.ChunkedArray]:
    _refuse_repeats(column_names(path), path)
    return _joined(list(read_label_columns(path, COLUMNS)))


def _refuse_repeats(names: list[str], path: Path) -> None:
    for name in COLUMNS:
        if names.count(name) > 1:
            raise InputError(f"the column '{name}' appears twice", path=path)


def _joined(batches: list[list[pa.Array]]) -> list[pa.ChunkedArray]:
    columns = zip(*batches, strict=True) if batches else [(), ()]
    return [pa.chunked_array([chunk.cast(LABEL) for chunk in column], LABEL) for column in columns]


def _unknown_message(labels: pa.Array, ids: Ids, other: KnowledgeGraph | None, is_file: bool) -> str:
    """How many names are of unknown entities, some of these entities, and advice."""
    unknown = labels.filter(pa.array(ids < 0))
    if other is not None and np.count_nonzero(other.find(unknown) >= 0) > len(ids) / 2:
        return "names the entities of the other graph; swap the names of the source and those of the target"
    distinct = pc.unique(unknown)
    shown = ", ".join(repr(label) for label in distinct[:_SHOWN].to_pylist())
    more = ", ..." if len(distinct) > _SHOWN else ""
    message = f"{len(unknown)} of {len(ids)} names are of unknown entities ({len(distinct)}: {shown}{more})"
    if len(unknown) == len(ids):
        return message
    if is_file and len(unknown) == 1 and ids[0] < 0:
        return f"{message}; if the first line is a header, its columns must be entity and name"
    skip = worded(command="--skip-unknown-names", python="skip_unknown_names=True")
    return f"{message}; {skip} leaves them out"
