"""The checkpoints of a run: the state of its loop after each iteration, in the run directory.

A checkpoint holds the checksums of the results that it was learned from and of the checkpoint before it, and
a division is tied to the checkpoint that it follows. Files that do not belong together are not used: the loop
then starts further back, and reuses the results that are still valid for its jobs.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from divea.archives import read_arrays, write_arrays
from divea.division import Division, Subtask, load_division
from divea.errors import InputError
from divea.graphs import AlignmentTask, Links
from divea.io import checksum
from divea.loop.checkpoint import Checkpoint, Checkpoints
from divea.loop.confidence import COLUMNS, Calibration, Judged
from divea.loop.lists import Lists
from divea.resources.machine import cores
from divea.runs.archives import read_solved
from divea.runs.directory import RunDirectory
from divea.runs.layout import DIVISION, iteration_folder, judged_file, learned_file, result_file
from divea.runs.log import Log
from divea.types import Solved

Arrays = dict[str, np.ndarray]

_ABOUT = "about"
"""The name of the array that holds everything else of a file, as JSON."""
_CALIBRATION = ("mean", "deviation", "weights")
_JUDGED = ("features", "is_correct", "counts", "seed")
_DAMAGE = (
    ArithmeticError,
    AttributeError,
    IndexError,
    InputError,
    KeyError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What may be raised by reading a file that is damaged or that divea did not write."""


