"""The state of a run, read from its folder, for anyone who looks in from another terminal."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from divea.errors import InputError
from divea.runs.eta import Eta, number
from divea.runs.journal import read_journal
from divea.runs.layout import MAPPINGS, is_of_iteration, is_run, iteration_folder
from divea.runs.lock import is_locked
from divea.runs.log import read_log
from divea.runs.manifest import Manifest, stored_manifest

Event = dict[str, Any]


@dataclass(frozen=True)
class Status:
    """The state of a run. Only the files that it is read from are checked."""

    path: Path
    state: str
    """running, finished, incomplete (some subtasks failed), stopped or damaged."""
    iteration: int
    """From 1; 0 before the first."""
    iterations: int
    fold: int
    """The fold of the cross-validation, from 1; 0 in the main loop, which comes last."""
    folds: int
    solved: int
    """Solved subtasks of the iteration."""
    subtasks: int
    pseudo_seeds: int
    failed: int
    model: str
    """The model of the iteration."""
    idle_seconds: float
    """Seconds since the last event."""
    seconds_left: float | None = None
    """Estimated seconds until a running run ends; None if that is not known yet."""

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain JSON types; `subtasks` counts those of the iteration."""
        return {**asdict(self), "path": str(self.path)}


def status_of(path: Path) -> Status:
    """The state of a run, without touching it."""
    if not path.exists():
        raise InputError("no such folder", path=path)
    if not is_run(path):
        raise InputError("is no run of divea", path=path)
    now = time.time()
    manifest = _manifest(path)
    files = [entry.file for entry in read_journal(path)]
    events = read_log(path)
    iteration = _last(events, "iteration")
    current, fold = _count(iteration, "iteration", -1), _count(iteration, "fold", 0)
    place = f"{iteration_folder(current, fold)}/subtask-"
    failed = sum(event["event"] == "failed" for event in _since_last_start(events))
    settings = manifest.settings if manifest is not None else None
    state = _state(path, manifest, files, events, failed)
    return Status(
        path=path,
        state=state,
        iteration=current + 1,
        iterations=settings.iterations if settings else 0,
        fold=fold,
        folds=(settings.confidence.folds or 0) if settings else 0,
        solved=len({name for name in files if name.startswith(place)}),
        subtasks=_count(iteration, "subtasks", (settings.subtasks or 0) if settings else 0),
        pseudo_seeds=_count(_last(events, "learned"), "pseudo_seeds", 0),
        failed=failed,
        model=settings.model_at(max(current, 0)).name if settings else "",
        idle_seconds=max(now - number(events[-1], "time"), 0.0) if events else 0.0,
        seconds_left=_seconds_left(events, now) if state == "running" else None,
    )


def runs_in(folder: Path) -> list[Status]:
    """The runs in a folder, or the folder itself if it is one."""
    if not folder.is_dir():
        raise InputError("no such folder", path=folder)
    if is_run(folder):
        return [status_of(folder)]
    found = (_status_or_none(path) for path in sorted(folder.iterdir()))
    return [status for status in found if status is not None]


def _status_or_none(path: Path) -> Status | None:
    """The state of a run; None if the path is no run, may not be read, or is being removed."""
    try:
        return status_of(path) if path.is_dir() else None
    except (OSError, InputError):
        return None


def disk_use(run: Path) -> tuple[int, int]:
    """The bytes that a run takes on disk, and those of its iterations, which serve to continue it.

    Files that are being removed are left out.
    """
    sizes: dict[str, int] = {}
    for path in run.rglob("*"):
        with suppress(OSError):
            if not path.is_symlink() and path.is_file():
                sizes[path.relative_to(run).as_posix()] = path.stat().st_size
    return sum(sizes.values()), sum(size for name, size in sizes.items() if is_of_iteration(name))


def _seconds_left(events: list[Event], now: float) -> float | None:
    eta = Eta()
    for event in events:
        eta.observe(event["event"], event, number(event, "time"))
    return eta.seconds_left(now)


def _manifest(path: Path) -> Manifest | None:
    try:
        return stored_manifest(path)
    except InputError:
        return None


def _state(path: Path, manifest: Manifest | None, files: list[str], events: list[Event], failed: int) -> str:
    if is_locked(path):
        return "running"
    if manifest is None:
        return "damaged"
    has_ended = bool(events) and events[-1]["event"] in ("finished", "finished before")
    if has_ended and MAPPINGS in files:
        return "incomplete" if failed else "finished"
    return "stopped"


def _last(events: list[Event], name: str) -> Event:
    return next((event for event in reversed(events) if event["event"] == name), {})


def _since_last_start(events: list[Event]) -> list[Event]:
    starts = [position for position, event in enumerate(events) if event["event"] == "started"]
    return events[starts[-1] :] if starts else events


def _count(event: Event, name: str, default: int) -> int:
    return int(number(event, name, default))
