"""Reads and writes mappings in one file: pairs of labels, with score, confidence and rank if known."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import first_row, read_columns, write_columns
from divea.formats.output import formula_free, require_spreadsheet
from divea.formats.parquet import column_names, open_parquet, read_label_columns
from divea.formats.rdf import parse_file
from divea.formats.rdf_mappings import SAME_AS, read_oaei, read_same_as, write_oaei, write_same_as
from divea.formats.sniff import kind_of, suffix_of
from divea.formats.sssom import read_sssom, write_sssom
from divea.graphs.builder import as_one_array
from divea.graphs.labels import LABEL, as_labels
from divea.io import new_file, usable_path

MAPPINGS = pa.schema(
    [
        ("source", LABEL),
        ("target", LABEL),
        ("score", pa.float64()),
        ("confidence", pa.float64()),
        ("rank", pa.int32()),
    ]
)
"""The columns of every mapping table; a score, confidence or rank that a file does not give is null."""

_ENDS = ("source", "target")
_NUMBERS = ("score", "confidence", "rank")
_NAMES_OF = {"score": ("score", "similarity")} | {name: (name,) for name in ("confidence", "rank")}
"""The names that a column of numbers may have in a file; the first that is found counts."""

FURTHER = ("source_label", "target_label", "origin", "source_context", "target_context")
"""Further columns that SSSOM has a place for: names of both ends, whether a pair is a seed, and contexts."""

SUFFIXES = (".sssom.tsv", ".tsv", ".csv", ".parquet", ".nt", ".rdf")
"""The suffixes that `write_mappings` accepts."""


def mapping_table(
    source: Iterable[str],
    target: Iterable[str],
    score: Iterable[float | None] | None = None,
    confidence: Iterable[float | None] | None = None,
    rank: Iterable[int | None] | None = None,
) -> pa.Table:
    """A table of mappings, with the columns of `MAPPINGS`.

    Parameters
    ----------
    source, target
        The labels of each mapping, row by row.
    score, confidence
        One number per row, None for an unknown one; without the column, all are unknown.
    rank
        The place of the target in the ranked list of the source, from 1.

    Examples
    --------
    >>> mapping_table(["a"], ["b"], confidence=[0.9]).to_pylist()
    [{'source': 'a', 'target': 'b', 'score': None, 'confidence': 0.9, 'rank': None}]
    """
    left, right = as_labels(source), as_labels(target)
    numbers = [
        pa.nulls(len(left), MAPPINGS.field(name).type)
        if values is None
        else pa.array(values, type=MAPPINGS.field(name).type)
        for name, values in zip(_NUMBERS, (score, confidence, rank), strict=True)
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
    path = usable_path(path)
    kind = kind_of(path)
    if kind == "parquet":
        table = _read_parquet(path)
    elif kind == "table":
        table = _read_table(path)
    elif kind == "sssom":
        found = read_sssom(path)
        rank = _as_ranks(pa.array(found.rank, pa.float64()), path)
        table = mapping_table(found.source, found.target, found.score, found.confidence, rank)
    elif kind == "oaei":
        source, target, confidence = read_oaei(path)
        table = mapping_table(source, target, confidence=confidence)
    else:
        table = mapping_table(*read_same_as(path, kind))
    if len(table) == 0:
        raise InputError("contains no links", path=path)
    return table


def write_mappings(table: pa.Table, path: str | Path, *, for_spreadsheet: bool = False) -> list[str]:
    """Write mappings to a file; if that fails, no file is left behind.

    The suffix, one of `SUFFIXES`, selects the format; the text formats are compressed if .gz, .bz2, .xz or
    .zst follows it.

    Returns a sentence for each thing that the format cannot hold: .nt has neither score, confidence nor rank,
    .rdf has neither score nor rank, .sssom.tsv has only the further columns of `FURTHER`, and .tsv, .csv and
    .parquet hold every column of the table.

    Parameters
    ----------
    table
        A table with the columns source and target and, if they are known, score, confidence and rank: from
        `mapping_table`, `read_mappings` or a run.
    for_spreadsheet
        Write a .tsv or .csv file that a spreadsheet can open safely; see `formula_free`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> table = mapping_table(["Rome"], ["Roma"], confidence=[0.9])
    >>> with TemporaryDirectory() as folder:
    ...     write_mappings(table, f"{folder}/mappings.sssom.tsv")
    ...     read_mappings(f"{folder}/mappings.sssom.tsv").equals(table)
    []
    True
    """
    path = usable_path(path)
    suffix = mapping_suffix(path)
    if suffix == ".parquet" != path.suffix.lower():
        raise InputError("a Parquet file is compressed inside; name it .parquet", path=path)
    if not {*_ENDS} <= {*table.column_names}:
        raise InputError("expected a table with the columns source and target", path=path)
    for at, name in enumerate(table.column_names):
        if pa.types.is_string(table[name].type):
            table = table.set_column(at, name, table[name].cast(LABEL))
    if for_spreadsheet:
        require_spreadsheet(path, suffix)
        table = formula_free(table)
    if table.schema.equals(MAPPINGS):
        # Most files give no rank, and links give no numbers at all.
        table = table.select([*_ENDS, *(name for name in _NUMBERS if _has_values(table[name]))])
    with new_file(path) as temporary:
        if suffix == ".sssom.tsv":
            write_sssom(_with_readable_numbers(table, path), temporary)
        elif suffix == ".parquet":
            pq.write_table(table, temporary, compression="zstd")
        elif suffix == ".nt":
            write_same_as(table, temporary)
        elif suffix == ".rdf":
            write_oaei(_with_readable_numbers(table, path), temporary)
        else:
            write_columns(temporary, table, header=True)
    return _omissions(table, suffix)


def mapping_suffix(path: Path) -> str:
    """The suffix of `SUFFIXES` that a name has before one for compression; raises InputError if none.

    >>> mapping_suffix(Path("pairs.sssom.tsv.gz"))
    '.sssom.tsv'
    """
    suffix = ".sssom.tsv" if ".sssom.tsv" in path.name.lower() else suffix_of(path)
    if suffix not in SUFFIXES:
        raise InputError(f"unknown mapping format: use {', '.join(SUFFIXES)}", path=path)
    return suffix


def _with_readable_numbers(table: pa.Table, path: Path) -> pa.Table:
    """The table of a run with scores that Python prints as the run's own TSV table shows them."""
    for at, name in enumerate(table.column_names):
        if name in ("score", "confidence"):
            table = table.set_column(at, name, _as_numbers(table[name], name, path))
    return table