class RunCheckpoints(Checkpoints):
    """Keeps checkpoints in a run directory.

    Parameters
    ----------
    log
        Gets a note if the loop continues from a checkpoint; None for no log.
    failed
        The jobs that failed so far. Nothing is kept after a failure: the next start tries those jobs again,
        and may learn something else.
    continues
        Whether to continue from the latest checkpoint. An observer needs all iterations instead.
    """

    def __init__(
        self, run: RunDirectory, log: Log | None, failed: Sequence[object], *, continues: bool = True
    ):
        self._run, self._log, self._failed, self._continues = run, log, failed, continues
        self._follows: dict[int, str] = {}
        """For each fold, the checksum of the checkpoint that its next iteration follows."""

    def latest(self, fold: int, task: AlignmentTask) -> Checkpoint | None:
        if not self._continues:
            return None
        for iteration in reversed(range(self._run.manifest.settings.iterations - 1)):
            found = self._run.valid_checksum(
                learned_file(iteration, fold), self._made_from("learned", fold, iteration)
            )
            if found is not None and (checkpoint := self._read(fold, iteration, task)) is not None:
                self._follows[fold] = found
                if self._log is not None:
                    loop = f" of fold {fold}" if fold else ""
                    self._log("note", text=f"continued after iteration {iteration + 1}{loop}")
                return checkpoint
        return None

    def keep(self, fold: int, checkpoint: Checkpoint) -> None:
        if self._failed:
            return
        iteration, similarity = checkpoint.iteration, checkpoint.similarity
        pairs = checkpoint.pseudo_seeds
        arrays = {"pseudo_seeds_source": pairs.source, "pseudo_seeds_target": pairs.target}
        if similarity is not None:
            names = ("data", "indices", "indptr")
            arrays |= {f"similarity_{name}": getattr(similarity, name) for name in names}
        intercept = None
        if (calibration := checkpoint.calibration) is not None:
            intercept = calibration.intercept
            arrays |= {f"calibration_{name}": getattr(calibration, name) for name in _CALIBRATION}
            arrays |= {f"judged_{name}": getattr(calibration.judged, name) for name in _JUDGED}
        results = [result_file(iteration, subtask.index, fold) for subtask in checkpoint.division.subtasks]
        about = {
            "follows": self._follows.get(fold, ""),
            "results": [self._run.journal_checksum(name) for name in results],
            "weights": checkpoint.weights,
            "scale": checkpoint.scale,
            "intercept": intercept,
        }
        arrays[_ABOUT] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        name = learned_file(iteration, fold)
        self._run.commit(
            name, self._made_from("learned", fold, iteration), lambda path: write_arrays(arrays, path)
        )
        self._follows[fold] = str(self._run.journal_checksum(name))

    def division(self, fold: int, iteration: int, task: AlignmentTask) -> Division | None:
        follows = self._follows.get(fold, "")
        return None if self._failed else self._load_division(fold, iteration, follows, task)

    def keep_division(self, fold: int, iteration: int, division: Division) -> None:
        if not self._failed:
            made_from = self._division_made_from(fold, iteration, self._follows.get(fold, ""))
            self._run.commit_division(self._division_name(fold, iteration), made_from, division)

    def judged(self, fold: int) -> Judged | None:
        name = judged_file(fold)
        if not self._continues or self._run.valid_checksum(name, self._made_from("judged", fold)) is None:
            return None
        try:
            return _checked_judged(read_arrays(self._run.path / name) or {}, self._run.task)
        except _DAMAGE:
            return None

    def keep_judged(self, fold: int, judged: Judged) -> None:
        if not self._failed:
            arrays = {name: getattr(judged, name) for name in _JUDGED}
            made_from = self._made_from("judged", fold)
            self._run.commit(judged_file(fold), made_from, lambda path: write_arrays(arrays, path))

    def _made_from(self, what: str, *numbers: int) -> str:
        return checksum(self._run.manifest.identity, what, *map(str, numbers))

    def _division_made_from(self, fold: int, iteration: int, follows: str) -> str:
        """A checksum of what a division is made from: above all, the checkpoint that it follows."""
        return checksum(self._made_from("division", fold, iteration), follows)

    def _division_name(self, fold: int, iteration: int) -> str:
        """The path of a division. The last one of the main loop is the division of the run."""
        is_last = not fold and iteration == self._run.manifest.settings.iterations - 1
        return DIVISION if is_last else f"{iteration_folder(iteration, fold)}/{DIVISION}"

    def _load_division(self, fold: int, iteration: int, follows: str, task: AlignmentTask) -> Division | None:
        """The division of an iteration, if it is valid and follows the checkpoint with this checksum."""
        name = self._division_name(fold, iteration)
        made_from = self._division_made_from(fold, iteration, follows)
        if self._run.valid_checksum(name, made_from) is None:
            return None
        try:
            return load_division(self._run.path / name, task)
        except InputError:
            return None

    def _read(self, fold: int, iteration: int, task: AlignmentTask) -> Checkpoint | None:
        """The checkpoint of an iteration, if it and everything that it depends on are there and valid."""
        learned = self._learned(fold, iteration, task)
        if learned is None:
            return None
        arrays, about, division = learned
        try:
            pseudo_seeds = _pseudo_seeds(arrays, task)
            similarity = _similarity(arrays, (len(division), task.target.num_entities))
            calibration = _calibration(arrays, about["intercept"], self._run.task)
            weights = {str(name): float(weight) for name, weight in about["weights"].items()}
            scale = float(about["scale"])
        except _DAMAGE:
            return None
        uses_similarity = self._run.manifest.settings.weighs_similarity
        lists = self._averaged_lists(fold, iteration, division, about, task)
        if lists is None or uses_similarity != (similarity is not None):
            return None
        return Checkpoint(iteration, division, pseudo_seeds, similarity, weights, scale, calibration, lists)

    def _learned(
        self, fold: int, iteration: int, task: AlignmentTask
    ) -> tuple[Arrays, dict[str, Any], Division] | None:
        """What an iteration learned, and the division that it learned from; None if they do not belong
        together.
        """
        try:
            arrays = read_arrays(self._run.path / learned_file(iteration, fold)) or {}
            about = _about(arrays)
            division = self._load_division(fold, iteration, str(about["follows"]), task)
        except _DAMAGE:
            return None
        return None if division is None else (arrays, about, division)

    def _averaged_lists(
        self, fold: int, iteration: int, division: Division, about: dict[str, Any], task: AlignmentTask
    ) -> tuple[Lists, ...] | None:
        """The ranked lists that the next iteration averages over, in order of their iterations.

        None if some are missing, or are not those that the checkpoints were learned from.
        """
        lists: list[Lists] = []
        for number in range(iteration, max(iteration - self._averaged, -1), -1):
            if number < iteration:
                follows = about["follows"]
                learned = self._learned(fold, number, task)
                if learned is None or self._run.valid_checksum(learned_file(number, fold)) != follows:
                    return None
                _, about, division = learned
            found = self._lists(fold, number, division, about.get("results"))
            if found is None:
                return None
            lists.insert(0, found)
        return tuple(lists)

    @property
    def _averaged(self) -> int:
        """How many earlier iterations the lists of an iteration are averaged with."""
        return self._run.manifest.settings.matching.average - 1

    def _lists(self, fold: int, iteration: int, division: Division, checksums: Any) -> Lists | None:
        """The lists of an iteration, if its results have these checksums."""
        if not isinstance(checksums, list) or len(checksums) != len(division) or None in checksums:
            return None

        def read(subtask: Subtask, expected: Any) -> Solved | None:
            name = result_file(iteration, subtask.index, fold)
            is_expected = self._run.valid_checksum(name) == expected
            return read_solved(self._run.path / name, subtask) if is_expected else None

        with ThreadPoolExecutor(cores()) as pool:
            found = list(pool.map(read, division.subtasks, checksums))
        lists = [solved.matches for solved in found if solved is not None]
        return Lists.of(lists) if len(lists) == len(found) else None


