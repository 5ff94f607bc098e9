"""`divea info`: prints a summary of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from divea.cli.options import (
    KeepSchema,
    Seeds,
    SkipUnknownNames,
    SkipUnknownSeeds,
    Source,
    SourceNames,
    Target,
    TargetNames,
    TaskFolder,
    open_task,
)
from divea.cli.terminal import print_json, print_line, working

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_SHOWN_PROPERTIES = 10
"""The most properties of each graph that the table shows; --json has more."""


def info(
    task: TaskFolder = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    source_names: SourceNames = None,
    target_names: TargetNames = None,
    skip_unknown_names: SkipUnknownNames = False,
    keep_schema: KeepSchema = False,
    subtasks: Annotated[
        int, typer.Option("--subtasks", "-n", min=1, help="Count the seeds in each of N parts of the source.")
    ] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Show a summary of a task: sizes, degrees, components, seeds, names, literals, and warnings.

    Names are normalised (lower case, without diacritics and punctuation) before they are counted. A name or
    value is unique if one entity of its graph has it. Those that are unique in both graphs are probable
    matches.

    If there are seeds, the last lines are about N parts of the source graph, partitioned as a division does:
    they show how the seeds are spread over the parts. A part without seeds has nothing to start from.

    Examples:

        divea info pair/task

        divea info --source a.nt.gz --target b.ttl --seeds known.sssom.tsv --json

        divea info --source a.nt.gz --target b.ttl --source-names names.tsv
    """
    from divea.config.given_names import GivenNames
    from divea.division.groups import seeds_by_part
    from divea.features.summary import summarise_features, warnings_of_features
    from divea.graphs.summary import summarise

    names = GivenNames.of(source_names, target_names)
    opened = open_task(
        task, source, target, seeds, skip_unknown_seeds, keep_schema, names.tables, skip_unknown_names
    )
    with working("summarising"):
        summary = summarise(opened)
        features = summarise_features(opened, names.source_property, names.target_property)
        summary["features"] = features
        summary["warnings"] = [*warnings_of_features(opened, features), *summary["warnings"]]
        summary["parts"] = seeds_by_part(opened, subtasks)
    if as_json:
        print_json(summary)
        return
    from rich.console import Console

    # A terminal gets its width, a pipe whole lines.
    console = Console(width=None if Console().is_terminal else 160)
    console.print(_table(summary))
    _print_features(console, features)
    if rejected := summary.get("rejected pairs"):
        print_line(f"{rejected} rejected pairs, which are never matched")
    for number, part in enumerate(summary["parts"] if summary["seeds"] else [], start=1):
        console.print(
            f"part {number} of {len(summary['parts'])}: {part['entities']} source entities, "
            f"{part['seeds']} seeds, {part['near']:.1%} within one hop of an anchor",
            highlight=False,
        )
    for warning in summary["warnings"]:
        console.print(f"[yellow]warning:[/yellow] {warning}", highlight=False)


def _print_features(console: Console, features: dict[str, Any]) -> None:
    for side in ("source", "target"):
        graph = features[side]
        if not graph["entities with a name"]:
            print_line(f"{side} names: none")
        else:
            print_line(
                f"{side} names: {graph['entities with a name']} entities ({graph['share with a name']:.1%}), "
                f"{graph['unique names']} unique names, from {graph['names from']}"
            )
    for what in ("names", "values"):
        count, unique = features[f"{what} in common"], features[f"unique {what} in common"]
        print_line(f"{what} in common: {count}, of which {unique} are unique in both graphs")
    if "seeds with names" in features:
        equal, named = features["seeds with equal names"], features["seeds with names"]
        print_line(f"seeds with equal names: {equal} of the {named} in which both entities have a name")
    for side in ("source", "target"):
        if features[side]["properties"]:
            console.print(_property_table(side, features[side]["properties"]))


def _property_table(side: str, properties: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    from divea.errors import printable

    table = Table(box=None, pad_edge=False)
    table.add_column(f"{side} literals", overflow="fold")
    for name in ("kind", "entities", "distinct", ""):
        table.add_column(name, justify="right" if name in ("entities", "distinct") else "left", no_wrap=True)
    for item in properties[:_SHOWN_PROPERTIES]:
        entities = f"{item['entities']} ({item['share']:.1%})"
        label = Text(printable(item["property"]))
        table.add_row(label, item["kind"], entities, str(item["distinct values"]), item["role"])
    if len(properties) > _SHOWN_PROPERTIES:
        table.add_row(f"... and {len(properties) - _SHOWN_PROPERTIES} more in --json")
    return table


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
