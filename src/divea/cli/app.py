"""The `divea` command. Exit codes: 0 done, 2 bad input, 3 some subtasks failed, 4 a confidence
threshold that cannot be kept, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from divea.cli.align import align
from divea.cli.check import check
from divea.cli.convert import convert
from divea.cli.divide import divide
from divea.cli.evaluate import evaluate
from divea.cli.evaluate_division import evaluate_division
from divea.cli.explain import explain
from divea.cli.export import export
from divea.cli.info import info
from divea.cli.plan import plan
from divea.cli.report import report
from divea.cli.reproduce import reproduce
from divea.cli.review import review
from divea.cli.settings import settings
from divea.cli.status import runs, status
from divea.cli.suggest import suggest
from divea.cli.synth import synth
from divea.cli.terminal import open_standard_streams, print_note
from divea.errors import InputError
from divea.wording import command_line

app = typer.Typer(
    name="divea",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Align the entities of two large knowledge graphs by dividing the job into subtasks.",
)
app.command()(align)
app.command()(export)
app.command()(review)
app.command()(suggest)
app.command()(evaluate)
app.command()(explain)
app.command()(report)
app.command()(status)
app.command()(runs)
app.command()(info)
app.command()(check)
app.command()(convert)
app.command()(synth)
app.command()(divide)
app.command()(evaluate_division)
app.command()(plan)
app.command()(settings)
app.command()(reproduce)


def _show_version(wanted: bool) -> None:
    if wanted:
        from divea import __version__

        typer.echo(f"divea {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command. Anything wrong with the input or the machine becomes one line on stderr."""
    open_standard_streams()
    try:
        _check_encoding(sys.argv[1:])
        with command_line():
            sys.exit(app(standalone_mode=False))
    except InputError as error:
        _refuse(str(error), error.exit_code)
    except SystemExit as end:
        # Typer and rich exit with 1 if the program that reads the output has ended, as in
        # `divea info | head`, and nothing else does.
        sys.exit(0 if end.code == 1 else end.code)
    except OSError as error:
        # A folder that may not be searched, a name that is too long, a full disk.
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
        _refuse(f"{where}{error.strerror or error}")
    except MemoryError:
        _refuse("there is not enough memory")
    except Exception as error:
        # A wrong option or argument. Typer has had its own copy of Click's exceptions since 0.26.
        if not hasattr(error, "format_message"):
            raise
        _refuse(f"{error.format_message().rstrip('.')}; see --help")


def _check_encoding(arguments: list[str]) -> None:
    """Raise InputError if an argument is not UTF-8: libraries that read files cannot open such names."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(f"{argument}: this argument is not valid UTF-8; rename the file") from None


def _refuse(message: str, exit_code: int = 2) -> NoReturn:
    print_note(f"divea: {message}")
    sys.exit(exit_code)
