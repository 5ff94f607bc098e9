"""Reads and writes mappings in one file: pairs of labels, with similarity and confidence if known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import first_row, read_columns, write_columns
from divea.formats.parquet import column_names, open_parquet, read_label_columns
from divea.formats.rdf import parse_file
from divea.formats.rdf_mappings import SAME_AS, read_oaei, read_same_as, write_oaei, write_same_as
from divea.formats.sniff import kind_of, suffix_of
from divea.formats.sssom import read_sssom, write_sssom
from divea.graphs.labels import LABEL, as_labels
from divea.io import new_file

MAPPINGS = pa.schema(
    [("source", LABEL), ("target", LABEL), ("similarity", pa.float64()), ("confidence", pa.float64())]
)
"""The columns of every mapping table; a similarity or confidence that a file does not give is null."""

SUFFIXES = (".sssom.tsv", ".tsv", ".csv", ".parquet", ".nt", ".rdf")
"""The suffixes that `write_mappings` accepts."""


def mapping_table(
    source: Iterable[str],
    target: Iterable[str],
    similarity: Iterable[float | None] | None = None,
    confidence: Iterable[float | None] | None = None,
) -> pa.Table:
    """A table of mappings, with the columns of `MAPPINGS`.

    Parameters
    ----------
    source, target
        The labels of each mapping, row by row.
    similarity, confidence
        One number per row, None for an unknown one; without the column, all are unknown.

    Examples
    --------
    >>> mapping_table(["a"], ["b"], confidence=[0.9]).to_pylist()
    [{'source': 'a', 'target': 'b', 'similarity': None, 'confidence': 0.9}]
    """
    left, right = as_labels(source), as_labels(target)
    numbers = [
        pa.nulls(len(left), pa.float64()) if values is None else pa.array(values, type=pa.float64())
        for values in (similarity, confidence)
    ]
    return pa.table([left, right, *numbers], schema=MAPPINGS)


def read_mappings(path: str | Path) -> pa.Table:
    """Read links or mappings from TSV, CSV, Parquet, SSSOM, owl:sameAs statements or an OAEI alignment.

    The format is recognised by the content and, if that does not decide, by the name. Only mappings of things
    that are the same are returned: a `skos:broadMatch`, a negated row and an OAEI cell with a relation other
    than `=` are left out.

    Returns a table with the columns of `MAPPINGS`. Raises InputError if the file cannot be read or contains
    no mappings.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "links.csv"
    ...     _ = path.write_text("Rome,Roma\\nItaly,Italia\\n")
    ...     read_mappings(path)["target"].to_pylist()
    ['Roma', 'Italia']
    """
    path = Path(path)
    kind = kind_of(path)
    if kind == "parquet":
        table = _read_parquet(path)
    elif kind == "table":
        table = _read_table(path)
    elif kind == "sssom":
        table = mapping_table(*read_sssom(path))
    elif kind == "oaei":
        table = mapping_table(*read_oaei(path))
    else:
        table = mapping_table(*read_same_as(path, kind))
    if len(table) == 0:
        raise InputError("contains no links", path=path)
    return table


def write_mappings(table: pa.Table, path: str | Path) -> None:
    """Write mappings to a file; if that fails, no file is left behind.

    The suffix, one of `SUFFIXES`, selects the format; the text formats are compressed if .gz, .bz2, .xz or
    .zst follows it. An .nt file has neither similarity nor confidence, and an .rdf file has no similarity.

    Parameters
    ----------
    table
        A table with the columns of `MAPPINGS`; see `mapping_table`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> table = mapping_table(["Rome"], ["Roma"], confidence=[0.9])
    >>> with TemporaryDirectory() as folder:
    ...     write_mappings(table, f"{folder}/mappings.sssom.tsv")
    ...     read_mappings(f"{folder}/mappings.sssom.tsv").equals(table)
    True
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in (".tsv", ".csv", ".parquet", ".nt", ".rdf"):
        raise InputError(f"unknown mapping format: use {', '.join(SUFFIXES)}", path=path)
    with new_file(path) as temporary:
        if ".sssom.tsv" in path.name.lower():
            write_sssom(table, temporary)
        elif suffix == ".parquet":
            pq.write_table(table, temporary, compression="zstd")
        elif suffix == ".nt":
            write_same_as(table, temporary)
        elif suffix == ".rdf":
            write_oaei(table, temporary)
        else:
            write_columns(temporary, table, header=True)


def holds_mappings(path: Path) -> bool:
    """Whether a file contains mappings and not a graph, judged by its columns or its first statement."""
    kind = kind_of(path)
    if kind in ("sssom", "oaei"):
        return True
    if kind == "parquet":
        return is_mapping_header(column_names(path))
    if kind == "table":
        columns = first_row(path)
        return is_mapping_header(columns) or len(columns) == 2
    first = next(iter(parse_file(path, kind)), None)
    return first is not None and first.predicate.value == SAME_AS


def is_mapping_header(columns: list[str]) -> bool:
    """Whether a first row names a source and a target column, and no column of relations.

    >>> is_mapping_header(["Source", "target", "confidence"])
    True
    >>> is_mapping_header(["source", "relation", "target"])
    False
    """
    names = {column.strip().lower() for column in columns}
    return {"source", "target"} <= names and "relation" not in names


def _read_table(path: Path) -> pa.Table:
    columns = first_row(path)
    if not is_mapping_header(columns):
        batches = [batch.columns for batch in read_columns(path, ("source", "target"))]
        return mapping_table(*_joined(batches))
    names = [column.strip().lower() for column in columns]
    optional = [*set(names) - {"source", "target"}]
    rows = list(read_columns(path, names, header=True, optional=optional))
    table = pa.Table.from_batches(rows) if rows else pa.table({name: as_labels([]) for name in names})
    numbers = [_as_numbers(table, name, path) for name in ("similarity", "confidence")]
    return mapping_table(table["source"], table["target"], *numbers)


def _read_parquet(path: Path) -> pa.Table:
    source, target = _joined(list(read_label_columns(path, ("source", "target"))))
    with open_parquet(path) as file:
        found = [name for name in ("similarity", "confidence") if name in file.schema_arrow.names]
        table = file.read(columns=found)
    if found and len(table) != len(source):
        raise InputError("not a readable Parquet file (its columns differ in length)", path=path)
    numbers = [_as_numbers(table, name, path) for name in ("similarity", "confidence")]
    return mapping_table(source, target, *numbers)


def _joined(batches: list[list[pa.Array]]) -> list[pa.ChunkedArray]:
    """The source and the target column of all batches, as labels."""
    columns = zip(*batches, strict=True) if batches else [(), ()]
    return [pa.chunked_array([chunk.cast(LABEL) for chunk in column], LABEL) for column in columns]


def _as_numbers(table: pa.Table, name: str, path: Path) -> pa.Array | None:
    """A column as numbers, null where it is empty; None if there is no such column."""
    if name not in table.column_names:
        return None
    column = table[name]
    if pa.types.is_large_string(column.type):
        column = pc.if_else(pc.equal(column, ""), None, column)
    try:
        return column.cast(pa.float64()).combine_chunks()
    except pa.ArrowInvalid as error:
        raise InputError(f"the column '{name}' contains a value that is not a number", path=path) from error