def _has_values(column: pa.ChunkedArray) -> bool:
    return column.null_count < len(column)


def _omissions(table: pa.Table, suffix: str) -> list[str]:
    """A sentence for each thing of a table that a format cannot hold."""
    columns = {".sssom.tsv": (*_NUMBERS, *FURTHER), ".rdf": ("confidence",), ".nt": ()}
    if suffix not in columns:
        return []
    held = {*_ENDS, *columns[suffix]}
    lost = [name for name in table.column_names if name not in held and _has_values(table[name])]
    sentences = [f"a {suffix} file has no {', '.join(lost)}: left out"] if lost else []
    if suffix == ".rdf":
        unknown = table["confidence"].null_count if "confidence" in table.column_names else len(table)
        if unknown:
            sentences.append(f"{unknown} mappings without a confidence have the measure 1")
    return sentences


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


def unread_columns(path: Path) -> list[str]:
    """The columns of a table or Parquet file of mappings that `read_mappings` does not read."""
    kind = kind_of(path)
    if kind not in ("table", "parquet"):
        return []
    columns = column_names(path) if kind == "parquet" else first_row(path)
    known = {*_ENDS, *(name for names in _NAMES_OF.values() for name in names)}
    return [name for name in columns if name.strip().lower() not in known] if len(columns) > 2 else []


