"""Joins row groups that were encoded separately, for example each in a thread, into one Parquet file.

pyarrow encodes a file in one thread. The pages of a row group do not depend on where they are in a file; only
the footer says where they start. Row groups that were written as files of their own are therefore written one
after the other, and their positions are corrected in a common footer. The numbers of fields are in
parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from divea.formats.thrift import List, Struct, read_struct, write_struct

_MAGIC = b"PAR1"
_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _GROUP_PLACE, _ORDINAL = 1, 5, 7
_COLUMN_PLACES, _DESCRIPTION = (2, 4, 6), 3
_PAGE_PLACES = (9, 10, 11, 14)


class Appended(Protocol):
    """A file that bytes are appended to."""

    def write(self, data: bytes | memoryview, /) -> object: ...


def join_parquet(parts: Iterable[pa.Buffer], file: Appended) -> None:
    """Write the row groups of Parquet files with the same columns as one file.

    The bytes are those that one writer would have written for the same row groups.

    Parameters
    ----------
    parts
        The files, at least one. Each is released before the next one is taken.

    Examples
    --------
    >>> import io, pyarrow.parquet as pq
    >>> def encoded(values):
    ...     with pa.BufferOutputStream() as part:
    ...         pq.write_table(pa.table({"n": values}), part)
    ...         return part.getvalue()
    >>> file = io.BytesIO()
    >>> join_parquet([encoded([1, 2]), encoded([3])], file)
    >>> pq.read_table(file)["n"].to_pylist()
    [1, 2, 3]
    """
    file.write(_MAGIC)
    at = len(_MAGIC)
    whole: Struct | None = None
    for part in parts:
        pages, footer = _parsed(part)
        for group in footer[_ROW_GROUPS]:
            _move(group, at - len(_MAGIC))
        if whole is None:
            whole = footer
        else:
            whole[_ROWS] += footer[_ROWS]
            _append(whole[_ROW_GROUPS], footer[_ROW_GROUPS])
        file.write(memoryview(pages))
        at += len(pages)
        del part, pages
    assert whole is not None
    data = write_struct(whole)
    file.write(data + len(data).to_bytes(4, "little") + _MAGIC)


def _parsed(part: pa.Buffer) -> tuple[pa.Buffer, Struct]:
    """The pages of a Parquet file, and its footer."""
    length = int.from_bytes(part[-8:-4].to_pybytes(), "little")
    end = len(part) - 8 - length
    return part[len(_MAGIC) : end], read_struct(part[end:-8].to_pybytes())[0]


def _append(groups: List, more: List) -> None:
    for group in more:
        if _ORDINAL in group:
            group[_ORDINAL] = len(groups)
        groups.append(group)


def _move(group: Struct, by: int) -> None:
    """Correct the positions in the description of a row group. A position of 0 is not in use."""
    _add(group, (_GROUP_PLACE,), by)
    for column in group[_COLUMNS]:
        _add(column, _COLUMN_PLACES, by)
        _add(column[_DESCRIPTION], _PAGE_PLACES, by)


def _add(fields: Struct, numbers: tuple[int, ...], by: int) -> None:
    for number in numbers:
        if fields.get(number, 0) > 0:
            fields[number] += by
