"""The result of a subtask as a file: arrays and nothing else, checked against the subtask when read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from divea.alignment.solve import Solved
from divea.division import Subtask
from divea.division.columns import contains
from divea.matching import Matches


def write_solved(solved: Solved, path: Path) -> None:
    """As an .npz without pickles; the same arrays give the same bytes."""
    matches = solved.matches
    with path.open("wb") as file:
        np.savez(
            file,
            source=matches.source,
            target=matches.target,
            score=matches.score,
            mutual=matches.mutual,
            top_sums=solved.top_sums,
        )


def read_solved(path: Path, subtask: Subtask) -> Solved | None:
    """The result, or None if it is no result of this subtask."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("source", "target", "score", "mutual", "top_sums")}
    except Exception:  # whatever a damaged archive makes zipfile and numpy raise, the subtask is done again
        return None
    matches = Matches(arrays["source"], arrays["target"], arrays["score"], arrays["mutual"])
    solved = Solved(matches, arrays["top_sums"])
    return solved if fits(solved, subtask) else None


def fits(solved: Solved, subtask: Subtask) -> bool:
    """Whether arrays have the types, shapes and ids that a result of this subtask has."""
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