def _read_table(path: Path) -> pa.Table:
    columns = first_row(path)
    if not is_mapping_header(columns):
        batches = [batch.columns for batch in read_columns(path, _ENDS)]
        return mapping_table(*_joined(batches))
    names = [column.strip().lower() for column in columns]
    _refuse_repeats(names, path)
    # Columns that are not read may have any names, even equal ones.
    names = [name if names.count(name) == 1 else f"column {at}" for at, name in enumerate(names, start=1)]
    rows = list(read_columns(path, names, header=True, optional=[*set(names) - set(_ENDS)]))
    table = pa.Table.from_batches(rows) if rows else pa.table({name: as_labels([]) for name in names})
    return mapping_table(table["source"], table["target"], **_read_numbers(table, path))


def _read_parquet(path: Path) -> pa.Table:
    columns = column_names(path)
    names = [column.strip().lower() for column in columns]
    _refuse_repeats(names, path)
    column_of = dict(zip(names, columns, strict=True))
    source, target = _joined(list(read_label_columns(path, [column_of.get(end, end) for end in _ENDS])))
    wanted = [name for name in names if any(name in known for known in _NAMES_OF.values())]
    if not wanted:
        return mapping_table(source, target)
    read = [column_of[name] for name in wanted]
    with open_parquet(path, read) as file:
        table = file.read(columns=read).select(read).rename_columns(wanted)
    if len(table) != len(source):
        raise InputError("not a readable Parquet file (its columns differ in length)", path=path)
    return mapping_table(source, target, **_read_numbers(table, path))


def _refuse_repeats(names: list[str], path: Path) -> None:
    """Raise InputError if a column that is read appears twice."""
    for name in (*_ENDS, *(name for known in _NAMES_OF.values() for name in known)):
        if names.count(name) > 1:
            raise InputError(f"the column '{name}' appears twice", path=path)


def _joined(batches: list[list[pa.Array]]) -> list[pa.ChunkedArray]:
    """The source and the target column of all batches, as labels."""
    columns = zip(*batches, strict=True) if batches else [(), ()]
    return [pa.chunked_array([chunk.cast(LABEL) for chunk in column], LABEL) for column in columns]


def _read_numbers(table: pa.Table, path: Path) -> dict[str, pa.Array]:
    """The columns of numbers that a table has, by the names of `MAPPINGS`."""
    numbers = {}
    for name, known in _NAMES_OF.items():
        found = next((column for column in known if column in table.column_names), None)
        if found is not None:
            numbers[name] = _as_numbers(table[found], found, path)
    if "rank" in numbers:
        numbers["rank"] = _as_ranks(numbers["rank"], path)
    return numbers


def _as_numbers(column: pa.ChunkedArray, name: str, path: Path) -> pa.Array:
    """A column as numbers, null where it is empty."""
    kind = column.type
    if pa.types.is_large_string(kind):
        column = pc.if_else(pc.equal(column, ""), None, column)
    elif pa.types.is_floating(kind) and kind != pa.float64():
        # By way of text, .6 as a float of 32 bits stays .6, as it is in the TSV table of the same run.
        column = column.cast(LABEL)
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind)):
        raise InputError(f"the column '{name}' is of type {kind}, not of numbers", path=path)
    try:
        return as_one_array(column.cast(pa.float64()))
    except pa.ArrowException as error:
        raise InputError(f"the column '{name}' contains a value that is not a number", path=path) from error


def _as_ranks(column: pa.Array, path: Path) -> pa.Array:
    """A column of numbers as ranks."""
    try:
        return column.cast(pa.int32())
    except pa.ArrowException as error:
        raise InputError(
            "the column 'rank' contains a value that is not a whole number", path=path
        ) from error
