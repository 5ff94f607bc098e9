"""`divea evaluate-division`: how many of the gold links a division leaves within reach."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from divea.cli.divide import show
from divea.cli.task_input import Seeds, SkipUnknownSeeds, Source, Target, open_task, working


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

    `covered`: the target is a candidate in the subtask that must match the source. `together`:
    both ends stand in some subtask, as the papers of SBP count it.

    Example:

        divea evaluate-division divided --task zh_en --seeds sup_ent_ids --gold ref_ent_ids
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
    show(table)
    typer.echo(
        f"coverage {found.share:.4f} ({found.covered} of {found.links} links), "
        f"together in a subtask {found.share_together:.4f}"
    )
