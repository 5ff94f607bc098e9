"""TSV and CSV: columns of text in batches, and the line at which a file goes wrong.

TSV has no quoting and no escapes, as the benchmark folders write it: a tab ends a column and a
newline ends a row. CSV is quoted with double quotes.
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
from divea.formats.stream import LONGEST_LINE, open_table, open_text
from divea.graphs.labels import LABEL

_BLOCK = 2 << 20
"""Bytes parsed at a time, and so the longest row of a table."""

_NUMBERS = 1 << 16
"""Rows of numbers that are formatted at a time."""


def delimiter_of(path: Path) -> str:
    """A comma for names that end in .csv (before any compression suffix), otherwise a tab."""
    return "," if ".csv" in path.suffixes else "\t"


def first_row(path: Path) -> list[str]:
    """The columns of the first line, without what comes after 64 KiB of it."""
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
    """Batches of string columns; columns in `dictionary` repeat a few values and come encoded.

    Every row must have exactly the named columns, none of them empty but the optional ones.
    """
    required = [name for name in names if name not in optional]
    encoded = pa.dictionary(pa.int32(), LABEL)
    types = {name: encoded if name in dictionary else LABEL for name in names}
    delimiter = delimiter_of(path)
    quote = '"' if delimiter == "," else False
    with open_table(path) as stream:
        try:
            batches = pacsv.open_csv(
                stream,
                pacsv.ReadOptions(column_names=list(names), skip_rows=int(header), block_size=_BLOCK),
                pacsv.ParseOptions(
                    delimiter=delimiter, quote_char=quote, newlines_in_values=delimiter == ","
                ),
                pacsv.ConvertOptions(column_types=types, strings_can_be_null=False),
            )
            for batch in _ahead(batches):
                if any(_has_empty(batch[name]) for name in required):
                    raise pa.ArrowInvalid("an empty column")
                if any(_holds_byte_up_to(0, column) for column in batch.columns):
                    raise pa.ArrowInvalid("a NUL byte")
                yield batch
        except pa.ArrowInvalid as error:
            raise _explained(path, names, required, header, error) from error


def _has_empty(column: pa.Array) -> bool:
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    return len(values) > 0 and pc.min(pc.binary_length(values)).as_py() == 0


def _holds_byte_up_to(most: int, column: pa.Array) -> bool:
    """Whether so low a byte is in the memory of these strings: in UTF-8 it stands for itself."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    text = values.buffers()[2]
    return text is not None and text.size > 0 and np.frombuffer(text, dtype=np.uint8).min() <= most


