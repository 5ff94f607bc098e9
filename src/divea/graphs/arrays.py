"""Opens arrays that somebody else may have written: they are checked before anything uses them.

Kernels of numpy, scipy and Arrow read and write memory at the ids and string offsets that they are given, so
a wrong id in a file is a wrong address. The functions here check types, shapes, sizes, string offsets, UTF-8
and ids. Arrays stay memory-mapped, and nothing is allocated before its size is known to fit the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.errors import InputError
from divea.graphs.labels import LABEL, hash_labels
from divea.io import require_regular

LARGEST_JSON = 1 << 20
"""The most bytes of a JSON file that describes a folder."""

_NPY_START = 1 << 10
"""Bytes of an .npy file that are searched for its header; numpy writes 128."""
_ARROW_MAGIC = b"ARROW1\0\0"
_BLOCK = 1 << 16
"""Rows that are checked at a time: their temporary arrays stay in the cache."""


@contextmanager
def _opening(path: Path) -> Iterator[None]:
    """Turn what can go wrong with a file into an InputError of one line."""
    try:
        require_regular(path)
        yield
    except OSError as error:
        raise InputError(f"cannot be opened: {error.strerror or error}", path=path) from error
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"is damaged ({error})", path=path) from error


def read_description(path: Path) -> Any:
    """The content of a small JSON file that describes a folder."""
    with _opening(path):
        if path.stat().st_size > LARGEST_JSON:
            raise InputError(f"is larger than {LARGEST_JSON >> 20} MiB", path=path)
        try:
            return json.loads(path.read_bytes())
        except RecursionError:
            raise InputError("is nested too deeply", path=path) from None


def open_array(path: Path, kind: type[np.number[Any]], columns: int | None = None) -> np.ndarray:
    """The array of an .npy file, memory-mapped and read-only.

    Raises InputError if the file does not hold exactly the rows of numbers that its header declares.

    Parameters
    ----------
    kind
        The type of the numbers.
    columns
        The number of columns, None for an array of one dimension.
    """
    dtype = np.dtype(kind)
    what = "one column" if columns is None else f"{columns} columns"
    return _mapped(
        path,
        re.escape(dtype.str.encode()),
        b"" if columns is None else b" %d" % columns,
        f"is no .npy file of {dtype.name} numbers in {what}",
    )


def open_matrix(path: Path) -> np.ndarray:
    """The matrix of an .npy file of float16, float32 or float64 numbers, memory-mapped and read-only.

    Raises InputError if the file does not hold exactly the rows of numbers that its header declares.
    """
    what = "is no .npy file of float16, float32 or float64 numbers in rows and columns, as np.save writes it"
    return _mapped(path, rb"<f[248]", rb" \d{1,18}", what)


def _mapped(path: Path, kinds: bytes, columns: bytes, otherwise: str) -> np.ndarray:
    """The array of an .npy file, memory-mapped.

    Parameters
    ----------
    kinds, columns
        Patterns of the type of its numbers, and of what follows the number of rows in its shape.
    otherwise
        The message if the file is no such array.
    """
    # The text that `np.save` writes. numpy's own reader evaluates the header as Python, with its surprises.
    header = re.compile(
        rb"\x93NUMPY\x01\0(..)\{'descr': '(%s)', 'fortran_order': False, 'shape': \((\d{1,18}),(%s)\), \} *\n"
        % (kinds, columns),
        re.DOTALL,
    )
    with _opening(path):
        with path.open("rb") as file:
            found = header.match(file.read(_NPY_START))
            size = file.seek(0, 2)
        if found is None or found.end() != 10 + int.from_bytes(found[1], "little"):
            raise InputError(otherwise, path=path)
        dtype = np.dtype(found[2].decode())
        shape = (int(found[3]), int(found[4])) if found[4] else (int(found[3]),)
        if size != found.end() + math.prod(shape) * dtype.itemsize:
            raise InputError("is damaged (its size does not fit the shape in its header)", path=path)
        return np.memmap(path, dtype, "r", found.end(), shape)


def open_columns(path: Path, schema: pa.Schema) -> list[pa.Array]:
    """The columns of an Arrow file of one uncompressed batch, memory-mapped.

    Raises InputError if the file has other columns or missing values, or if a column is not valid.
    """
    with _opening(path), pa.memory_map(str(path)) as source:
        if source.read(len(_ARROW_MAGIC)) != _ARROW_MAGIC:
            raise InputError("is no Arrow file", path=path)
        # The messages are read one after the other: the footer of a file may point anywhere.
        messages = iter(_messages(source))
        first = next(messages, None)
        if first is None or first.type != "schema" or pa.ipc.read_schema(first) != schema:
            raise InputError(f"expected the columns {', '.join(schema.names)}", path=path)
        batches = list(messages)
        if not batches:
            return [pa.array([], field.type) for field in schema]
        if len(batches) > 1 or batches[0].type != "record batch" or _is_compressed(batches[0]):
            raise InputError("expected one uncompressed batch", path=path)
        batch = pa.ipc.read_record_batch(batches[0], schema)
        batch.validate(full=True)
        if any(column.null_count for column in batch.columns):
            raise InputError("has missing values", path=path)
        return [_trimmed(column) for column in batch.columns]


def _messages(source: pa.MemoryMappedFile) -> Iterator[pa.Message]:
    reader = pa.ipc.MessageReader.open_stream(source)
    # Three are enough to see that there are too many.
    for _ in range(3):
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _is_compressed(message: pa.Message) -> bool:
    """Whether the buffers of a batch are compressed: each would then be allocated as large as it claims.

    Arrow does not say so, hence the few steps through the flatbuffer: Message.header is field 2 of the root,
    and RecordBatch.compression is field 3 of that.
    """
    data = memoryview(message.metadata)

    def number(at: int, size: int, signed: bool = False) -> int:
        return int.from_bytes(data[at : at + size], "little", signed=signed)

    def field(table: int, index: int) -> int:
        """The position of a field of a table, 0 if the table does not have it."""
        vtable = table - number(table, 4, signed=True)
        entry = 4 + 2 * index
        offset = number(vtable + entry, 2) if entry < number(vtable, 2) else 0
        return table + offset if offset else 0

    header = field(number(0, 4), 2)
    return field(header + number(header, 4), 3) != 0


def _trimmed(column: pa.Array) -> pa.Array:
    """A valid column without missing values, its buffers no larger than its length says."""
    _, *buffers = column.buffers()
    width = 8 * (len(column) + 1) if column.type == LABEL else len(column) * column.type.bit_width // 8
    if not len(column):
        return pa.array([], column.type)
    buffers = [None, buffers[0].slice(0, width), *(buffer or pa.py_buffer(b"") for buffer in buffers[1:])]
    return pa.Array.from_buffers(column.type, len(column), buffers)


def open_labels(path: Path) -> pa.Array:
    """The labels of an Arrow file: distinct, not empty, and in the order of ids."""
    labels = open_columns(path, pa.schema({"label": LABEL}))[0]
    if not len(labels):
        return labels
    starts = np.frombuffer(labels.buffers()[1], np.int64)
    if (starts[1:] == starts[:-1]).any():
        raise InputError("has an empty label", path=path)
    hashes = hash_labels(labels)
    if (hashes[1:] < hashes[:-1]).any():
        raise InputError("is damaged (its labels are not in the order of their hashes)", path=path)
    repeats = np.flatnonzero(hashes[1:] == hashes[:-1]).tolist()
    if any(labels[row].as_py().encode() >= labels[row + 1].as_py().encode() for row in repeats):
        raise InputError("is damaged (a label appears twice)", path=path)
    return labels


def require_ids(ids: npt.NDArray[np.int32], count: int, path: Path, what: str) -> None:
    """Raise InputError if an id is not one of `count` things."""
    # Negative numbers are large if they are read as unsigned.
    if len(ids) and int(ids.view(np.uint32).max()) >= count:
        raise InputError(f"is damaged (it has {what} ids outside 0..{count - 1})", path=path)


def require_triples(triples: npt.NDArray[np.int32], entities: int, relations: int, path: Path) -> None:
    """Raise InputError if triples have ids that do not exist, or are not distinct and sorted."""
    for first in range(0, len(triples), _BLOCK):
        # Each block starts with the last row of the one before.
        block = np.asarray(triples[max(first - 1, 0) : first + _BLOCK])
        heads, kinds, tails = block[:, 0], block[:, 1], block[:, 2]
        require_ids(heads, entities, path, "entity")
        require_ids(tails, entities, path, "entity")
        require_ids(kinds, relations, path, "relation")
        is_sorted = (tails[1:] > tails[:-1]) & (kinds[1:] == kinds[:-1]) | (kinds[1:] > kinds[:-1])
        is_sorted = is_sorted & (heads[1:] == heads[:-1]) | (heads[1:] > heads[:-1])
        if not is_sorted.all():
            raise InputError("is damaged (its triples are not distinct and sorted)", path=path)
