"""What commands print: escaped, so that no label or file name can control the terminal."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any

import typer

from divea.errors import printable


def open_standard_streams() -> None:
    """Open the standard streams that the caller closed, as in `2>&-`, and let every character be printed.

    Without this, the next file that is opened would get the number of the closed stream, and a library that
    prints a warning would write into it.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number: this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def print_line(text: str) -> None:
    """Print one line of a result to stdout."""
    typer.echo(printable(text))


def print_json(figures: Any) -> None:
    """Print figures to stdout as JSON, which escapes control characters itself."""
    typer.echo(json.dumps(figures, indent=2))


def print_note(text: str) -> None:
    """Print one line about the work to stderr. If nobody can read it any more, the work continues."""
    with suppress(OSError):
        typer.echo(printable(text), err=True)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner on a terminal while the block runs; print nothing if the output is piped."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(printable(what))):
        yield
