"""`divea status` and `divea runs`: the progress of runs, from any terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divea.cli.terminal import print_json, print_line
from divea.errors import printable

if TYPE_CHECKING:
    from divea.runs.status import Status

AsJson = Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")]


def status(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")], as_json: AsJson = False
) -> None:
    """Show how far a run is, whether it is running or not.

    Examples:

        divea status run

        divea status run --json
    """
    from divea.runs.progress import clock
    from divea.runs.status import disk_use, status_of

    found = status_of(run)
    on_disk, of_iterations = disk_use(run)
    if as_json:
        print_json({**found.as_dict(), "bytes": on_disk, "bytes_of_iterations": of_iterations})
        return
    print_line(f"{run}: {found.state}, {found.model}")
    print_line(_progress(found))
    if found.pseudo_seeds:
        print_line(f"{found.pseudo_seeds} pseudo-seeds")
    if found.failed:
        print_line(f"{found.failed} failed; {run}/log.jsonl has their logs")
    if found.seconds_left is not None:
        print_line(f"about {clock(found.seconds_left)} left")
    if found.state == "running":
        print_line(f"last event {found.idle_seconds:.0f} s ago")
    elif found.state != "finished":
        print_line(f"`divea align --out {run}` continues it")
    print_line(_disk(on_disk, of_iterations if found.state == "finished" else 0))


def runs(
    folder: Annotated[Path, typer.Argument(help="Folder that holds run directories.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder.

    Examples:

        divea runs experiments

        divea runs --json
    """
    from divea.runs.status import runs_in

    found = runs_in(folder)
    if as_json:
        print_json([item.as_dict() for item in found])
        return
    if not found:
        print_line(f"no runs in {folder}")
        return
    width = max(len(printable(item.path)) for item in found)
    for item in found:
        path = printable(item.path)
        print_line(f"{path:{width}}  {item.state:10}  {item.model:17}  {_progress(item)}")


def _disk(on_disk: int, not_needed: int) -> str:
    used = f"{_mebibytes(on_disk)} on disk"
    if not not_needed:
        return used
    return f"{used}, {_mebibytes(not_needed)} of it iterations, which a finished run needs only to be refined"


def _mebibytes(size: int) -> str:
    return f"{-(-size // 2**20)} MiB"


def _progress(found: Status) -> str:
    if not found.iteration:
        return "not started"
    solved = f"{found.solved} of {found.subtasks} subtasks solved"
    fold = f"cross-validation {found.fold} of {found.folds}, " if found.fold else ""
    return f"{fold}iteration {found.iteration} of {found.iterations}, {solved}"