def _about(arrays: Arrays) -> dict[str, Any]:
    about = json.loads(arrays[_ABOUT].tobytes())
    if not isinstance(about, dict):
        raise TypeError("not an object")
    return about


def _pseudo_seeds(arrays: Arrays, task: AlignmentTask) -> Links:
    source, target = (_typed(arrays[f"pseudo_seeds_{side}"], np.int32) for side in ("source", "target"))
    for ids, graph in ((source, task.source), (target, task.target)):
        if len(ids) and not 0 <= ids.min() <= ids.max() < graph.num_entities:
            raise ValueError("entities that do not exist")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("an entity twice")
    return Links(source, target)


def _similarity(arrays: Arrays, shape: tuple[int, int]) -> csr_array | None:
    if "similarity_data" not in arrays:
        return None
    data = _typed(arrays["similarity_data"], np.float32)
    indices, indptr = arrays["similarity_indices"], arrays["similarity_indptr"]
    is_valid = (
        data.ndim == indices.ndim == indptr.ndim == 1
        and {indices.dtype, indptr.dtype} <= {np.dtype(np.int32), np.dtype(np.int64)}
        and len(indptr) == shape[0] + 1
        and indptr[0] == 0
        and (indptr[1:] >= indptr[:-1]).all()
        and indptr[-1] == len(indices) == len(data)
        and (not len(indices) or 0 <= indices.min() <= indices.max() < shape[1])
    )
    if not is_valid:
        raise ValueError("no similarity weights of this division")
    # Copies: scipy sorts in place, and arrays of a file cannot be written.
    return csr_array((data.copy(), indices.copy(), indptr.copy()), shape=shape)


def _calibration(arrays: Arrays, intercept: Any, task: AlignmentTask) -> Calibration | None:
    if intercept is None:
        return None
    judged = _checked_judged({name: arrays[f"judged_{name}"] for name in _JUDGED}, task)
    mean, deviation, weights = (_typed(arrays[f"calibration_{name}"], np.float64) for name in _CALIBRATION)
    if not mean.shape == deviation.shape == weights.shape == judged.features.shape[1:]:
        raise ValueError("no calibration")
    return Calibration(mean, deviation, weights, float(intercept), judged)


def _checked_judged(arrays: Arrays, task: AlignmentTask) -> Judged:
    """The judged pairs with these arrays; raises ValueError if they cannot be those of a task."""
    features = _typed(arrays["features"], np.float64, dimensions=2)
    is_correct, counts = (_typed(arrays[name], np.float64) for name in ("is_correct", "counts"))
    seed = _typed(arrays["seed"], np.int64)
    if not len(features) == len(is_correct) == len(counts) == len(seed) or features.shape[1] < len(COLUMNS):
        raise ValueError("no judged pairs")
    if len(seed) and not 0 <= seed.min() <= seed.max() < len(task.seeds):
        raise ValueError("seeds that do not exist")
    return Judged(features, is_correct, counts, seed)


def _typed(array: np.ndarray, kind: type[np.number[Any]], dimensions: int = 1) -> np.ndarray:
    if array.dtype != kind or array.ndim != dimensions:
        raise ValueError(f"not {np.dtype(kind).name} in {dimensions} dimensions")
    return array
