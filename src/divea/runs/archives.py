"""Archives of arrays in a run, such as the result of a subtask or vectors of entities. Nothing is pickled."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from divea.division import Subtask
from divea.graphs.features import EntityVectors
from divea.graphs.ids import contains
from divea.types import Matches, Solved

_ARRAYS = ("source", "target", "score", "mutual", "top_sums")


def write_solved(solved: Solved, path: Path) -> None:
    """Write the result of a subtask."""
    matches = solved.matches
    write_arrays(
        {
            "source": matches.source,
            "target": matches.target,
            "score": matches.score,
            "mutual": matches.mutual,
            "top_sums": solved.top_sums,
        },
        path,
    )


def read_solved(path: Path, subtask: Subtask) -> Solved | None:
    """The result, or None if it is not a result of this subtask."""
    arrays = read_arrays(path)
    if arrays is None or arrays.keys() != set(_ARRAYS):
        return None
    source, target, score, mutual, top_sums = (arrays[name] for name in _ARRAYS)
    solved = Solved(Matches(source, target, score, mutual), top_sums)
    return solved if fits(solved, subtask) else None


def write_arrays(arrays: Mapping[str, np.ndarray], path: Path) -> None:
    """Write an .npz file without pickles; the same arrays give the same bytes."""
    in_order = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with path.open("wb") as file:
        np.savez(file, **in_order)  # type: ignore[arg-type]


def read_arrays(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays of a file that `write_arrays` wrote, or None if it is none, or damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".npy"): _stored_array(archive, name) for name in archive.namelist()}
    except Exception:  # zipfile and numpy may raise anything on a damaged archive
        return None


def _stored_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """An array of an archive, in no more memory than the archive takes on disk."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError("compressed, so divea did not write it")
    data = archive.read(member)
    header = io.BytesIO(data)
    np.lib.format.read_magic(header)
    shape, is_fortran_ordered, dtype = np.lib.format.read_array_header_1_0(header)
    if is_fortran_ordered or dtype.hasobject:
        raise ValueError("divea writes no such arrays")
    return np.frombuffer(data, dtype, offset=header.tell()).reshape(shape)


def fits(solved: Solved, subtask: Subtask) -> bool:
    """Whether the arrays have the types, shapes and ids of a result of this subtask."""
    matches, rows = solved.matches, len(subtask.unmatched)
    if matches.target.ndim != 2 or matches.target.dtype != np.int32:
        return False
    shape = (rows, matches.target.shape[1])
    return (
        np.array_equal(matches.source, subtask.unmatched)
        and matches.target.shape == matches.score.shape == shape
        and matches.mutual.shape == (rows,)
        and solved.top_sums.shape == (len(subtask.candidates),)
        and matches.score.dtype == np.float32
        and matches.mutual.dtype == np.bool_
        and solved.top_sums.dtype == np.float32
        and bool(contains(subtask.candidates, matches.target[matches.target != -1]).all())
    )


def write_vectors(vectors: EntityVectors, path: Path) -> None:
    """Write vectors of entities."""
    is_structure = np.array([vectors.is_structure])
    write_arrays({"source": vectors.source, "target": vectors.target, "is_structure": is_structure}, path)


def read_vectors(path: Path, name: str) -> EntityVectors | None:
    """The vectors, or None if the file has none."""
    arrays = read_arrays(path)
    if arrays is None or arrays.keys() != {"source", "target", "is_structure"}:
        return None
    source, target, is_structure = (arrays[array] for array in ("source", "target", "is_structure"))
    is_valid = source.ndim == target.ndim == 2 and source.shape[1] == target.shape[1]
    is_valid &= is_structure.shape == (1,) and is_structure.dtype == np.bool_
    if not is_valid or not all(rows.dtype in (np.float16, np.float32) for rows in (source, target)):
        return None
    ids = (np.arange(len(rows), dtype=np.int32) for rows in (source, target))
    return EntityVectors(name, next(ids), next(ids), source, target, is_structure=bool(is_structure[0]))
