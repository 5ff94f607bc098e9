"""The ways to name a task on the command line, shared by every command that takes one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divea.errors import InputError

if TYPE_CHECKING:
    from divea.graphs import AlignmentTask

TaskFolder = Annotated[
    Path | None,
    typer.Argument(metavar="[TASK]", help="Task folder: divea's own, JAPE/DBP15K, OpenEA or Parquet."),
]
Source = Annotated[
    Path | None,
    typer.Option(help="Source graph (N-Triples, Turtle, TSV, CSV, Parquet; may be compressed)."),
]
Target = Annotated[Path | None, typer.Option(help="Target graph.")]
Seeds = Annotated[
    Path | None,
    typer.Option(help="Known matches (TSV, CSV, Parquet, SSSOM, owl:sameAs, OAEI RDF/XML)."),
]
SkipUnknownSeeds = Annotated[
    bool, typer.Option("--skip-unknown-seeds", help="Leave out seeds that name unknown entities.")
]


def open_task(
    folder: Path | None, source: Path | None, target: Path | None, seeds: Path | None, skip_unknown: bool
) -> AlignmentTask:
    """The task that the options name: a folder, or two graph files."""
    from divea.formats import read_task, read_task_files

    if (folder is None) == (source is None and target is None):
        raise InputError("name a task folder, or two graphs with --source and --target")
    if folder is not None:
        with working(f"reading {folder}"):
            return read_task(folder, seeds, skip_unknown_seeds=skip_unknown)
    if source is None or target is None:
        raise InputError("--source and --target go together")
    with working(f"reading {source} and {target}"):
        return read_task_files(source, target, seeds, skip_unknown_seeds=skip_unknown)


@contextmanager
def working(what: str) -> Iterator[None]:
    """A spinner on the terminal while something takes its time; silent when piped."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield
