"""Reads vectors of entities that were computed elsewhere: Parquet, or .npy with the labels in a text file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.formats.parquet import read_label_and_list
from divea.formats.stream import open_text, reading
from divea.graphs.arrays import open_matrix
from divea.graphs.labels import LABEL
from divea.io import require_regular

MOST_DIMENSIONS = 8192
"""The most dimensions of a vector. The largest common text encoders have 4096."""

_BATCH_BYTES = 32 << 20
_BATCH_ROWS = 1 << 16
_NPY, _PARQUET = b"\x93NUMPY", b"PAR1"

Rows = npt.NDArray[np.floating[Any]]


def read_vectors(path: Path) -> Iterator[tuple[pa.Array, Rows]]:
    """Labels and their vectors, one row each, in batches.

    A Parquet file has the columns `entity` (labels) and `vector` (lists of floats). An .npy file has one
    vector per row, and a file of the same name that ends in .txt has one label per line, in the order of
    the rows. The first bytes of a file say which of the two it is.

    Raises InputError if a file is neither of these or damaged, if vectors differ in length or have more than
    `MOST_DIMENSIONS` dimensions, and if a number is not finite.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "cities.npy")
    ...     np.save(path, np.array([[0.5, 1.0], [2.0, 0.0]]))
    ...     _ = path.with_suffix(".txt").write_text("Rome\\nOslo\\n")
    ...     [(labels.to_pylist(), rows.tolist()) for labels, rows in read_vectors(path)]
    [(['Rome', 'Oslo'], [[0.5, 1.0], [2.0, 0.0]])]
    """
    batches = _npy_batches(path) if _is_npy(path) else _parquet_batches(path)
    dimensions = None
    for labels, rows in batches:
        dimensions = rows.shape[1] if dimensions is None else dimensions
        if rows.shape[1] != dimensions:
            raise InputError(_other_length(rows.shape[1], dimensions, labels[0]), path=path)
        is_finite = np.isfinite(rows).all(axis=1)
        if not is_finite.all():
            label = labels[int(np.argmin(is_finite))].as_py()
            raise InputError(f"the vector of {label!r} has a number that is not finite", path=path)
        yield labels, rows
    if dimensions is None:
        raise InputError("has no vectors", path=path)


def vector_files(path: Path) -> list[Path]:
    """The files that `read_vectors` reads: the file itself and, if it is an .npy file, that of its labels."""
    return [path, _labels_path(path)] if _is_npy(path) else [path]


def _is_npy(path: Path) -> bool:
    """Whether the file is an .npy file, not Parquet. Raises InputError if it is neither."""
    with reading(path):
        require_regular(path)
        with path.open("rb") as file:
            start = file.read(len(_NPY))
    if not start:
        raise InputError("is empty", path=path)
    if start != _NPY and not start.startswith(_PARQUET):
        raise InputError("is neither a Parquet nor an .npy file", path=path)
    return start == _NPY


def _parquet_batches(path: Path) -> Iterator[tuple[pa.Array, Rows]]:
    for labels, lists in read_label_and_list(path, "entity", "vector"):
        if not len(labels):
            continue
        lengths = pc.list_value_length(lists).to_numpy()
        first = int(lengths[0])
        _require_dimensions(first, path)
        if (lengths != first).any():
            row = int(np.argmax(lengths != first))
            raise InputError(_other_length(int(lengths[row]), first, labels[row]), path=path)
        yield labels, lists.flatten().to_numpy(zero_copy_only=False).reshape(len(labels), first)


def _other_length(found: int, expected: int, label: pa.Scalar) -> str:
    return f"the vector of {label.as_py()!r} has {found} dimensions, those before it have {expected}"


def _require_dimensions(dimensions: int, path: Path) -> None:
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise InputError(
            f"vectors have {dimensions} dimensions; 1 to {MOST_DIMENSIONS} are allowed", path=path
        )


def _labels_path(path: Path) -> Path:
    return path.with_suffix(".txt")


def _npy_batches(path: Path) -> Iterator[tuple[pa.Array, Rows]]:
    rows = open_matrix(path)
    _require_dimensions(rows.shape[1], path)
    step = max(1, min(_BATCH_ROWS, _BATCH_BYTES // (8 * rows.shape[1])))
    first = 0
    for labels in _label_lines(_labels_path(path), path, step):
        first += len(labels)
        if first <= len(rows):
            yield pa.array(labels, LABEL), np.array(rows[first - len(labels) : first])
    if first != len(rows):
        raise InputError(
            f"has {len(rows)} rows, and {_labels_path(path).name} has {first} labels: each row needs one",
            path=path,
        )


def _label_lines(path: Path, npy: Path, step: int) -> Iterator[list[str]]:
    """The lines of a text file, `step` at a time."""
    if not path.exists():
        raise InputError(
            f"no such file: it must have the label of each row of {npy.name}, one per line", path=path
        )
    labels: list[str] = []
    with open_text(path) as lines:
        for number, line in enumerate(lines, start=1):
            try:
                label = line.decode().removesuffix("\n").removesuffix("\r")
            except UnicodeDecodeError:
                raise InputError("is not UTF-8", path=path, line=number) from None
            if not label:
                raise InputError("an empty label", path=path, line=number)
            labels.append(label)
            if len(labels) == step:
                yield labels
                labels = []
    if labels:
        yield labels
