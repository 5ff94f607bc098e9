"""How much a Parquet file would expand to, read from the headers of its pages.

The footer of a Parquet file states sizes and numbers of rows, and may state anything. What a reader allocates
is decided by the header of each page: its decompressed size and its number of values. pyarrow does not show
page headers, and a damaged footer that it shows ends the process (`row_group(0).column(0)`, pyarrow 26), so
both are read here. The numbers of fields are in parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.thrift import Struct, read_struct

_VALUE_BYTES = 8
"""Bytes that a value takes at least once it is read, however small its page is."""
_HEADER_BYTES = (1 << 10, 16 << 20)
"""Bytes that are read for a page header, and the most that it may have: it may hold values in full."""

_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_DELTA_BYTE_ARRAY = 7


@dataclass
class Pages:
    """What the pages of some columns take once they are read."""

    expanded: int = 0
    """Bytes of all pages, if every stored value is kept once."""
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
    footer, _ = read_struct(raw.read(length))
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


def _add(pages: Pages, header: Struct) -> None:
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


def _page_header(raw: BinaryIO, start: int) -> tuple[Struct, int]:
    """The fields of the header at this position, and its length."""
    for most in _HEADER_BYTES:
        raw.seek(start)
        data = raw.read(most)
        try:
            return read_struct(data)
        except IndexError:
            if len(data) < most:
                raise
    raise IndexError("the header is too long")
