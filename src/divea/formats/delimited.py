"""TSV and CSV: columns of text in batches, and error messages that name the line.

TSV has no quoting and no escapes, as in the benchmark folders: a tab ends a column and a line break ends a
row. CSV is quoted with double quotes.
"""

from __future__ import annotations

import csv
import queue
import threading
from collections.abc import Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from divea.errors import InputError
from divea.formats.output import open_output
from divea.formats.sniff import suffix_of
from divea.formats.stream import LONGEST_LINE, open_table, open_text
from divea.graphs.labels import LABEL

_BLOCK = 2 << 20
"""Bytes that are parsed at a time, and therefore the longest row of a table."""

_NUMBER_ROWS = 1 << 16
"""Rows of numbers that are formatted at a time."""


def delimiter_of(path: Path) -> str:
    """A comma for names that end in .csv (before a compression suffix), otherwise a tab.

    >>> delimiter_of(Path("table.CSV.gz")), delimiter_of(Path("from.csv.tsv"))
    (',', '\\t')
    """
    return "," if suffix_of(path) == ".csv" else "\t"


def first_row(path: Path) -> list[str]:
    """The columns of the first line; only its first 64 KiB are read."""
    with open_text(path) as stream:
        line = stream.readline(1 << 16).decode("utf-8", errors="replace").rstrip("\r\n")
    if delimiter_of(path) == "\t":
        return line.split("\t")
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        return [line]


def read_columns(
    path: Path,
    names: Sequence[str],
    *,
    header: bool = False,
    dictionary: Sequence[str] = (),
    optional: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of a TSV or CSV file, as batches of string columns.

    Raises InputError, with the number of the line if it is known, if a row does not have exactly these
    columns, if a column that is not optional is empty, or if the file is not valid text.

    Parameters
    ----------
    names
        The names of all columns of the file, in order.
    header
        Skip the first row.
    dictionary
        Columns of few distinct values, which are returned dictionary-encoded.
    optional
        Columns that may be empty.
    """
    required = [name for name in names if name not in optional]
    with open_table(path) as stream:
        try:
            for batch in _read_ahead(_open_csv(stream, path, names, header, dictionary)):
                _check_batch(batch, required)
                yield batch
        except pa.ArrowInvalid as error:
            raise _explain(error, path, names, required, header) from error


def _open_csv(
    stream: BinaryIO | pa.NativeFile,
    path: Path,
    names: Sequence[str],
    header: bool,
    dictionary: Sequence[str],
) -> pacsv.CSVStreamingReader:
    """Arrow's reader of the file; it parses the first block here and the others when they are read."""
    is_csv = delimiter_of(path) == ","
    encoded = pa.dictionary(pa.int32(), LABEL)
    types = {name: encoded if name in dictionary else LABEL for name in names}
    return pacsv.open_csv(
        stream,
        pacsv.ReadOptions(column_names=list(names), skip_rows=int(header), block_size=_BLOCK),
        pacsv.ParseOptions(
            delimiter=delimiter_of(path), quote_char='"' if is_csv else False, newlines_in_values=is_csv
        ),
        pacsv.ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def _check_batch(batch: pa.RecordBatch, required: Sequence[str]) -> None:
    """Raise the parser's exception for what the parser accepts and we do not; `_explain` finds the line."""
    if any(_has_empty_value(batch[name]) for name in required):
        raise pa.ArrowInvalid("an empty column")
    if any(_has_byte_up_to(0, column) for column in batch.columns):
        raise pa.ArrowInvalid("a NUL byte")


def _has_empty_value(column: pa.Array) -> bool:
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    return len(values) > 0 and pc.min(pc.binary_length(values)).as_py() == 0


def _has_byte_up_to(highest: int, column: pa.Array) -> bool:
    """Whether the buffer of these strings contains a byte that is at most `highest`.

    Below 128, a byte of UTF-8 is a character, so this finds control characters.
    """
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    text = values.buffers()[2]
    return text is not None and text.size > 0 and np.frombuffer(text, dtype=np.uint8).min() <= highest


def _read_ahead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; a thread parses the next one while the caller works on this one."""
    ready: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(maxsize=1)
    is_abandoned = threading.Event()

    def parse() -> None:
        # The last item of the queue is the error that ended the batches, or None.
        last: BaseException | None = None
        try:
            for batch in batches:
                ready.put(batch)
                if is_abandoned.is_set():
                    return
        except BaseException as error:
            last = error
        ready.put(last)

    thread = threading.Thread(target=parse, daemon=True)
    thread.start()
    try:
        while (item := ready.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        is_abandoned.set()
        # If the caller stops early, the thread may be waiting to put a batch: empty the queue until it ends.
        while thread.is_alive():
            try:
                ready.get(timeout=0.01)
            except queue.Empty:
                continue


def _explain(
    error: Exception, path: Path, names: Sequence[str], required: Sequence[str], header: bool
) -> InputError:
    """The error with its line, which Arrow does not give: the file is read again, slowly, row by row.

    Raises the errors of `open_text` itself, including those for a NUL byte and for a line that is too long.
    """
    line = 0
    with open_text(path) as stream:
        try:
            for line, row in _numbered_rows(stream, delimiter_of(path)):
                is_header = header and line == 1
                problem = None if is_header else _problem_of_row(row, names, required)
                if problem is not None:
                    return InputError(problem, path=path, line=line)
        except UnicodeDecodeError as bad:
            message = f"is not UTF-8 (byte 0x{bad.object[bad.start]:02x}); convert it first"
            return InputError(message, path=path, line=line + 1)
        except csv.Error as bad:
            return InputError(f"is not valid CSV: {bad}", path=path, line=line + 1)
    return InputError(f"cannot be parsed: {error}", path=path)


def _problem_of_row(row: list[str], names: Sequence[str], required: Sequence[str]) -> str | None:
    """What is wrong with a row; None if nothing is. An empty row is skipped, as Arrow does."""
    length = sum(len(value.encode()) + 1 for value in row)
    if length > _BLOCK:
        return f"a row of {length >> 10} KiB is too long for a table"
    if row and len(row) != len(names):
        return f"expected {len(names)} columns ({', '.join(names)}), found {len(row)}"
    for name, value in zip(names, row, strict=False):
        if not value and name in required:
            return f"the column '{name}' is empty"
    return None


def _numbered_rows(stream: BinaryIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Each row with the number of its (last) line."""
    if delimiter == ",":
        csv.field_size_limit(LONGEST_LINE)
        reader = csv.reader(TextIOWrapper(stream, encoding="utf-8", newline=""))
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(stream, start=1):
        text = line.decode("utf-8").rstrip("\r\n")
        yield number, text.split(delimiter) if text else []


def write_columns(path: Path, table: pa.Table, *, header: bool, top: str | None = None) -> None:
    """Write a table of strings and numbers, as CSV if the name says so and otherwise as TSV.

    Raises InputError if a string contains a character that the format cannot hold.

    Parameters
    ----------
    top
        A line of text above the table, without quotes.
    """
    is_csv = delimiter_of(path) == ","
    check_characters(table, path)
    with open_output(path) as sink:
        if top is not None:
            sink.write((f'"{top}"\n' if is_csv else f"{top}\n").encode())
        if is_csv:
            pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=header))
            return
        # Arrow's writer always quotes strings, and TSV has no quotes.
        if header:
            sink.write(("\t".join(table.column_names) + "\n").encode())
        for batch in table.to_batches(max_chunksize=1 << 16):
            write_lines(sink, batch.columns, "\t")


