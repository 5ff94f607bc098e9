"""`divea report`: one page about a run, for people who decide whether to trust it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from divea.cli.terminal import print_line, working


def report(
    run: Annotated[Path, typer.Argument(help="Run directory of `divea align`.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="HTML file to write.")],
    gold: Annotated[
        Path | None, typer.Option(help="Links to compare with: the page shows true figures too.")
    ] = None,
    task: Annotated[Path | None, typer.Option(help="Task folder whose own ids the gold file uses.")] = None,
) -> None:
    """Write a page that shows how sure the pairs of a run are, what is missing, and why pairs were matched.

    The page is one file that opens in any browser and loads nothing from the network. It has a slider for
    the confidence threshold, the share of matched entities by degree, relation and subtask, a searchable
    sample of pairs with their explanations, and what each stage cost. It stays below 3 MB.

    Examples:

        divea report run -o report.html

        divea report run -o report.html --gold pair/gold.tsv
    """
    from divea.api import Alignment
    from divea.errors import InputError

    if task is not None and gold is None:
        raise InputError("--task has no effect: it explains the ids of the file that --gold names")
    with working("opening the run"):
        alignment = Alignment(run)
    with _explaining() as on_step:
        size = alignment.report(out, gold, folder=task, on_step=on_step)
    print_line(f"{out}: {size / 1e6:.1f} MB; open it in a browser")


@contextmanager
def _explaining() -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar on a terminal while pairs are being explained."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("explaining pairs", total=None)
        yield lambda done, total: progress.update(bar, completed=done, total=total)
