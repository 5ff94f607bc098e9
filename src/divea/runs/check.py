"""Checks every file of a run, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.io import is_temporary
from divea.runs.directory import INCOMPLETE, is_valid_file
from divea.runs.finished import continuing, open_finished, read_ranked_lists
from divea.runs.journal import read_journal
from divea.runs.layout import DIVISION, MANIFEST, MAPPINGS, TABLES, TASK, is_of_iteration, is_result, is_run
from divea.runs.manifest import Manifest
from divea.runs.opening import read_stored_task


@dataclass(frozen=True)
class Finding:
    """What a check found out about a file or folder of a run."""

    file: str
    is_valid: bool
    detail: str


def check_run(run: Path) -> Iterator[Finding]:
    """Check the manifest, the task, every committed file, and the tables of a run.

    An unfinished run is valid if everything that it has so far is valid. Files that divea did not write are
    ignored.

    Examples
    --------
    >>> [finding.file for finding in check_run(Path("run")) if not finding.is_valid]  # doctest: +SKIP
    ['iteration-0/subtask-00003.npz']
    """
    if not is_run(run):
        raise InputError("is no run of divea", path=run)
    yield _finding(MANIFEST, lambda: f"version {Manifest.load(run).versions['divea']} of divea")
    yield _finding(TASK, lambda: _summary(read_stored_task(run, Manifest.load(run))))
    entries = {entry.file: entry for entry in read_journal(run) if is_result(entry.file)}
    has_tables = all(name in entries for name in (*TABLES, DIVISION))
    is_finished = has_tables and all(entries[name].made_from != INCOMPLETE for name in TABLES)
    invalid = [name for name, entry in entries.items() if not is_valid_file(run, entry)]
    unneeded = [name for name in invalid if is_finished and is_of_iteration(name)]
    damaged = [name for name in invalid if name not in unneeded]
    for name in damaged:
        yield Finding(name, False, "is missing or does not have the checksum of the journal")
    valid = f"{len(entries) - len(invalid)} of {len(entries)} files are valid"
    gone = f"; {len(unneeded)} of iterations are not, which a finished run does not need" if unneeded else ""
    yield Finding("journal.jsonl", True, valid + gone)
    if left := sum(is_temporary(path.name) for path in run.rglob(".divea-partial-*")):
        yield Finding("temporary files", True, f"{left} left by a process that was killed or is working")
    if not damaged and has_tables:
        yield from _check_tables(run)
    elif MAPPINGS not in entries:
        yield Finding("tables", True, f"not written yet; {continuing(run)} continues the run")


def _finding(file: str, check: Callable[[], str]) -> Finding:
    """The finding of a check: valid with what it returns, or invalid with its error."""
    try:
        return Finding(file, True, check())
    except InputError as error:
        return Finding(file, False, error.message)


def _summary(task: AlignmentTask) -> str:
    return f"{task.source}, {task.target}, {len(task.seeds)} seeds"


def _check_tables(run: Path) -> Iterator[Finding]:
    """Whether the division and the tables belong to the task."""
    try:
        finished = open_finished(run)
    except InputError as error:
        yield Finding(DIVISION, False, error.message)
        return
    yield Finding(DIVISION, True, f"{len(finished.division)} subtasks")
    yield _finding("ranked.parquet", lambda: f"{len(read_ranked_lists(finished).matches)} ranked lists")
    yield _finding("mappings.parquet", lambda: f"{len(finished.mappings)} pairs")
