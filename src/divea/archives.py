"""Archives of arrays: .npz files without pickles, read whole or mapped into memory.

Arrays start at multiples of 64 bytes, so a mapped array can be used in computations like any other.
"""

from __future__ import annotations

import errno
import io
import mmap
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from divea.errors import InputError
from divea.io import require_regular
from divea.types import Matches, Solved

_ALIGNMENT = 64
_LOCAL_HEADER, _ZIP64_FIELD, _FIELD_HEADER = 30, 20, 4
"""Bytes of a member's header, of the field for sizes above 4 GiB in it, and of the start of any field."""
_PADDING_FIELD = 0xD935
"""The kind of a field that only pads, as zipalign writes it."""

_LISTS = ("source", "target", "score", "mutual")


def write_arrays(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Write arrays to an .npz file; the same arrays give the same bytes."""
    with path.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.extra = _padding(file.tell() + len(member.filename.encode()))
            with archive.open(member, "w", force_zip64=True) as data:
                np.lib.format.write_array(data, np.ascontiguousarray(array), (1, 0), allow_pickle=False)


def _padding(end_of_name: int) -> bytes:
    """A field that moves the data of a member to a multiple of the alignment."""
    start = end_of_name + _LOCAL_HEADER + _ZIP64_FIELD + _FIELD_HEADER
    count = -start % _ALIGNMENT
    return _PADDING_FIELD.to_bytes(2, "little") + count.to_bytes(2, "little") + bytes(count)


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file that `write_arrays` wrote; None if it is no such file, or damaged."""
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            return {
                item.filename.removesuffix(".npy"): _array(_stored(archive, item).read(item), 0)
                for item in archive.infolist()
            }
    except Exception:  # zipfile and numpy may raise anything on a damaged archive
        return None


def map_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file that `write_arrays` wrote, mapped into memory; None if it is no such file.

    Only the structure of the file is checked, not its checksums. A mapped file stays open; InputError is
    raised if too many files are open.
    """
    try:
        require_regular(path)
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            members = {item: _extent(_stored(archive, item), item, file) for item in archive.infolist()}
            return {
                item.filename.removesuffix(".npy"): _array(mapped, *place) for item, place in members.items()
            }
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise InputError(
                "cannot be opened: too many open files; raise the limit of the system", path=path
            ) from None
        return None
    except Exception:  # zipfile and numpy may raise anything on a damaged archive
        return None


def _stored(archive: zipfile.ZipFile, item: zipfile.ZipInfo) -> zipfile.ZipFile:
    """The archive. Raises ValueError if the member could expand to more memory than it takes on disk."""
    if item.compress_type != zipfile.ZIP_STORED:
        raise ValueError("compressed, so divea did not write it")
    return archive


def _extent(archive: zipfile.ZipFile, item: zipfile.ZipInfo, file: IO[bytes]) -> tuple[int, int]:
    """Where the data of a member starts, and where it ends."""
    archive.open(item).close()  # checks that the header belongs to the member
    file.seek(item.header_offset)
    header = file.read(_LOCAL_HEADER)
    name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    start = item.header_offset + _LOCAL_HEADER + name + extra
    return start, start + item.file_size


def _array(data: bytes | mmap.mmap, start: int, end: int | None = None) -> np.ndarray:
    """The array in the format .npy at a place of a buffer, without a copy."""
    end = len(data) if end is None else end
    if end > len(data):
        raise ValueError("the file is shorter than it says")
    header = io.BytesIO(data[start : min(start + (1 << 16), end)])
    np.lib.format.read_magic(header)
    shape, is_fortran_ordered, dtype = np.lib.format.read_array_header_1_0(header)
    if is_fortran_ordered or dtype.hasobject:
        raise ValueError("divea writes no such arrays")
    count = int(np.prod(shape, dtype=object)) if shape else 1
    first = start + header.tell()
    if min(shape, default=0) < 0 or first + count * dtype.itemsize != end:
        raise ValueError("the array does not fill its place")
    return np.frombuffer(data, dtype, count, first).reshape(shape)


@dataclass(frozen=True, eq=False)
class MappedMatches(Matches):
    """Ranked lists in a file. A process that they are sent to maps the file itself."""

    path: Path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return map_matches, (self.path.absolute(),)

    def __repr__(self) -> str:
        return f"MappedMatches({self.path})"


def write_matches(matches: Matches, path: Path) -> None:
    """Write ranked lists."""
    write_arrays(_lists_of(matches), path)


def write_solved(solved: Solved, path: Path) -> None:
    """Write the result of a subtask."""
    write_arrays({**_lists_of(solved.matches), "top_sums": solved.top_sums}, path)


def _lists_of(matches: Matches) -> dict[str, np.ndarray]:
    return {name: getattr(matches, name) for name in _LISTS}


def map_matches(path: Path) -> MappedMatches:
    """The ranked lists of a file that divea wrote in this run. Raises InputError if there is none."""
    arrays = map_arrays(path)
    if arrays is None or not arrays.keys() >= set(_LISTS):
        raise InputError("holds no ranked lists", path=path)
    source, target, score, mutual = (arrays[name] for name in _LISTS)
    return MappedMatches(source, target, score, mutual, path)
