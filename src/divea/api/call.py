"""How Python starts a run: the arguments that its functions share, temporary folders and progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from divea.config import Settings
from divea.config.executor import ExecutorSettings
from divea.config.group import shown_value
from divea.errors import InputError, SubtaskError
from divea.graphs import AlignmentTask
from divea.io import usable_path
from divea.resources.limits import Limits
from divea.runs.align import align_in
from divea.runs.displays import choose_display, is_watched
from divea.runs.log import Listener
from divea.runs.progress import Progress
from divea.runs.solver import counted_subtasks


@dataclass(frozen=True)
class Made:
    """A finished run, and the temporary folder that it is in, if it is in one."""

    run: Path
    temporary: TemporaryDirectory[str] | None


def run_alignment(
    read: Callable[[], AlignmentTask],
    settings: Settings | None,
    *,
    out: str | Path | None,
    executor: ExecutorSettings,
    limits: Limits,
    progress: bool | None,
    folder: str | None = None,
    refines: Path | None = None,
) -> Made:
    """Align in the run directory `out` or, if it is None, in a temporary folder.

    Raises SubtaskError if a subtask could not be solved.

    Parameters
    ----------
    read, settings, limits, executor, folder, refines
        As in `divea.runs.align.align_in`.
    progress
        Whether to show the progress; None: in a notebook or on a terminal.
    """
    temporary = TemporaryDirectory(prefix="divea-") if out is None else None
    run = Path(temporary.name) / "run" if temporary is not None else usable_path(out or ".")
    with _shown(progress) as listener:
        failed = align_in(
            run,
            read,
            settings,
            limits=limits,
            executor=executor,
            listener=listener,
            folder=folder,
            refines=refines,
        )
    if failed:
        raise SubtaskError(f"{counted_subtasks(failed)} could not be solved; the first: {failed[0].reason}")
    return Made(run, temporary)


def sheets_of(reviewed: Any) -> list[str | Path]:
    """The review sheets of the argument `reviewed`: one path, or several."""
    if isinstance(reviewed, str | Path):
        return [reviewed]
    if not isinstance(reviewed, Sequence) or not all(isinstance(sheet, str | Path) for sheet in reviewed):
        raise InputError(f"reviewed: expected a sheet or a list of sheets; found {shown_value(reviewed)}")
    return list(reviewed)


def executor_settings(executor: ExecutorSettings | str, workers: int | None) -> ExecutorSettings:
    """The settings of the arguments `executor` and `workers`."""
    if isinstance(executor, str):
        given = {"name": executor} if workers is None else {"name": executor, "workers": workers}
        settings: ExecutorSettings = ExecutorSettings.checked(given)
        return settings
    if not isinstance(executor, ExecutorSettings):
        raise InputError(f"executor: expected a name or ExecutorSettings; found {executor!r}")
    if workers is not None:
        raise InputError("workers: give them in the executor settings")
    return executor


def _shown(progress: bool | None) -> AbstractContextManager[Listener | None]:
    """The listener that shows the progress; None if it should not be shown."""
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"progress: expected True, False or None; found {shown_value(progress)}")
    return Progress(choose_display()) if (is_watched() if progress is None else progress) else nullcontext()
