"""What a run keeps as archives of arrays: the results of subtasks, and vectors of entities."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from divea.archives import MappedMatches, map_arrays, read_arrays, write_arrays
from divea.division import Subtask
from divea.graphs.features import EntityVectors
from divea.graphs.ids import contains
from divea.types import Solved

_ARRAYS = ("source", "target", "score", "mutual", "top_sums")


def read_solved(path: Path, subtask: Subtask) -> Solved | None:
    """The result, mapped into memory, or None if it is not a result of this subtask."""
    arrays = map_arrays(path)
    if arrays is None or arrays.keys() != set(_ARRAYS):
        return None
    source, target, score, mutual, top_sums = (arrays[name] for name in _ARRAYS)
    solved = Solved(MappedMatches(source, target, score, mutual, path), top_sums)
    return solved if fits(solved, subtask) else None


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
