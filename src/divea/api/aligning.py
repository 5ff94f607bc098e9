"""`divea.align`: a task in, an `Alignment` out. It is the same code as the command `divea align`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from divea.api.alignment import Alignment, alignment_of
from divea.api.call import executor_settings, run_alignment, sheets_of
from divea.config import Settings
from divea.config.executor import ExecutorSettings
from divea.config.given_names import GivenNames
from divea.errors import InputError
from divea.formats import read_task
from divea.formats.make_task import given_names
from divea.formats.sheets import with_verdicts
from divea.formats.task_folders import with_names
from divea.graphs import AlignmentTask
from divea.io import usable_path
from divea.resources.limits import Limits


def align(
    task: AlignmentTask | str | Path,
    settings: Settings | str | None = None,
    *,
    reviewed: str | Path | Sequence[str | Path] = (),
    source_names: Any = None,
    target_names: Any = None,
    out: str | Path | None = None,
    executor: ExecutorSettings | str = "auto",
    workers: int | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    gpu_memory: int | str | None = None,
    progress: bool | None = None,
    **changes: Any,
) -> Alignment:
    """Align a task.

    Parameters
    ----------
    task
        A task, or the folder of one. `divea.make_task` makes one from DataFrames and other objects.
    settings
        Settings, or the name of a preset ("fast", "best"); None for the defaults.
    reviewed
        A review sheet with verdicts, or several (see `Alignment.review`): accepted pairs become seeds, and
        rejected ones are never matched.
    source_names, target_names
        Names of the entities: a file with the columns entity and name (TSV, CSV or Parquet), a dict, a
        pandas Series or a table of names, or the IRI of the property that has them. By default they are
        found among the literals and in the IRIs.
    out
        The run directory. Call again with the same directory to continue a run. Without it, the run is in a
        temporary folder that is deleted together with the alignment.
    executor, workers
        The executor ("auto", "inline", "local", "ray") and its number of workers. They decide only the
        speed.
    device
        "auto", "cpu" or "cuda".
    memory, gpu_memory
        Limits on host and GPU memory, in bytes or as "4GiB".
    progress
        Whether to show the progress of the run. By default it is shown in a notebook or on a terminal.
    **changes
        Settings to change, by name: `subtasks=5`, `model="rrea"`, `features="none"`.

    Returns
    -------
    Alignment

    Examples
    --------
    >>> from divea.graphs.planted import planted_pair
    >>> align(planted_pair().task, "fast", iterations=2)
    Alignment(56 pairs)
    """
    if not isinstance(task, AlignmentTask | str | Path):
        raise InputError(
            f"task: expected a task or a folder, not {type(task).__name__}; divea.make_task makes a task"
        )
    names = GivenNames.of(
        given_names(source_names, "source_names"), given_names(target_names, "target_names")
    )
    chosen = Settings.of(settings, {**changes, **names.settings})
    names.require_effect(chosen)
    limits = Limits.of(device, memory, gpu_memory)
    folder = None if isinstance(task, AlignmentTask) else str(usable_path(task).absolute())

    sheets = sheets_of(reviewed)

    def read() -> AlignmentTask:
        if isinstance(task, AlignmentTask):
            found = with_names(task, *names.tables)
        else:
            found = with_names(read_task(task), *names.tables)
        return with_verdicts(found, sheets) if sheets else found

    made = run_alignment(
        read,
        chosen,
        out=out,
        executor=executor_settings(executor, workers),
        limits=limits,
        progress=progress,
        folder=folder,
    )
    return alignment_of(made)
