"""`divea reproduce`: repeats the paper's experiments, with our figures beside the paper's."""

from __future__ import annotations

import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.terminal import print_line, print_note
from divea.errors import InputError, printable

if TYPE_CHECKING:
    from divea.experiments.cell import Cell
    from divea.experiments.recipes import Recipe
    from divea.experiments.table import Row


def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            help="cps, sbp, coverage, discovery, informativeness, attributes, subtasks, seeds, gains, time "
            "or coherence."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for runs, tables and plots.")],
    data: Annotated[Path, typer.Option(help="Folder of data sets with their splits.")] = Path(
        "../shared/data"
    ),
    pairs: Annotated[str, typer.Option(help="Data sets, separated by commas.")] = "zh_en,fr_en",
    models: Annotated[
        str | None,
        typer.Option(help="Models, separated by commas; those of the paper's experiment by default."),
    ] = None,
    splits: Annotated[str, typer.Option(help="Splits, as 0-4 or 0,2.")] = "0-4",
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="Only this method, by its name in the tables. Repeatable."),
    ] = None,
    percents: Annotated[str | None, typer.Option(help="Percentages of seeds, separated by commas.")] = None,
    subtasks: Annotated[str | None, typer.Option(help="Numbers of subtasks, separated by commas.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=1000, help="Cells that run at the same time.")
    ] = 1,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="A setting for all methods that it has an effect on: model.rrea.steps=100. Repeatable.",
        ),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(min=0, max=0.9, help="Evaluate on this share of the seeds; test links stay unread."),
    ] = 0.0,
    reference: Annotated[Path, typer.Option(help="The paper's figures.")] = Path(
        "../shared/reference-results.tsv"
    ),
    run: Annotated[bool, typer.Option("--run/--no-run", help="--no-run shows what is finished.")] = True,
) -> None:
    """Run an experiment of the paper again, and print our figures beside the paper's.

    An experiment is a list of cells; each cell is one run of one method on one split. Its run directory is
    kept in OUT/runs, so the same command continues after a stop. Experiments that need the same cells share
    them in one OUT: after `cps` and `sbp`, `coverage` costs nothing. Times (`gains`, `time`) only make
    sense with --jobs 1.

    Writes OUT/NAME.tsv, OUT/NAME.md and, if matplotlib is installed (divea[plots]), OUT/NAME.png and
    OUT/NAME.svg. `p` is the p-value of a two-tailed t-test of DivEA against the row's method, paired over
    splits. `DivEA` is our division, and `DivEA (paper)` is the paper's.

    Examples:

        divea reproduce cps --device cuda --jobs 4 --out results

        divea reproduce coverage --no-run --out results

        divea reproduce cps --validation 0.2 --splits 0 --set model.rrea.steps=100 --out choice
    """
    from divea.experiments.methods import read_changes
    from divea.experiments.recipes import RECIPES
    from divea.experiments.run import finished_cells, run_cells

    if math.isnan(validation):
        raise InputError("validation: expected a number from 0 to 0.9; found nan")
    if name not in RECIPES:
        raise InputError(f"unknown experiment {name!r}; choose from {', '.join(RECIPES)}")
    recipe = RECIPES[name]
    chosen = _words(models) or list(recipe.models)
    cells = recipe.cells(
        _words(pairs),
        chosen,
        _numbers(splits),
        subtasks=_numbers(subtasks),
        percents=_numbers(percents),
        methods=_known(methods or [], recipe),
        changes=read_changes(changes or [], chosen),
        validation=validation,
    )
    cells = _with_split(cells, data)
    failures: list[str] = []
    metrics = finished_cells(cells, out)
    if run:
        progress = _Progress(cells, metrics.keys())
        try:
            metrics, failures = run_cells(cells, out, data=data, device=device, jobs=jobs, report=progress)
        except KeyboardInterrupt:
            print_note("stopped; the same command continues from here")
            raise
    _write_table(name, recipe, cells, metrics, reference, out)
    _report_interrupted(cells, metrics)
    for failure in failures:
        print_note(f"failed: {failure}")
    if failures:
        raise InputError(f"{len(failures)} cells failed; the same command tries them again")


def _report_interrupted(cells: list[Cell], metrics: dict[str, Any]) -> None:
    """Name the cells without times: they were interrupted and continued."""
    interrupted = {cell.key for cell in cells if cell.key in metrics and "seconds" not in metrics[cell.key]}
    if interrupted:
        folders = ", ".join(f"runs/{key}" for key in sorted(interrupted))
        print_note(
            f"note: {len(interrupted)} cells were interrupted, so their times are left out; "
            f"remove {folders} to run them again"
        )


