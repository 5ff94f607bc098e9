"""Opens a text file, plain or compressed, and refuses what no text file should hold."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from divea.errors import InputError

LONGEST_LINE = 16 << 20
"""A longer line is a broken file far more often than a statement."""

_CHUNK = 1 << 20
_MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\x28\xb5\x2f\xfd": "zstd", b"\xfd7zXZ\x00": "xz"}


@contextmanager
def open_text(path: str | Path) -> Iterator[BinaryIO]:
    """The bytes of a text file, decompressed, with every failure told as an `InputError`.

    The compression is known from the first bytes, not from the name.
    """
    path = Path(path)
    with reading(path):
        if path.is_dir():
            raise InputError("is a folder, not a file", path=path)
        if path.stat().st_size == 0:
            raise InputError("is empty", path=path)
        with path.open("rb") as raw:
            yield cast(BinaryIO, io.BufferedReader(_CheckedText(_decompressed(raw), path), _CHUNK))


@contextmanager
def open_table(path: Path) -> Iterator[BinaryIO | pa.NativeFile]:
    """As `open_text`, but a plain file is handed over as it is, for a parser that reads by itself.

    What the checked text would notice, the caller must: NUL bytes and endless lines.
    """
    with open_text(path) as stream, reading(path):
        with path.open("rb") as raw:
            plain = _compression(raw) is None
        if plain:
            with pa.OSFile(str(path), "rb") as native:
                yield native
        else:
            yield stream


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what the system and the decoders say about a file into one clear line."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError("no such file", path=path) from error
    except (EOFError, lzma.LZMAError) as error:
        raise InputError(f"the compressed file is damaged or cut off ({error})", path=path) from error
    except OSError as error:
        _raise_cause(error)
        if "compressed" in str(error).lower() or error.strerror is None:
            message = f"the compressed file is damaged or cut off ({error})"
            raise InputError(message, path=path) from error
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error


def _raise_cause(error: BaseException) -> None:
    """Libraries that call our stream may wrap the `InputError` it raised in one of their own."""
    cause = error.__cause__ or error.__context__
    while cause is not None:
        if isinstance(cause, InputError):
            raise cause
        cause = cause.__cause__ or cause.__context__


def _compression(raw: BinaryIO) -> str | None:
    start = raw.read(6)
    raw.seek(0)
    return next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), None)


def _decompressed(raw: BinaryIO) -> BinaryIO:
    kind = _compression(raw)
    if kind == "xz":
        return cast(BinaryIO, lzma.LZMAFile(raw))
    return raw if kind is None else pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), kind)


class _CheckedText(io.RawIOBase):
    """Passes bytes on, counting lines, so that a NUL byte or an endless line is told by number."""

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self._source = source
        self._path = path
        self._lines = 0
        self._line_length = 0
        self._first = True

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        chunk = self._source.read(min(len(buffer), _CHUNK))
        if self._first:
            self._first = False
            if chunk.startswith(b"\xef\xbb\xbf"):
                chunk = chunk[3:] + self._source.read(3)
        self._check(chunk)
        buffer[: len(chunk)] = chunk
        return len(chunk)

    def _check(self, chunk: bytes) -> None:
        zero = chunk.find(b"\0")
        if zero >= 0:
            line = self._lines + chunk.count(b"\n", 0, zero) + 1
            raise InputError("holds a NUL byte: this is no text file", path=self._path, line=line)
        newline = chunk.find(b"\n")
        self._line_length += len(chunk) if newline < 0 else newline
        if self._line_length > LONGEST_LINE:
            limit = f"{LONGEST_LINE >> 20} MiB"
            raise InputError(f"a line of more than {limit}", path=self._path, line=self._lines + 1)
        if newline >= 0:
            self._lines += chunk.count(b"\n")
            self._line_length = len(chunk) - chunk.rfind(b"\n") - 1
