"""Parquet files of triples, links or vectors, with columns of labels or of integer ids.

A Parquet file of a few kilobytes can hold billions of rows, and a label of a megabyte in each of them. No
file is read that would expand to more than `MOST_EXPANSION` times its size and `FREE_EXPANSION` bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.label_columns import labels_of_column, require_label_columns
from divea.formats.parquet_pages import PageHeaders, Pages, read_pages
from divea.formats.stream import reading
from divea.graphs.labels import LABEL
from divea.io import require_regular

MOST_EXPANSION = 100
"""The most bytes of values for a byte of a Parquet file. Files of real graphs have less than 30."""
FREE_EXPANSION = 64 << 20
"""Bytes of values that a file of any size may have in addition."""
_PASSING = 4
"""How many times as many bytes may pass through without being kept: a graph keeps each label once."""

_ROWS = 1 << 16
"""Rows of a batch."""
_BATCH_BYTES = 32 << 20
"""Bytes after which a batch ends, even if it has fewer rows."""


@contextmanager
def open_parquet(path: Path, columns: Collection[str] | None = None) -> Iterator[pq.ParquetFile]:
    """An open Parquet file. Raises InputError if it is damaged, when it is opened and while it is read.

    Parameters
    ----------
    columns
        The columns that will be read; None for all. InputError is raised if they would expand too much even
        if every value were kept only once; see `read_label_columns` for values that are repeated.
    """
    with _opened(path) as file:
        _refuse_expansion(path, read_pages(path, file, columns).expanded)
        yield file


class RowGroups:
    """Some columns of a Parquet file that stays open; each row group is checked when it is read.

    Raises InputError if the file is damaged, or if a row group would expand too much.
    """

    def __init__(self, path: Path, columns: Sequence[str]):
        self._path, self._columns = path, list(columns)
        with _checked(path):
            self._file = pq.ParquetFile(path)
            self._headers = PageHeaders(path, self._file, columns)

    def __len__(self) -> int:
        return int(self._file.num_row_groups)

    @property
    def metadata(self) -> dict[str, str]:
        """The key-value metadata of the file."""
        found = self._file.metadata.metadata or {}
        return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in found.items()}

    def first(self, group: int, column: str) -> pa.Array:
        """The first value of a column."""
        with self._refusing_expansion([group]):
            return next(self._file.iter_batches(1, [group], [column]))[column]

    def read(self, groups: Sequence[int]) -> pa.Table:
        """The rows of some row groups."""
        with self._refusing_expansion(groups):
            return self._file.read_row_groups(list(groups), self._columns)

    @contextmanager
    def _refusing_expansion(self, groups: Sequence[int]) -> Iterator[None]:
        with _checked(self._path):
            _refuse_expansion(self._path, self._headers.pages(groups).expanded)
            yield


@contextmanager
def _opened(path: Path, **options: Any) -> Iterator[pq.ParquetFile]:
    with _checked(path), pq.ParquetFile(path, **options) as file:
        yield file


@contextmanager
def _checked(path: Path) -> Iterator[None]:
    """Raise InputError if the file cannot be read, or turns out to be damaged within the block."""
    with reading(path):
        require_regular(path)
        if path.stat().st_size == 0:
            raise InputError("is empty", path=path)
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise InputError(f"not a readable Parquet file ({error})", path=path) from error


def _most_expanded(path: Path) -> int:
    return MOST_EXPANSION * path.stat().st_size + FREE_EXPANSION


def _refuse_expansion(path: Path, expanded: int) -> None:
    if expanded > (most := _most_expanded(path)):
        raise InputError(
            f"would expand to more than {most >> 20} MiB (the limit is {FREE_EXPANSION >> 20} MiB and "
            f"{MOST_EXPANSION} times its size)",
            path=path,
        )


def column_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file."""
    with _opened(path) as file:
        return list(file.schema_arrow.names)