def _known(methods: list[str], recipe: Recipe) -> list[str]:
    there = list(dict.fromkeys(method for method, _ in recipe.methods))
    for method in methods:
        if method not in there:
            raise InputError(f"this experiment has no method {method!r}; it has {', '.join(there)}")
    return methods


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()] if text else []


def _numbers(text: str | None) -> list[int]:
    """The numbers in a text such as `0-2,4`, which gives 0, 1, 2 and 4."""
    numbers: list[int] = []
    for word in _words(text):
        bounds = re.fullmatch(r"([0-9]{1,7})(?:-([0-9]{1,7}))?", word)
        if bounds is None:
            raise InputError(f"{text!r} names no numbers below ten million: write 0,2 or 0-4")
        first, last = int(bounds[1]), int(bounds[2] or bounds[1])
        if last - first >= _MOST_NUMBERS:
            raise InputError(f"{text!r} names more than {_MOST_NUMBERS} numbers")
        numbers.extend(range(first, last + 1))
    return numbers


_MOST_NUMBERS = 1000


def _with_split(cells: list[Cell], data: Path) -> list[Cell]:
    """The cells with a split that the data set has; a note on stderr names the other splits."""
    from divea.experiments.run_cell import data_folder, split_folder

    asked = list(dict.fromkeys((cell.pair, cell.percent, cell.split) for cell in cells))
    there = {at for at in asked if split_folder(data_folder(data, at[0]), *at[1:]).is_dir()}
    for pair, percent, split in asked:
        if (pair, percent, split) not in there:
            print_note(f"left out: {pair} has no split {percent}/{split}")
    if not there:
        raise InputError("none of these splits exists", path=data)
    return [cell for cell in cells if (cell.pair, cell.percent, cell.split) in there]


class _Progress:
    """Prints a line for each finished cell, with an estimate of the remaining time."""

    def __init__(self, cells: list[Cell], finished: Any):
        keys = {cell.key for cell in cells}
        self.total, self.done = len(keys), len(keys & set(finished))
        self.began, self.ran = time.perf_counter(), 0
        print_note(f"{self.total} cells, {self.done} of them finished before")

    def __call__(self, cell: Cell, metrics: dict[str, Any]) -> None:
        self.done, self.ran = self.done + 1, self.ran + 1
        left = (time.perf_counter() - self.began) / self.ran * (self.total - self.done)
        last = metrics["iterations"][-1]
        took = f"{metrics['seconds']:.1f} s" if "seconds" in metrics else "continued"
        print_note(
            f"[{self.done}/{self.total}] {cell} ({cell.scale} size): H@1 {last['H@1']:.4f}, "
            f"coverage {last['coverage']:.4f}, {took}; about {left:.0f} s left"
        )


def _write_table(
    name: str, recipe: Recipe, cells: list[Cell], metrics: dict[str, Any], reference: Path, out: Path
) -> None:
    """Print and write the table, and plot it if matplotlib is installed."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from divea.experiments.table import Reference, as_markdown, as_tsv, rows_of, table_of
    from divea.io import new_file

    paper = Reference.read(reference) if reference.exists() else None
    rows = rows_of(recipe, cells, metrics, paper)
    table = table_of(recipe, rows)
    out.mkdir(parents=True, exist_ok=True)
    for ending, text in ((".tsv", as_tsv(table)), (".md", as_markdown(recipe.title, table))):
        with new_file(out / f"{name}{ending}") as temporary:
            temporary.write_text(text)
    if not table:
        print_line("no cell is finished yet")
        return
    shown = Table(title=recipe.title, box=None, pad_edge=False)
    for column in table[0]:
        shown.add_column(column, justify="left" if column in ("data", "model", "size", "method") else "right")
    for line in table:
        shown.add_row(*(Text(printable(value)) for value in line.values()))
    Console(width=None if Console().is_terminal else 220).print(shown)
    _draw(recipe, rows, out / name)


def _draw(recipe: Recipe, rows: list[Row], path: Path) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print_note("no plot: matplotlib is not installed (pip install 'divea[plots]')")
        return
    from divea.experiments.plot import draw

    for ending in (".png", ".svg"):
        draw(recipe, rows, path.with_suffix(ending))
