"""Opens text files, plain or compressed, and turns everything that can be wrong into an `InputError`."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from divea.errors import InputError
from divea.io import require_regular

LONGEST_LINE = 16 << 20
"""The most bytes of a line. A longer line is far more often a broken file than a triple."""
MOST_EXPANSION = 200
"""The most bytes of text for a byte of a compressed file. Dumps of graphs have less than 100."""
FREE_EXPANSION = 64 << 20
"""Bytes of text that a compressed file of any size may have in addition."""

_CHUNK = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@contextmanager
def open_text(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a text file, decompressed and without a byte order mark.

    The compression is recognised by the first bytes of the file, not by its name. Raises InputError if the
    file cannot be read, is not a regular file, is empty or damaged, expands to more than `MOST_EXPANSION`
    times its size and `FREE_EXPANSION` bytes, or contains a NUL byte or a line longer than `LONGEST_LINE`.
    """
    path = Path(path)
    with reading(path):
        require_regular(path)
        size = path.stat().st_size
        if size == 0:
            raise InputError("is empty", path=path)
        with path.open("rb") as raw:
            most = None if _compression(raw) is None else MOST_EXPANSION * size + FREE_EXPANSION
            text = _CheckedText(_decompressed(raw), path, most)
            yield cast(BinaryIO, io.BufferedReader(text, _CHUNK))


@contextmanager
def open_table(path: Path) -> Iterator[BinaryIO | pa.NativeFile]:
    """Like `open_text`, but an uncompressed file is opened for a parser of Arrow to read directly.

    An uncompressed file is then not checked: the caller must look for NUL bytes and limit the length of rows.
    """
    with open_text(path) as stream, reading(path):
        with path.open("rb") as raw:
            is_plain = _compression(raw) is None
        if is_plain:
            with pa.OSFile(str(path), "rb") as native:
                yield native
        else:
            yield stream


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn errors of the operating system and of decompressors into an InputError of one line."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("no such file", path=path) from error
    except (EOFError, lzma.LZMAError) as error:
        raise InputError(f"the compressed file is damaged or cut off ({error})", path=path) from error
    except OSError as error:
        _raise_input_error_behind(error)
        if "compressed" in str(error).lower() or error.strerror is None:
            message = f"the compressed file is damaged or cut off ({error})"
            raise InputError(message, path=path) from error
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error


def _raise_input_error_behind(error: BaseException) -> None:
    """Raise the `InputError` that caused this error, if there is one.

    A library that reads from our stream may wrap the `InputError` of the stream in an error of its own.
    """
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, InputError):
            raise cause
        cause = cause.__cause__ or cause.__context__


def _compression(raw: BinaryIO) -> str | None:
    """The compression of a file that is open at its start; None for plain text."""
    start = raw.read(6)
    raw.seek(0)
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def _decompressed(raw: BinaryIO) -> BinaryIO:
    kind = _compression(raw)
    if kind == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    return raw if kind is None else pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), kind)


class _CheckedText(io.RawIOBase):
    """The bytes of a text; refuses NUL bytes, lines that are too long, and too much text.

    It counts the lines that have ended so far, the bytes since the last line end, and all bytes. At most
    `most` bytes are read; None for no limit.
    """

    def __init__(self, source: BinaryIO, path: Path, most: int | None) -> None:
        self._source = source
        self._path = path
        self._most = most
        self._bytes = 0
        self._lines = 0
        self._line_length = 0
        self._is_at_start = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        chunk = self._source.read(min(len(buffer), _CHUNK))
        if self._is_at_start:
            self._is_at_start = False
            chunk = self._without_byte_order_mark(chunk)
        self._refuse_expansion(chunk)
        self._refuse_nul(chunk)
        self._count_lines(chunk)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _without_byte_order_mark(self, chunk: bytes) -> bytes:
        if not chunk.startswith(_BYTE_ORDER_MARK):
            return chunk
        # As many more bytes are read as were removed: an empty chunk would mean the end of the file.
        return chunk[len(_BYTE_ORDER_MARK) :] + self._source.read(len(_BYTE_ORDER_MARK))

    def _refuse_expansion(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        if self._most is not None and self._bytes > self._most:
            raise InputError(
                f"expands to more than {self._most >> 20} MiB (the limit is {FREE_EXPANSION >> 20} MiB and "
                f"{MOST_EXPANSION} times its size); decompress it first if it is no mistake",
                path=self._path,
            )

    def _refuse_nul(self, chunk: bytes) -> None:
        at = chunk.find(b"\0")
        if at >= 0:
            line = self._lines + chunk.count(b"\n", 0, at) + 1
            raise InputError("contains a NUL byte: this is not a text file", path=self._path, line=line)

    def _count_lines(self, chunk: bytes) -> None:
        """Count the lines that end in a chunk; refuse a line that is too long.

        Only the line that a chunk starts in can be too long, because a chunk is shorter than `LONGEST_LINE`.
        """
        first_end = chunk.find(b"\n")
        self._line_length += len(chunk) if first_end < 0 else first_end
        if self._line_length > LONGEST_LINE:
            limit = f"{LONGEST_LINE >> 20} MiB"
            raise InputError(f"a line of more than {limit}", path=self._path, line=self._lines + 1)
        if first_end >= 0:
            self._lines += chunk.count(b"\n")
            self._line_length = len(chunk) - chunk.rfind(b"\n") - 1