def read_label_columns(path: Path, names: Sequence[str], *, keep: bool = True) -> Iterator[list[pa.Array]]:
    """The named columns as labels, plain or dictionary-encoded, in batches; integers become decimal text.

    Parameters
    ----------
    keep
        Whether the caller keeps the labels of all rows. If it keeps distinct labels only, repeated ones count
        less towards what the file may expand to.
    """
    with _opened(path) as file:
        require_label_columns(file.schema_arrow, names, path)
        pages = read_pages(path, file, names)
        _refuse_expansion(path, pages.expanded)
        rows = _rows_at_a_time(pages, _most_expanded(path) // len(names))
        # Text that is kept counts in full, and distinct labels that share their starts are kept.
        divisor = 1 if keep or pages.has_shared_starts else _PASSING
        text_bytes = 0
        for table in _batches(file, names, rows):
            columns = [labels_of_column(table[name].combine_chunks(), name, path) for name in names]
            text_bytes += sum(_text_bytes(column, keep) for column in columns)
            _refuse_expansion(path, text_bytes // divisor)
            yield columns


def read_whole_table(path: Path, schema: pa.Schema) -> pa.Table:
    """The table of a Parquet file that has exactly these columns, of plain values.

    Raises InputError if the file has other columns, or expands too much.
    """
    with _opened(path) as file:
        pages = _pages_of_table(path, file, schema)
        texts = [field.name for field in schema if field.type == LABEL]
        rows = _rows_at_a_time(pages, _most_expanded(path) // max(len(texts), 1))
        text_bytes, tables = 0, [schema.empty_table()]
        for table in _batches(file, schema.names, rows):
            table.validate(full=True)
            text_bytes += sum(pc.sum(pc.binary_length(table[name])).as_py() or 0 for name in texts)
            _refuse_expansion(path, text_bytes)
            tables.append(table)
        return pa.concat_tables(tables)


def read_encoded_batches(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The table of `read_whole_table` in batches, with labels as dictionaries: repeated ones are not copied.

    Raises InputError if the file has other columns, or expands too much.
    """
    with _opened(path) as plain:
        _pages_of_table(path, plain, schema)
    labels = [field.name for field in schema if field.type == LABEL]
    with _opened(path, read_dictionary=labels) as file:
        for batch in file.iter_batches(batch_size=4 * _ROWS):
            batch.validate(full=True)
            yield batch


def _pages_of_table(path: Path, file: pq.ParquetFile, schema: pa.Schema) -> Pages:
    """The pages of a file. Raises InputError if it has other columns than these, or expands too much."""
    if file.schema_arrow != schema:
        raise InputError("does not have the columns that this release writes", path=path)
    pages = read_pages(path, file)
    _refuse_expansion(path, pages.expanded)
    return pages


def read_label_and_list(path: Path, label: str, values: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """A column of labels and one of lists of floating-point numbers, in batches.

    Raises InputError if the columns are of other types or have missing values, or if the file expands too
    much. The lists of a batch may differ in length.
    """
    with _opened(path) as file:
        require_label_columns(file.schema_arrow, [label], path)
        _require_list_column(file.schema_arrow, values, path)
        names = [label, values]
        pages = read_pages(path, file, names)
        _refuse_expansion(path, pages.expanded)
        rows = _rows_at_a_time(pages, _most_expanded(path) // 2)
        # The first list says how long lists are.
        first = next(
            (batch for batch in file.iter_batches(batch_size=1, columns=[values]) if len(batch)), None
        )
        length = 0 if first is None else len(_plain_list(first.column(0), values, path).flatten())
        rows = max(1, min(rows, _BATCH_BYTES // max(8 * length, 1)))
        text_bytes = 0
        for table in _batches(file, names, rows):
            labels = labels_of_column(table[label].combine_chunks(), label, path)
            text_bytes += _text_bytes(labels, keep=True)
            _refuse_expansion(path, text_bytes)
            yield labels.cast(LABEL), _plain_list(table[values].combine_chunks(), values, path)


def _require_list_column(schema: pa.Schema, name: str, path: Path) -> None:
    if name not in schema.names:
        raise InputError(f"has no column '{name}' (found: {', '.join(schema.names)})", path=path)
    if schema.names.count(name) > 1:
        raise InputError(f"the column '{name}' appears twice", path=path)
    kind = schema.field(name).type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not (is_list and pa.types.is_floating(kind.value_type)):
        raise InputError(f"the column '{name}' is of type {kind}, not lists of floats", path=path)


def _plain_list(column: pa.Array, name: str, path: Path) -> pa.Array:
    """The column, which must not have missing values, nor lists with missing values."""
    column.validate(full=True)
    missing = column.null_count or column.flatten().null_count
    if missing:
        raise InputError(f"the column '{name}' has {missing} missing values", path=path)
    return column


def _rows_at_a_time(pages: Pages, most: int) -> int:
    """The most rows that stay below `most` bytes even if all have the longest value that rows can share."""
    return max(1, min(_ROWS, most // max(pages.largest_shared, 1)))


def _batches(file: pq.ParquetFile, names: Sequence[str], rows: int) -> Iterator[pa.Table]:
    """The rows of a file, read this many at a time and joined to batches of the usual size."""
    pending: list[pa.RecordBatch] = []
    rows_pending = bytes_pending = 0
    for batch in file.iter_batches(batch_size=rows, columns=list(names)):
        pending.append(batch)
        rows_pending += len(batch)
        bytes_pending += batch.nbytes
        if rows_pending >= _ROWS or bytes_pending >= _BATCH_BYTES:
            yield pa.Table.from_batches(pending)
            pending, rows_pending, bytes_pending = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending)


def _text_bytes(labels: pa.Array, keep: bool) -> int:
    """The bytes of the text of all rows; of a dictionary that is not decoded, those of its labels."""
    if not pa.types.is_dictionary(labels.type):
        lengths = pc.binary_length(labels)
    else:
        lengths = pc.binary_length(labels.dictionary)
        lengths = lengths.take(labels.indices) if keep else lengths
    return pc.sum(lengths).as_py() or 0
