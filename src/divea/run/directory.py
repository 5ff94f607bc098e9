"""The run directory: the only state of a run. Kill it anywhere, start it again, and it goes on.

RUN/manifest.json                  what decides the result, and what each stage cost
RUN/task/                          the graphs and seeds as memory-mapped arrays
RUN/journal.jsonl                  which files are committed, with their checksums
RUN/iteration-0/subtask-00000.npz  the result of a subtask: arrays only
RUN/division/                      the division of the last iteration
RUN/mappings.parquet, .tsv         one target at most for each source
RUN/ranked.parquet                 every ranked list
RUN/log.jsonl                      what happened and when
RUN/lock                           held by the process at work

Nothing here is pickled, and no name that a file holds is used as a path.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from divea.alignment.solve import Solved
from divea.atomic import new_file, reported, sweep
from divea.division import Division, Subtask, write_division
from divea.errors import InputError
from divea.graphs import AlignmentTask, load_task, save_task
from divea.run.checksums import file_checksum, job_checksum, task_checksums, text_checksum
from divea.run.jobs import Job
from divea.run.journal import Entry, Journal
from divea.run.lock import Lock
from divea.run.manifest import Manifest, stored_manifest
from divea.run.results import read_solved, write_solved

MAPPINGS, MAPPINGS_TSV, RANKED = "mappings.parquet", "mappings.tsv", "ranked.parquet"
TASK, DIVISION = "task", "division"
_OURS = re.compile(r"iteration-\d+/subtask-\d+\.npz|division|(mappings|ranked)\.\w+")


class RunDirectory:
    """A run that this process works on. Use `open_run` to get one."""

    def __init__(self, path: Path, lock: Lock, manifest: Manifest):
        self.path, self.manifest = path, manifest
        self._lock = lock
        self._journal = Journal(path)
        self._journal.mend()
        self.task = load_task(self.task_folder)

    @property
    def task_folder(self) -> Path:
        """What executors hand to their workers."""
        return self.path / TASK

    def made_from(self, job: Job) -> str:
        """Names all that a job's results depend on, so that no result of another run is taken for one."""
        return text_checksum(self.manifest.identity, job_checksum(job))

    def result(self, job: Job, subtask: Subtask, made_from: str) -> Solved | None:
        """The committed result, if there is one and it is sound."""
        name = _result_name(job, subtask)
        if not self._is_sound(name, made_from):
            return None
        return read_solved(self.path / name, subtask)

    def commit_result(self, job: Job, subtask: Subtask, made_from: str, solved: Solved) -> None:
        """Keep a result for ever."""
        self.commit(_result_name(job, subtask), made_from, lambda path: write_solved(solved, path))

    def commit(self, name: str, made_from: str, write: Callable[[Path], None]) -> None:
        """Write a file aside, flush, rename, and only then say so in the journal."""
        self._lock.check()
        with new_file(self.path / name) as aside:
            write(aside)
            checksum = file_checksum(aside)
        if checksum is None:
            raise InputError("cannot be read back", path=self.path / name)
        self._journal.append(Entry(name, checksum, made_from))

    def commit_division(self, division: Division) -> None:
        """Keep the last division, on which coverage is measured."""
        self._lock.check()
        folder = self.path / DIVISION
        _remove(folder)
        write_division(division, self.task, folder, layouts=())
        self._journal.append(Entry(DIVISION, file_checksum(folder) or "", self.manifest.identity))

    def is_finished(self) -> bool:
        """Whether the tables are there and every committed file is sound."""
        entries = self._journal.entries
        complete = all(
            name in entries and entries[name].made_from == self.manifest.identity
            for name in (MAPPINGS, RANKED, DIVISION)
        )
        return complete and all(self._is_sound(name) for name in entries if _OURS.fullmatch(name))

    def add_stages(self, stages: list[dict[str, Any]]) -> None:
        """Put what stages cost at the end of the manifest."""
        self._lock.check()
        self.manifest = replace(self.manifest, stages=[*self.manifest.stages, *stages])
        self.manifest.save(self.path)

    def close(self) -> None:
        """Let other processes in."""
        self._lock.close()

    def _is_sound(self, name: str, made_from: str | None = None) -> bool:
        entry = self._journal.entries.get(name)
        if entry is None or made_from not in (None, entry.made_from):
            return False
        return file_checksum(self.path / name) == entry.checksum


def open_run(path: Path, task: AlignmentTask | None, wanted: Manifest | None) -> RunDirectory:
    """Begin a run or go on with one; refuses a run of something else, and says what differs.

    Without a task the one that the run has is taken, and without a manifest the run's own.
    """
    _refuse_what_is_not_ours(path)
    with reported(path):
        path.mkdir(parents=True, exist_ok=True)
    lock = Lock(path)
    try:
        with reported(path):
            sweep(path)
        manifest = _agreed(path, wanted)
        _keep_task(path / TASK, task, manifest)
        return RunDirectory(path, lock, manifest)
    except BaseException:
        lock.close()
        raise


def is_run(path: Path) -> bool:
    """Whether a folder is a run, however damaged."""
    return (path / "manifest.json").is_file() or (path / "journal.jsonl").is_file()


def _refuse_what_is_not_ours(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise InputError("is a file; a run is a folder", path=path)
    with reported(path):
        strangers = path.is_dir() and any(
            item.name != "lock" and ".partial." not in item.name for item in path.iterdir()
        )
    if strangers and not is_run(path):
        raise InputError("exists already, is not empty and is no run of divea; name a new folder", path=path)


def _agreed(path: Path, wanted: Manifest | None) -> Manifest:
    """The run's manifest if it is what is wanted; a damaged one is written anew."""
    stored = stored_manifest(path)
    if wanted is None:
        return stored or Manifest.load(path)
    if stored is None:
        # Results say what they were made from, so none is taken that does not belong to this manifest.
        wanted.save(path)
        return wanted
    differences = list(stored.differences(wanted))
    if differences:
        raise InputError(
            f"is a run of something else ({'; '.join(differences)}); name another folder to start anew",
            path=path,
        )
    return stored


def _keep_task(folder: Path, task: AlignmentTask | None, manifest: Manifest) -> None:
    """See to it that the folder holds the task: as it was saved, or saved anew."""
    try:
        sound = task_checksums(load_task(folder)) == manifest.task
    except InputError:
        sound = False
    if sound:
        return
    if task is None:
        raise InputError("is damaged; name the task again to mend it", path=folder)
    _remove(folder)
    save_task(task, folder)


def _remove(folder: Path) -> None:
    with reported(folder):
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        elif folder.exists():
            shutil.rmtree(folder)


def _result_name(job: Job, subtask: Subtask) -> str:
    return f"iteration-{job.iteration}/subtask-{subtask.index:05}.npz"
