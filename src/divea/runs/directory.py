"""The run directory: the only state of a run. Kill the process at any moment, start it again, and it
continues.

A file is replaced only if the journal names it or if its bytes stay the same, and nothing is written through
a symbolic link: whatever divea did not write stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divea.archives import MappedMatches, map_matches, write_solved
from divea.division import Division, Subtask, write_division
from divea.errors import InputError
from divea.graphs import load_task
from divea.graphs.features import EntityVectors, FeatureRows
from divea.io import checksum, file_checksum, is_temporary, new_file, reported, sweep, temporary_path
from divea.runs.archives import read_solved, read_vectors, write_vectors
from divea.runs.checksums import (
    divided_further,
    folder_checksum,
    job_checksum,
)
from divea.runs.folders import replace_folder
from divea.runs.journal import Entry, Journal
from divea.runs.layout import (
    DIVISION,
    JOURNAL,
    LOCK,
    LOG,
    MANIFEST,
    TABLES,
    TASK,
    feature_file,
    files_of,
    is_division,
    result_file,
)
from divea.runs.lock import Lock
from divea.runs.manifest import Manifest
from divea.types import Solved

if TYPE_CHECKING:
    from divea.executors import Job

INCOMPLETE = "incomplete"
"""The `made_from` of the tables and the division of a run that could not solve all subtasks."""

ABSENT = "absent"
"""Stands in place of a checksum: the run is complete without this file."""


@dataclass(frozen=True)
class CommittedResults:
    """The committed results of a job."""

    solved: dict[int, Solved]
    """The results by the index of the subtask."""
    divided: bool
    """Whether memory had run out and a subtask was divided further."""


class RunDirectory:
    """A run that this process works on. Use `open_run` to get one, or `open_to_read`."""

    def __init__(self, path: Path, lock: Lock, manifest: Manifest):
        self.path, self.manifest = path, manifest
        self._lock = lock
        self._journal = Journal(path)
        self.task = load_task(self.task_folder)

    @property
    def _sizes(self) -> list[int]:
        return [self.task.source.num_entities, self.task.target.num_entities]

    @property
    def task_folder(self) -> Path:
        """The folder that executors pass to their workers."""
        return self.path / TASK

    def made_from(self, job: Job, *, divided: bool = False) -> str:
        """A checksum of everything that a job's results depend on, so that no other result is mistaken for
        one of them.

        Parameters
        ----------
        divided
            Whether memory ran out and a subtask was divided further.
        """
        made_from = checksum(self.manifest.identity, job_checksum(job))
        return divided_further(made_from) if divided else made_from

    def results(self, job: Job) -> CommittedResults | None:
        """The committed results of a job; None unless all are there: on a GPU they are solved together."""
        for divided in (False, True):
            made_from = self.made_from(job, divided=divided)
            found = {item.index: self._result(job, item, made_from) for item in job.subtasks}
            valid = {index: result for index, result in found.items() if result is not None}
            if len(valid) == len(found):
                return CommittedResults(valid, divided)
        return None

    def _result(self, job: Job, subtask: Subtask, made_from: str) -> Solved | None:
        """The committed result of a subtask with this `made_from`, if there is a valid one."""
        name = result_file(job.iteration, subtask.index, job.fold)
        if not self._is_valid(name, made_from):
            return None
        return read_solved(self.path / name, subtask)

    def commit_result(self, job: Job, subtask: Subtask, made_from: str, solved: Solved) -> Solved:
        """Commit the result of a subtask, and return it with its lists mapped from the committed file.

        A result that a worker left in a temporary file of the run is moved, not copied.
        """
        name, matches = result_file(job.iteration, subtask.index, job.fold), solved.matches

        def write(path: Path) -> None:
            if isinstance(matches, MappedMatches) and is_temporary(matches.path.name):
                matches.path.rename(path)
            else:
                write_solved(solved, path)

        self.commit(name, made_from, write)
        return Solved(map_matches(self.path / name), solved.top_sums)

    @contextmanager
    def folder_of_lists(self) -> Iterator[Path]:
        """A temporary folder for the lists that the loop works on; it is removed at the end.

        If the process is killed, the folder is removed when the run is opened again.
        """
        folder = temporary_path(self.path.absolute() / "lists")
        with reported(folder):
            folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(self, name: str, made_from: str, write: Callable[[Path], str | None]) -> None:
        """Write a temporary file, add it to the journal, sync it, and rename it.

        The line of the journal comes first, so that the journal names every file that divea ever wrote. If
        the process ends before the file is renamed, no file has the line's checksum, and it is made again.

        Parameters
        ----------
        write
            Writes the file. It may return the checksum, which is otherwise computed by reading the file.
        """
        self._lock.check()
        final = self._inside(name)
        with new_file(final) as temporary:
            found = write(temporary) or file_checksum(temporary)
            if found is None:
                raise InputError("cannot be read back", path=final)
            entry = Entry(name, found, made_from)
            self._check_replaceable(entry)
            self._journal.append(entry)

    def kept_feature(
        self, name: str, made_from: str, compute: Callable[[], FeatureRows | None]
    ) -> FeatureRows | None:
        """The feature that was kept with this `made_from`; otherwise it is computed, and vectors are kept."""
        file = feature_file(name)
        if self._is_valid(file, made_from):
            kept = read_vectors(self.path / file, name)
            if kept is not None and [len(kept.source), len(kept.target)] == self._sizes:
                return kept
        feature = compute()
        if isinstance(feature, EntityVectors):
            self.commit(file, made_from, lambda path: write_vectors(feature, path))
        return feature

    def commit_absence(self, name: str, made_from: str) -> None:
        """Record that the run is complete without a file; one that was committed before is removed."""
        self._lock.check()
        if self._is_valid(name):
            self._inside(name).unlink(missing_ok=True)
        self._journal.append(Entry(name, ABSENT, made_from))

    def commit_division(self, name: str, made_from: str, division: Division) -> None:
        """Keep a division, as a folder of this name."""
        self._lock.check()
        final = self._inside(name)
        with reported(final):
            final.parent.mkdir(parents=True, exist_ok=True)

        def add_to_journal(new: Path) -> None:
            entry = Entry(name, folder_checksum(new, name), made_from)
            self._check_replaceable(entry)
            self._journal.append(entry)

        def write(new: Path) -> None:
            write_division(division, self.task, new, layouts=())

        replace_folder(self.path, name, write, before=add_to_journal)

    def valid_checksum(self, name: str, made_from: str | None = None) -> str | None:
        """The checksum of a committed file, if the file is still as it was written; otherwise None.

        Parameters
        ----------
        made_from
            What the file must have been made from, if that matters.
        """
        return self.journal_checksum(name) if self._is_valid(name, made_from) else None

    def journal_checksum(self, name: str) -> str | None:
        """The checksum of a file when it was committed; None if it never was."""
        entry = self._journal.entries.get(name)
        return None if entry is None else entry.checksum

    def is_finished(self) -> bool:
        """Whether everything that the run promises is there and valid: its tables and its division.

        Results and checkpoints of iterations serve to continue a run; a finished one does not need them.
        """
        entry = self._journal.entries.get(DIVISION)
        if entry is None or entry.made_from == INCOMPLETE:
            return False
        identity = self.manifest.identity
        return self._is_valid(DIVISION) and all(self._is_valid(name, identity) for name in TABLES)

    def discard(self) -> None:
        """Remove what starting the run wrote, if nothing was computed yet. Other files stay."""
        try:
            self._lock.check()
        except InputError:
            return  # another run is in the folder now
        if self._journal.entries:
            return
        self.sweep()
        task = self.path / TASK
        with reported(self.path):
            for path in files_of(task, TASK):
                path.unlink()
            patterns = ("task/*", "task", "fold-*/iteration-*", "fold-*", "iteration-*", "features")
            for folder in (found for pattern in patterns for found in self.path.glob(pattern)):
                with suppress(OSError):  # a file, or not empty
                    folder.rmdir()
            # The lock is the last one: whatever a kill leaves is still a run, and can be continued.
            for name in (MANIFEST, LOG, JOURNAL, LOCK):
                (self.path / name).unlink(missing_ok=True)
            with suppress(OSError):
                self.path.rmdir()

    def sweep(self) -> None:
        """Remove the temporary files of processes that were killed, including worker processes."""
        with reported(self.path):
            for folder in (
                self.path,
                *self.path.glob("iteration-*"),
                *self.path.glob("fold-*"),
                *self.path.glob("fold-*/iteration-*"),
                self.path / "features",
            ):
                if folder == self.path or (folder.is_dir() and not folder.is_symlink()):
                    sweep(folder)

    def repair(self) -> None:
        """Remove what a crash left of the last line of the journal."""
        self._journal.repair()

    def set_folder_before(self, folder: str) -> None:
        """Record the folder of the run that this one refines; it may have been moved."""
        if self.manifest.folder_before != folder:
            self._lock.check()
            self.manifest = self.manifest.model_copy(update={"folder_before": folder})
            self.manifest.save(self.path)

    def add_processor(self, kind: str) -> bool:
        """Add a kind of processor to the manifest; false if the run was computed on this kind before."""
        if kind in self.manifest.processors:
            return False
        self._lock.check()
        processors = [*self.manifest.processors, kind]
        self.manifest = self.manifest.model_copy(update={"processors": processors})
        self.manifest.save(self.path)
        return True

    def add_stages(self, stages: list[dict[str, Any]]) -> None:
        """Add the time and memory of stages to the manifest."""
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
        return is_valid_file(self.path, entry)

    def _inside(self, name: str) -> Path:
        """The path of a file in the run. Raises InputError if a symbolic link leads out of the run."""
        path = self.path
        for part in Path(name).parts:
            path /= part
            if path.is_symlink():
                raise InputError("is a symbolic link, and divea writes through none", path=path)
        return path

    def _check_replaceable(self, entry: Entry) -> None:
        """Raise InputError if a file of this name exists that the journal does not name."""
        path = self.path / entry.file
        exists = bool(files_of(path, DIVISION)) if is_division(entry.file) else path.exists()
        if exists and entry.file not in self._journal.entries and not is_valid_file(self.path, entry):
            raise InputError("exists, and is not in the journal of this run; move it away", path=path)


def is_valid_file(run: Path, entry: Entry) -> bool:
    """Whether a committed file of a run, or its division, has the checksum of the journal."""
    if entry.checksum == ABSENT:
        return True
    found = (
        folder_checksum(run / entry.file, entry.file)
        if is_division(entry.file)
        else file_checksum(run / entry.file)
    )
    return found == entry.checksum
