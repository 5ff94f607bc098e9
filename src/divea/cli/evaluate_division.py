"""`divea evaluate-division`: how many gold links the subtasks of a division can find."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.divide import print_subtasks
from divea.cli.options import Seeds, SkipUnknownSeeds, Source, Target, open_task, working


def evaluate_division(
    division: Annotated[Path, typer.Argument(help="Folder that `divea divide` wrote.")],
    gold: Annotated[Path, typer.Option(help="Links to evaluate on; no other command reads them.")],
    task: Annotated[Path | None, typer.Option(help="Task folder that was divided.")] = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
) -> None:
    """Show the coverage of a division: the share of gold links that its subtasks can find.

    A link is `covered` if its target is a candidate in the subtask that must match its source. Its ends are
    `together` if both are in some subtask, which is how the papers of SBP count.

    Example:

        divea evaluate-division parts --task pair/task --gold pair/gold.tsv
    """
    from divea.division import load_division
    from divea.division.summary import summarise
    from divea.evaluation import coverage, read_gold

    opened = open_task(task, source, target, seeds, skip_unknown_seeds)
    with working("evaluating"):
        divided = load_division(division, opened)
        found = coverage(divided, read_gold(gold, opened, folder=task))
        table = summarise(divided, opened)
    table = table.append_column("gold", [list(found.links_by_subtask)])
    table = table.append_column("covered", [list(found.covered_by_subtask)])
    print_subtasks(table)
    typer.echo(
        f"coverage {found.share:.4f} ({found.covered} of {found.links} links), "
        f"together in a subtask {found.share_together:.4f}"
    )
