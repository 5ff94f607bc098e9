"""Mappings in one file: pairs of labels, with a similarity and a confidence where known."""

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
"""The columns of every mapping table; the numbers are null where a file does not give them."""

SUFFIXES = (".sssom.tsv", ".tsv", ".csv", ".parquet", ".nt", ".rdf")


def mapping_table(
    source: Iterable[str],
    target: Iterable[str],
    similarity: Iterable[float | None] | None = None,
    confidence: Iterable[float | None] | None = None,
) -> pa.Table:
    """A mapping table from columns.

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
    """Read links or mappings: TSV, CSV, Parquet, SSSOM, owl:sameAs statements, OAEI alignment.

    Only statements that two things are the same are taken: a `skos:broadMatch`, a negated row
    or an OAEI cell with a relation other than `=` is left out.
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
        raise InputError("holds no links", path=path)
    return table


def write_mappings(table: pa.Table, path: str | Path) -> None:
    """Write mappings as the name of the file says: one of `SUFFIXES`."""
    path = Path(path)
    name = path.name.lower()
    suffix = suffix_of(path)
    if suffix not in (".tsv", ".csv", ".parquet", ".nt", ".rdf"):
        raise InputError(f"cannot tell a mapping format: use {', '.join(SUFFIXES)}", path=path)
    with new_file(path) as aside:
        if ".sssom.tsv" in name:
            write_sssom(table, aside)
        elif suffix == ".parquet":
            pq.write_table(table, aside, compression="zstd")
        elif suffix == ".nt":
            write_same_as(table, aside)
        elif suffix == ".rdf":
            write_oaei(table, aside)
        else:
            write_columns(aside, table, header=True)


def holds_mappings(path: Path) -> bool:
    """Whether a file holds mappings rather than a graph: its columns or first statement tell."""
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
    """Whether a first row names a source and a target column, and no relation between them."""
    names = {column.strip().lower() for column in columns}
    return {"source", "target"} <= names and "relation" not in names


def _read_table(path: Path) -> pa.Table:
    columns = first_row(path)
    if not is_mapping_header(columns):
        batches = [batch.columns for batch in read_columns(path, ("source", "target"))]
        return mapping_table(*(pa.chunked_array(list(column), LABEL) for column in _columns(batches, 2)))
    names = [column.strip().lower() for column in columns]
    parts = list(read_columns(path, names, header=True, optional=[*set(names) - {"source", "target"}]))
    table = pa.Table.from_batches(parts) if parts else pa.table({name: as_labels([]) for name in names})
    numbers = [_as_numbers(table, name, path) for name in ("similarity", "confidence")]
    return mapping_table(table["source"], table["target"], *numbers)


def _columns(batches: list[list[pa.Array]], width: int) -> Iterable[tuple[pa.Array, ...]]:
    return zip(*batches, strict=True) if batches else [()] * width


def _as_numbers(table: pa.Table, name: str, path: Path) -> pa.Array | None:
    if name not in table.column_names:
        return None
    column = table[name]
    if pa.types.is_large_string(column.type):
        column = pc.if_else(pc.equal(column, ""), None, column)
    try:
        return column.cast(pa.float64()).combine_chunks()
    except pa.ArrowInvalid as error:
        raise InputError(f"the column '{name}' holds something that is no number", path=path) from error


def _read_parquet(path: Path) -> pa.Table:
    batches = list(read_label_columns(path, ("source", "target")))
    left, right = (
        pa.chunked_array([part.cast(LABEL) for part in column], LABEL) for column in _columns(batches, 2)
    )
    with open_parquet(path) as file:
        rest = [name for name in ("similarity", "confidence") if name in file.schema_arrow.names]
        table = file.read(columns=rest)
    if rest and len(table) != len(left):
        raise InputError("not a readable Parquet file (its columns differ in length)", path=path)
    return mapping_table(
        left, right, *(_as_numbers(table, name, path) for name in ("similarity", "confidence"))
    )