def _ahead(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Parse the next block while the caller works on this one."""
    ready: queue.Queue[pa.RecordBatch | BaseException | None] = queue.Queue(maxsize=1)
    stopped = threading.Event()

    def parse() -> None:
        last: BaseException | None = None
        try:
            for batch in batches:
                ready.put(batch)
                if stopped.is_set():
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
        stopped.set()
        while thread.is_alive():
            try:
                ready.get(timeout=0.01)
            except queue.Empty:
                continue


def _explained(
    path: Path, names: Sequence[str], required: Sequence[str], header: bool, error: Exception
) -> InputError:
    """The line that a parser choked on, found by a slow and careful second look."""
    wanted = f"expected {len(names)} columns ({', '.join(names)})"
    with open_text(path) as stream:
        number = 0
        try:
            for number, row in _rows(stream, delimiter_of(path)):
                if number == 1 and header:
                    continue
                length = sum(len(value.encode()) + 1 for value in row)
                if length > _BLOCK:
                    message = f"a row of {length >> 10} KiB is too long for a table"
                    return InputError(message, path=path, line=number)
                if len(row) != len(names) and row:
                    return InputError(f"{wanted}, found {len(row)}", path=path, line=number)
                for name, value in zip(names, row, strict=False):
                    if not value and name in required:
                        return InputError(f"the column '{name}' is empty", path=path, line=number)
        except UnicodeDecodeError as bad:
            message = f"is not UTF-8 (byte 0x{bad.object[bad.start]:02x}); convert it first"
            return InputError(message, path=path, line=number + 1)
        except csv.Error as bad:
            return InputError(f"is not valid CSV: {bad}", path=path, line=number + 1)
    return InputError(f"cannot be parsed: {error}", path=path)


def _rows(stream: BinaryIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    if delimiter == ",":
        csv.field_size_limit(LONGEST_LINE)
        reader = csv.reader(TextIOWrapper(stream, encoding="utf-8", newline=""))
        for row in reader:
            yield reader.line_num, row
        return
    for number, line in enumerate(stream, start=1):
        text = line.decode("utf-8").rstrip("\r\n")
        yield number, text.split(delimiter) if text else []


def write_columns(path: Path, table: pa.Table, *, header: bool) -> None:
    """A table of strings and numbers as TSV or CSV, by the name of the file."""
    delimiter = delimiter_of(path)
    impossible, names = (
        ("[\t\n\r\0]", "a tab, a line break or a NUL") if delimiter == "\t" else ("\0", "a NUL")
    )
    for column in table.columns:
        # A look at the bytes is cheaper than the search, and finds nothing in most files.
        if pa.types.is_large_string(column.type) and any(
            _holds_byte_up_to(ord("\r"), chunk) for chunk in column.chunks
        ):
            bad = pc.match_substring_regex(column, impossible)
            if pc.any(bad).as_py():
                shown = column.filter(bad)[0].as_py()[:80]
                raise InputError(f"{shown!r} holds {names}, which this format cannot", path=path.name)
    with open_output(path) as sink:
        if delimiter == ",":
            pacsv.write_csv(table, sink, pacsv.WriteOptions(include_header=header))
            return
        if header:
            sink.write(("\t".join(table.column_names) + "\n").encode())
        # Arrow's writer cannot do without quotes.
        for batch in table.to_batches(max_chunksize=1 << 16):
            write_lines(sink, batch.columns, "\t")


def write_lines(sink: pa.NativeFile, columns: Sequence[pa.Array | pa.Scalar], separator: str) -> None:
    """Rows of columns as lines of text; what is missing is written as nothing."""
    text = [column.cast(LABEL) for column in columns]
    rows = pc.binary_join_element_wise(
        *text, pa.scalar(separator, LABEL), null_handling="replace", null_replacement=""
    )
    rows = pc.binary_join_element_wise(rows, pa.scalar("", LABEL), pa.scalar("\n", LABEL))
    if not len(rows):
        return
    # The lines lie one after the other in Arrow's memory: they go out as they are.
    _, offsets, data = rows.buffers()
    first, last = np.frombuffer(offsets, dtype=np.int64)[[rows.offset, rows.offset + len(rows)]]
    sink.write(data.slice(int(first), int(last - first)))


def write_numbers(path: Path, rows: np.ndarray) -> None:
    """Rows of numbers, none below 0, as TSV: digit by digit for all of them, which Arrow does one by one."""
    with open_output(path) as sink:
        for first in range(0, len(rows), _NUMBERS):
            sink.write(_digits(rows[first : first + _NUMBERS]).tobytes())


def _digits(rows: np.ndarray) -> np.ndarray:
    """The bytes of lines of numbers."""
    width = len(str(rows.max()))
    text = np.empty((*rows.shape, width + 1), dtype=np.uint8)
    text[..., width] = ord("\t")
    text[:, -1, width] = ord("\n")
    for place in reversed(range(width)):
        left = rows // 10
        digit = (rows - 10 * left).astype(np.uint8)
        digit += ord("0")
        if place < width - 1:
            digit *= rows > 0  # a leading zero becomes a NUL, and those are left out below
        text[..., place] = digit
        rows = left
    text = text.ravel()
    return text[text != 0]


def open_output(path: Path) -> pa.NativeFile:
    """A file to write, compressed where its name says so."""
    import lzma

    compression = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get(path.suffix)
    if path.suffix == ".xz":
        return pa.PythonFile(lzma.open(path, "wb"), mode="w")
    return pa.output_stream(str(path), compression=compression)
