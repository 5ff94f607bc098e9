"""`divea evaluate-division`: how many gold links the subtasks of a division can find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.divide import print_subtasks
from divea.cli.options import KeepSchema, Seeds, SkipUnknownSeeds, Source, Target, open_task
from divea.cli.terminal import print_json, print_line, working


def evaluate_division(
    division: Annotated[Path, typer.Argument(help="Folder that `divea divide` wrote.")],
    gold: Annotated[Path, typer.Option(help="Links to evaluate on; no other command reads them.")],
    task: Annotated[Path | None, typer.Option(help="Task folder that was divided.")] = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
    keep_schema: KeepSchema = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Show the coverage of a division: the share of gold links that its subtasks can find.

    A link is `covered` if its target is a candidate in the subtask that must match its source. Its ends are
    `together` if both are in some subtask, which is how the papers of SBP count.

    Examples:

        divea evaluate-division parts --task pair/task --gold pair/gold.tsv

        divea evaluate-division parts --task pair/task --gold pair/gold.tsv --json
    """
    from divea.division import load_division
    from divea.division.summary import summarise
    from divea.evaluation import coverage, read_gold

    opened = open_task(task, source, target, seeds, skip_unknown_seeds, keep_schema)
    with working("evaluating"):
        divided = load_division(division, opened)
        found = coverage(divided, read_gold(gold, opened, folder=task))
        table = summarise(divided, opened)
    table = table.append_column("gold", [list(found.links_by_subtask)])
    table = table.append_column("covered", [list(found.covered_by_subtask)])
    if as_json:
        print_json({**found.as_dict(), "subtasks": table.to_pylist()})
        return
    print_subtasks(table)
    print_line(
        f"coverage {found.share:.4f} ({found.covered} of {found.links} links), "
        f"together in a subtask {found.share_together:.4f}"
    )
