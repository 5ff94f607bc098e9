"""How far a run is, as its folder tells: for whoever looks in from another terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from divea.errors import InputError
from divea.run.directory import MAPPINGS, is_run
from divea.run.journal import read_journal
from divea.run.lock import is_locked
from divea.run.log import read_log
from divea.run.manifest import stored_manifest


@dataclass(frozen=True)
class Status:
    """A look at a run. Nothing is checked but what is shown."""

    path: Path
    state: str
    """at work, finished, incomplete (some subtasks failed), stopped or damaged."""
    iteration: int
    """From 1; 0 before the first."""
    iterations: int
    solved: int
    """Subtasks of the iteration."""
    subtasks: int
    pseudo_seeds: int
    failed: int
    model: str
    seconds: float
    """Since the last event."""


def status_of(path: Path) -> Status:
    """Look at a run, without touching it."""
    if not path.exists():
        raise InputError("no such folder", path=path)
    if not is_run(path):
        raise InputError("no run of divea align", path=path)
    try:
        manifest = stored_manifest(path)
    except InputError:
        manifest = None
    files = [entry.file for entry in read_journal(path)]
    events = read_log(path)
    begun = [event for event in events if event["event"] == "iteration"]
    learned = [event for event in events if event["event"] == "learned"]
    current = begun[-1] if begun else {}
    number = _count(current, "iteration", -1)
    solved = len({name for name in files if name.startswith(f"iteration-{number}/")})
    last_start = max((at for at, event in enumerate(events) if event["event"] == "started"), default=0)
    failed = sum(event["event"] == "failed" for event in events[last_start:])
    ended = events[-1]["event"] if events else ""
    if is_locked(path):
        state = "at work"
    elif manifest is None:
        state = "damaged"
    elif ended in ("finished", "finished before") and MAPPINGS in files:
        state = "incomplete" if failed else "finished"
    else:
        state = "stopped"
    return Status(
        path,
        state,
        number + 1,
        manifest.settings.iterations if manifest else 0,
        solved,
        _count(current, "subtasks", manifest.settings.subtasks if manifest else 0),
        _count(learned[-1], "pseudo_seeds", 0) if learned else 0,
        failed,
        manifest.settings.model if manifest else "",
        time.time() - _count(events[-1], "time", 0) if events else 0.0,
    )


def _count(event: dict[str, Any], name: str, otherwise: int) -> int:
    """A number of the log, which may hold anything if it comes from elsewhere."""
    value = event.get(name)
    return int(value) if isinstance(value, int | float) else otherwise


def runs_in(folder: Path) -> list[Status]:
    """The runs that lie in a folder, or the folder itself if it is one."""
    if not folder.is_dir():
        raise InputError("no such folder", path=folder)
    if is_run(folder):
        return [status_of(folder)]
    return [status_of(path) for path in sorted(folder.iterdir()) if path.is_dir() and is_run(path)]
