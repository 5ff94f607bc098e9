"""`divea info`: prints a summary of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.options import KeepSchema, Seeds, SkipUnknownSeeds, Source, Target, TaskFolder, open_task
from divea.cli.terminal import print_json, working

if TYPE_CHECKING:
    from rich.table import Table


def info(
    task: TaskFolder = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    keep_schema: KeepSchema = False,
    subtasks: Annotated[
        int, typer.Option("--subtasks", "-n", min=1, help="Count the seeds in each of N parts of the source.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show a summary of a task: sizes, degrees, components, seeds, and warnings.

    The last lines are about N parts of the source graph, partitioned as a division does: they show how the
    seeds are spread over the parts. A part without seeds has nothing to start from.

    Examples:

        divea info pair/task

        divea info --source a.nt.gz --target b.ttl --seeds known.sssom.tsv --json
    """
    from divea.division.groups import seeds_by_part
    from divea.graphs.summary import summarise

    opened = open_task(task, source, target, seeds, skip_unknown_seeds, keep_schema)
    with working("summarising"):
        summary = summarise(opened)
        summary["parts"] = seeds_by_part(opened, subtasks)
    if as_json:
        print_json(summary)
        return
    from rich.console import Console

    console = Console()
    console.print(_table(summary))
    for number, part in enumerate(summary["parts"], start=1):
        console.print(
            f"part {number} of {len(summary['parts'])}: {part['entities']} source entities, "
            f"{part['seeds']} seeds, {part['near']:.1%} within one hop of an anchor",
            highlight=False,
        )
    for warning in summary["warnings"]:
        console.print(f"[yellow]warning:[/yellow] {warning}", highlight=False)


def _table(summary: dict[str, Any]) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("source", justify="right")
    table.add_column("target", justify="right")
    left, right = summary["source"], summary["target"]
    for key in left:
        if isinstance(left[key], dict):
            for at in left[key]:
                table.add_row(f"degree, {at} %", str(left[key][at]), str(right[key].get(at, "")))
        else:
            table.add_row(key, _with_share(key, left), _with_share(key, right))
    return table


def _with_share(key: str, graph: dict[str, Any]) -> str:
    """A figure as text; the counts of entities near anchors with their share of all entities."""
    if "anchor" in key and not key.startswith("components") and graph["entities"]:
        return f"{graph[key]} ({graph[key] / graph['entities']:.1%})"
    return str(graph[key])
