"""How much a Parquet file would expand to, read from the headers of its pages.

The footer of a Parquet file states sizes and numbers of rows, and may state anything. What a reader allocates
is decided by the header of each page: its decompressed size and its number of values. pyarrow does not show
page headers, and a damaged footer that it shows ends the process (`row_group(0).column(0)`, pyarrow 26), so
both are read here. They are in the compact protocol of Thrift; the numbers of fields are in parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow.parquet as pq

from divea.errors import InputError

_VALUE_BYTES = 8
"""Bytes that a value takes at least once it is read, however small its page is."""
_HEADER_BYTES = (1 << 10, 16 << 20)
"""Bytes that are read for a page header, and the most that it may have: it may hold values in full."""
_DEEPEST = 12
"""The most levels of structures and lists; the format has about half of that."""

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7
_TRUE, _FALSE, _I8, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (*range(1, 11), 12)


@dataclass
class Pages:
    """What the pages of some columns take once they are read."""

    expanded: int = 0
    """Bytes of all pages, if every value is kept once."""
    largest_shared: int = 0
    """Bytes of the largest page that many values can share: a dictionary, or `DELTA_BYTE_ARRAY`, where a
    value repeats the start of the one before. No value of these pages is longer."""
    has_shared_starts: bool = False
    """Whether a page is encoded as `DELTA_BYTE_ARRAY`: distinct values may then take more than `expanded`."""


def read_pages(path: Path, file: pq.ParquetFile, columns: Collection[str] | None = None) -> Pages:
    """The sizes of the pages of these columns, or of all columns; the pages themselves are not read.

    Raises InputError if the footer or a header cannot be read.
    """
    return PageHeaders(path, file, columns).pages()


class PageHeaders:
    """The headers of the pages of some columns. The footer is read once.

    Raises InputError if the footer or a header cannot be read.
    """

    def __init__(self, path: Path, file: pq.ParquetFile, columns: Collection[str] | None = None):
        self._path = path
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        wanted = [at for at, name in enumerate(paths) if columns is None or name.split(".")[0] in columns]
        with self._reported(), path.open("rb") as raw:
            self._chunks = list(_chunks(raw, wanted))

    def pages(self, row_groups: Collection[int] | None = None) -> Pages:
        """The sizes of the pages of these row groups, or of all."""
        pages = Pages()
        with self._reported(), self._path.open("rb") as raw:
            for group in range(len(self._chunks)) if row_groups is None else row_groups:
                for start, end in self._chunks[group]:
                    while start < end:
                        header, length = _page_header(raw, start)
                        _add(pages, header)
                        start += length + header[3]
        return pages

    @contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except (IndexError, KeyError, TypeError, ValueError, OverflowError):
            raise InputError("not a readable Parquet file (a damaged header)", path=self._path) from None


def _chunks(raw: BinaryIO, columns: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Where the pages of the columns start and end, for each row group."""
    size = raw.seek(-8, 2) + 8
    length = int.from_bytes(raw.read(4), "little")
    raw.seek(size - 8 - length)
    footer, _ = _struct(raw.read(length), 0, _DEEPEST)
    for row_group in footer[4]:
        places = []
        for number in columns:
            chunk = row_group[1][number][3]
            start, dictionary_start = chunk[9], chunk.get(11, 0)
            if 0 < dictionary_start < start:
                start = dictionary_start
            # Readers do not look for the pages of a column without values.
            if chunk[5] > 0:
                places.append((start, start + chunk[7]))
        yield places


def _add(pages: Pages, header: dict[int, Any]) -> None:
    """Count a page."""
    kind, decompressed, compressed = header[1], header[2], header[3]
    values, encoding = 0, None
    if kind == _DATA_PAGE:
        values, encoding = header[5][1], header[5][2]
    elif kind == _DATA_PAGE_V2:
        values, encoding = header[8][1], header[8][4]
    if min(decompressed, compressed, values) < 0:
        raise ValueError("a negative size")
    pages.expanded += decompressed + _VALUE_BYTES * values
    if encoding == _DELTA_BYTE_ARRAY:
        pages.has_shared_starts = True
    if kind == _DICTIONARY_PAGE or encoding == _DELTA_BYTE_ARRAY:
        pages.largest_shared = max(pages.largest_shared, decompressed)


def _page_header(raw: BinaryIO, start: int) -> tuple[dict[int, Any], int]:
    """The fields of the header at this position, and its length."""
    for most in _HEADER_BYTES:
        raw.seek(start)
        data = raw.read(most)
        try:
            return _struct(data, 0, _DEEPEST)
        except IndexError:
            if len(data) < most:
                raise
    raise IndexError("the header is too long")


def _struct(data: bytes, at: int, levels: int) -> tuple[dict[int, Any], int]:
    """The fields of a structure by number, and where it ends.

    Raises ValueError for what no writer has a reason to write, such as a field that appears twice: parsers
    may differ in how they understand it.
    """
    fields: dict[int, Any] = {}
    number = 0
    while data[at]:
        step, kind = data[at] >> 4, data[at] & 15
        at += 1
        if step:
            number += step
        else:
            number, at = _integer(data, at)
        if number in fields or not 0 < number < 1 << 15:
            raise ValueError("a wrong number of a field")
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        else:
            fields[number], at = _value(data, at, kind, levels)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, levels: int) -> tuple[Any, int]:
    """A value of this kind, None for those that are not used here, and where it ends."""
    if not levels:
        raise ValueError("nested too deeply")
    if kind in (_I16, _I32, _I64):
        value, at = _integer(data, at)
        if kind != _I64 and not -(1 << 31) <= value < 1 << 31:
            raise ValueError("an integer of more than 32 bits")
        return value, at
    if kind == _STRUCT:
        return _struct(data, at, levels - 1)
    if kind in (_LIST, _SET):
        return _list(data, at, levels - 1)
    length = {_TRUE: 1, _FALSE: 1, _I8: 1, _DOUBLE: 8}.get(kind)
    if kind == _BINARY:
        length, at = _varint(data, at)
    if length is None:
        raise ValueError("a kind of value that Parquet does not have")
    return None, at + length


def _list(data: bytes, at: int, levels: int) -> tuple[list[Any], int]:
    count, kind = data[at] >> 4, data[at] & 15
    at += 1
    if count == 15:
        count, at = _varint(data, at)
    values = []
    for _ in range(count):
        value, at = _value(data, at, kind, levels)
        values.append(value)
    return values, at


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """A signed number: its sign is the lowest bit."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            if value >= 1 << 64:
                break
            return value, at
    raise ValueError("an integer of more than 64 bits")
