"""The run directory: the only state of a run. Kill the process at any moment, start it again, and it goes
on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from divea.division import Division, Subtask, write_division
from divea.errors import InputError
from divea.executors import Job
from divea.graphs import AlignmentTask, load_task, save_task
from divea.graphs.ids import contains
from divea.io import checksum, file_checksum, new_file, reported, sweep
from divea.loop.solve import Solved
from divea.runs.checksums import job_checksum, task_checksums
from divea.runs.journal import Entry, Journal
from divea.runs.layout import DIVISION, LOCK, MAPPINGS, RANKED, TASK, is_result, is_run, result_file
from divea.runs.lock import Lock
from divea.runs.manifest import Manifest
from divea.types import Matches


def write_solved(solved: Solved, path: Path) -> None:
    """Write an .npz file without pickles; the same arrays give the same bytes."""
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
    """The result, or None if it is not a result of this subtask."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in ("source", "target", "score", "mutual", "top_sums")}
    except (
        Exception
    ):  # zipfile and numpy may raise anything on a damaged archive; the subtask is solved again
        return None
    matches = Matches(arrays["source"], arrays["target"], arrays["score"], arrays["mutual"])
    solved = Solved(matches, arrays["top_sums"])
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


class RunDirectory:
    """A run that this process works on. Use `open_run` to get one."""

    def __init__(self, path: Path, lock: Lock, manifest: Manifest):
        self.path, self.manifest = path, manifest
        self._lock = lock
        self._journal = Journal(path)
        self._journal.repair()
        self.task = load_task(self.task_folder)

    @property
    def task_folder(self) -> Path:
        """The folder that executors pass to their workers."""
        return self.path / TASK

    def made_from(self, job: Job) -> str:
        """A checksum of everything that a job's results depend on: no result of another run is taken for
        one.
        """
        return checksum(self.manifest.identity, job_checksum(job))

    def result(self, job: Job, subtask: Subtask, made_from: str) -> Solved | None:
        """The committed result of a subtask, if there is a valid one."""
        name = result_file(job.iteration, subtask.index)
        if not self._is_valid(name, made_from):
            return None
        return read_solved(self.path / name, subtask)

    def commit_result(self, job: Job, subtask: Subtask, made_from: str, solved: Solved) -> None:
        """Keep the result of a subtask."""
        self.commit(
            result_file(job.iteration, subtask.index), made_from, lambda path: write_solved(solved, path)
        )

    def commit(self, name: str, made_from: str, write: Callable[[Path], None]) -> None:
        """Write a temporary file, sync it, rename it, and only then add it to the journal."""
        self._lock.check()
        with new_file(self.path / name) as temporary:
            write(temporary)
            found = file_checksum(temporary)
        if found is None:
            raise InputError("cannot be read back", path=self.path / name)
        self._journal.append(Entry(name, found, made_from))

    def commit_division(self, division: Division) -> None:
        """Keep the last division, which coverage is measured on."""
        self._lock.check()
        folder = self.path / DIVISION
        _remove(folder)
        write_division(division, self.task, folder, layouts=())
        self._journal.append(Entry(DIVISION, file_checksum(folder) or "", self.manifest.identity))

    def is_finished(self) -> bool:
        """Whether the tables are there and every committed file is valid."""
        entries = self._journal.entries
        has_tables = all(
            name in entries and entries[name].made_from == self.manifest.identity
            for name in (MAPPINGS, RANKED, DIVISION)
        )
        return has_tables and all(self._is_valid(name) for name in entries if is_result(name))

    def add_stages(self, stages: list[dict[str, Any]]) -> None:
        """Add what stages cost to the manifest."""
        self._lock.check()
        self.manifest = self.manifest.model_copy(update={"stages": [*self.manifest.stages, *stages]})
        self.manifest.save(self.path)

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def _is_valid(self, name: str, made_from: str | None = None) -> bool:
        entry = self._journal.entries.get(name)
        if entry is None or made_from not in (None, entry.made_from):
            return False
        return file_checksum(self.path / name) == entry.checksum


def open_run(
    path: Path, task: AlignmentTask | None, wanted: Manifest | None, stored: Manifest | None
) -> RunDirectory:
    """Start a run, or continue one; a run of something else is refused, with what differs.

    Parameters
    ----------
    task
        The task, or None for the one that the run holds.
    wanted
        The manifest that the run should have, or None for the stored one.
    stored
        The run's manifest, if it has a valid one.
    """
    _refuse_other_folders(path)
    with reported(path):
        path.mkdir(parents=True, exist_ok=True)
    lock = Lock(path)
    try:
        with reported(path):
            sweep(path)
        manifest = _agreed_manifest(path, wanted, stored)
        _keep_task(path / TASK, task, manifest)
        return RunDirectory(path, lock, manifest)
    except BaseException:
        lock.close()
        raise


def _refuse_other_folders(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise InputError("is a file; a run is a folder", path=path)
    with reported(path):
        has_others = path.is_dir() and any(
            item.name != LOCK and ".partial." not in item.name for item in path.iterdir()
        )
    if has_others and not is_run(path):
        raise InputError("exists already, is not empty and is no run of divea; name a new folder", path=path)


def _agreed_manifest(path: Path, wanted: Manifest | None, stored: Manifest | None) -> Manifest:
    """The run's manifest, if it is the wanted one; a missing or damaged one is written again."""
    if wanted is None:
        return stored or Manifest.load(path)
    if stored is None:
        # Results name what they were made from, so none is used that does not belong to this manifest.
        wanted.save(path)
        return wanted
    differences = list(stored.differences(wanted))
    if differences:
        raise InputError(
            f"is a run of something else ({'; '.join(differences)}); name another folder to start a new run",
            path=path,
        )
    return stored


def _keep_task(folder: Path, task: AlignmentTask | None, manifest: Manifest) -> None:
    """Make sure that the folder holds the task: as it was saved, or saved again."""
    try:
        is_valid = task_checksums(load_task(folder)) == manifest.task
    except InputError:
        is_valid = False
    if is_valid:
        return
    if task is None:
        raise InputError("is damaged; name the task again to repair it", path=folder)
    _remove(folder)
    save_task(task, folder)


def _remove(folder: Path) -> None:
    with reported(folder):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)
