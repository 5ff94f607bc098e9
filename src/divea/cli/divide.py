"""`divea divide`: cut a task into subtasks, as files that any aligner reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.task_input import Seeds, SkipUnknownSeeds, Source, Target, TaskFolder, open_task, working
from divea.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def divide(
    task: TaskFolder = None,
    parts: Annotated[int, typer.Option("--parts", "-n", help="Number of subtasks, N.")] = 5,
    size: Annotated[
        int | None, typer.Option("--size", "-s", help="Most entities of a subtask, both graphs together, S.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="New folder to write.")] = None,
    division: Annotated[
        str, typer.Option(help="divea, random, cps, sbp, isbp or whole; all but the first two ignore S.")
    ] = "divea",
    layout: Annotated[list[str] | None, typer.Option(help="jape, openea; both by default.")] = None,
    delta1: Annotated[float | None, typer.Option(help="Source share of S; chosen if left out.")] = None,
    delta2: Annotated[float, typer.Option(help="Connecting entities' share of the target.")] = 0.0,
    partitioner: Annotated[str, typer.Option(help="metis, kaminpar or random.")] = "metis",
    locality: Annotated[str, typer.Option(help="propagate, or bfs as in the paper.")] = "propagate",
    evidence: Annotated[str, typer.Option(help="first_order, rounds or exact.")] = "first_order",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 0,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
) -> None:
    """Divide a task into subtasks that fit a size limit, and show what each one holds.

    Writes every subtask in the layouts of JAPE and OpenEA, so that any aligner can be trained on
    it, and a table of them. Without --out it only shows the table.

    Examples:

        divea divide ../shared/data/dbp15k/zh_en --seeds sup_ent_ids -n 5 -s 7792 -o zh_en_divided

        divea divide task -n 5 --division cps -o rival
    """
    from divea.division import EvidenceSettings, division_strategy, write_division
    from divea.division.summary import summarise

    more: dict[str, Any] = {}
    if division in ("divea", "random"):
        more = {"delta1": delta1, "delta2": delta2, "locality": locality}
        more["evidence"] = EvidenceSettings(method=evidence, device=device)
        if division == "divea":
            more["partitioner"] = partitioner
    strategy = division_strategy(division, parts, size, seed=seed, **more)
    opened = open_task(task, source, target, seeds, skip_unknown_seeds)
    if parts > (most := len(opened.unmatched_source)):
        raise InputError(f"{parts} subtasks for {most} entities that are to be matched: N is too large")
    with working("dividing"):
        done = strategy.divide(opened)
        table = summarise(done, opened)
    if out is not None:
        with working(f"writing {out}"):
            write_division(done, opened, out, layouts=layout or ("jape", "openea"), table=table)
    show(table)
    for note in done.notes:
        typer.echo(f"note: {note}", err=True)


def show(table: pa.Table) -> None:
    """Print a table of subtasks; a long one by its first, last and outermost rows only."""
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