def check_characters(table: pa.Table, path: Path) -> None:
    """Raise InputError if a string contains a character that a file of this name cannot hold."""
    for column in table.columns:
        if pa.types.is_large_string(column.type):
            _refuse_impossible_characters(column, path, delimiter_of(path) == ",")


def _refuse_impossible_characters(column: pa.ChunkedArray, path: Path, is_csv: bool) -> None:
    # Most columns contain no control characters; looking for any is cheaper than a regular expression.
    if not any(_has_byte_up_to(ord("\r"), chunk) for chunk in column.chunks):
        return
    pattern, names = ("\0", "a NUL") if is_csv else ("[\t\n\r\0]", "a tab, a line break or a NUL")
    is_bad = pc.match_substring_regex(column, pattern)
    if pc.any(is_bad).as_py():
        shown = column.filter(is_bad)[0].as_py()[:80]
        raise InputError(f"{shown!r} contains {names}, which this format cannot hold", path=path.name)


def write_lines(sink: pa.NativeFile, columns: Sequence[pa.Array | pa.Scalar], separator: str) -> None:
    """Write rows as lines of text; missing values are written as empty text.

    Parameters
    ----------
    columns
        Columns of strings or numbers; a scalar is repeated in every row.
    separator
        The text between two columns.
    """
    text = [column.cast(LABEL) for column in columns]
    rows = pc.binary_join_element_wise(
        *text, pa.scalar(separator, LABEL), null_handling="replace", null_replacement=""
    )
    lines = pc.binary_join_element_wise(rows, pa.scalar("", LABEL), pa.scalar("\n", LABEL))
    if not len(lines):
        return
    # Arrow stores the lines one after the other, so its buffer is what the file should contain.
    _, offsets, data = lines.buffers()
    first, last = np.frombuffer(offsets, dtype=np.int64)[[lines.offset, lines.offset + len(lines)]]
    sink.write(data.slice(int(first), int(last - first)))


def write_numbers(path: Path, rows: np.ndarray) -> None:
    """Write rows of non-negative integers as TSV.

    The digits of all numbers are computed together, place by place; Arrow would format one number at a time.
    """
    with open_output(path) as sink:
        for first in range(0, len(rows), _NUMBER_ROWS):
            sink.write(_lines_of_numbers(rows[first : first + _NUMBER_ROWS]).tobytes())


def _lines_of_numbers(rows: np.ndarray) -> np.ndarray:
    """The bytes of lines of numbers.

    Every number is first written into a field as wide as the largest number, followed by its separator. NULs
    fill the places of leading zeros and are removed at the end.
    """
    width = len(str(rows.max()))
    fields = np.empty((*rows.shape, width + 1), dtype=np.uint8)
    fields[..., width] = ord("\t")
    fields[:, -1, width] = ord("\n")
    for place in reversed(range(width)):
        higher = rows // 10
        digit = (rows - 10 * higher).astype(np.uint8)
        digit += ord("0")
        if place < width - 1:
            digit *= rows > 0
        fields[..., place] = digit
        rows = higher
    text = fields.ravel()
    return text[text != 0]
