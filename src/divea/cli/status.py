"""`divea status` and `divea runs`: the progress of runs, from any terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from divea.runs.status import Status


def status(run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")]) -> None:
    """Show how far a run is, whether it is running or not.

    Example:

        divea status run
    """
    from divea.runs.status import status_of

    found = status_of(run)
    typer.echo(f"{run}: {found.state}, {found.model}")
    typer.echo(_progress(found))
    if found.pseudo_seeds:
        typer.echo(f"{found.pseudo_seeds} pseudo-seeds")
    if found.failed:
        typer.echo(f"{found.failed} failed; {run}/log.jsonl has their logs")
    if found.state == "running":
        typer.echo(f"last event {found.seconds:.0f} s ago")
    elif found.state != "finished":
        typer.echo(f"`divea align --out {run}` continues it")


def runs(folder: Annotated[Path, typer.Argument(help="Folder that holds run directories.")] = Path()) -> None:
    """List the runs in a folder.

    Example:

        divea runs experiments
    """
    from divea.runs.status import runs_in

    found = runs_in(folder)
    if not found:
        typer.echo(f"no runs in {folder}")
        return
    width = max(len(str(item.path)) for item in found)
    for item in found:
        typer.echo(f"{item.path!s:{width}}  {item.state:10}  {item.model:17}  {_progress(item)}")


def _progress(found: Status) -> str:
    if not found.iteration:
        return "not started"
    solved = f"{found.solved} of {found.subtasks} subtasks solved"
    return f"iteration {found.iteration} of {found.iterations}, {solved}"
