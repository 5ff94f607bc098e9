"""`divea divide`: divides a task into subtasks, as files that any aligner reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from divea.cli.options import (
    Assignments,
    Config,
    KeepSchema,
    RandomSeed,
    Seeds,
    Size,
    SkipUnknownSeeds,
    Source,
    Subtasks,
    Target,
    TaskFolder,
    checked_settings,
    given_settings,
    open_task,
)
from divea.cli.terminal import print_line, print_note, working

if TYPE_CHECKING:
    import pyarrow as pa


def divide(
    task: TaskFolder = None,
    subtasks: Subtasks = None,
    size: Size = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="New folder to write.")] = None,
    division: Annotated[
        str | None,
        typer.Option(
            help="joint and divea (the same in a first iteration), random, cps, sbp, isbp or whole."
        ),
    ] = None,
    layout: Annotated[list[str] | None, typer.Option(help="jape, openea; both by default.")] = None,
    random_seed: RandomSeed = None,
    config: Config = None,
    assignments: Assignments = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "cpu",
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    keep_schema: KeepSchema = False,
) -> None:
    """Divide a task into subtasks that fit a size limit, and show what each one holds.

    This is how the first iteration of `divea align --features none` divides, but with all seeds: names are
    not used. Every subtask is written in the layouts of JAPE and OpenEA, so that any aligner can be trained
    on it; files `unmatched` and `candidates` name the entities to match, and those to match them with.

    Examples:

        divea divide pair/task -n 5 -s 6000 --out parts

        divea divide pair/task -n 5 --division cps --out parts

        divea divide pair/task -n 5 --set division.delta1=0.5 --set division.evidence.method=rounds
    """
    from divea.division import make_strategy, write_division
    from divea.division.summary import summarise
    from divea.resources.limits import Limits
    from divea.resources.machine import resolve_device
    from divea.resources.plan import plan_subtasks

    options = {"subtasks": subtasks, "size": size, "division.name": division, "random_seed": random_seed}
    settings = checked_settings(given_settings(None, config, assignments, options))
    where = resolve_device(device)
    opened = open_task(task, source, target, seeds, skip_unknown_seeds, keep_schema)
    plan = plan_subtasks(opened, settings, where, Limits.of(device))
    strategy = make_strategy(opened, settings.resolved(subtasks=plan.subtasks, size=plan.size), where)
    with working("dividing"):
        done = strategy.divide(opened)
        table = summarise(done, opened, settings.division.evidence)
    print_subtasks(table)
    if out is None:
        print_note("nothing was written: --out FOLDER writes the subtasks")
    else:
        with working(f"writing {out}"):
            write_division(done, opened, out, layouts=layout or ("jape", "openea"), table=table)
        print_line(f"{out}: {len(done)} subtasks")
    for note in (*plan.notes, *done.notes):
        print_note(f"note: {note}")


def print_subtasks(table: pa.Table) -> None:
    """Print a table of subtasks; of a long one, the first ten and the last five rows."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    for name in table.column_names:
        shown.add_column(name.replace("_", " "), justify="right")
    rows = table.to_pylist()
    for number, row in enumerate(rows):
        if len(rows) <= 20 or number < 10 or number >= len(rows) - 5:
            values = row.values()
            shown.add_row(*(f"{value:.3f}" if isinstance(value, float) else str(value) for value in values))
        elif number == 10:
            shown.add_row(*("..." for _ in row))
    Console(width=None if Console().is_terminal else 160).print(shown)
