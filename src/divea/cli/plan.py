"""`divea plan`: how many subtasks of what size fit the memory at hand."""

from __future__ import annotations

from typing import Annotated

import typer

from divea.cli.task_input import Seeds, SkipUnknownSeeds, Source, Target, TaskFolder, open_task


def plan(
    task: TaskFolder = None,
    memory: Annotated[str, typer.Option(help="Memory that a subtask may take, as 4GiB.")] = "4GiB",
    model: Annotated[str, typer.Option(help="Model that the subtasks are for.")] = "rrea",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
) -> None:
    """Say how to divide a task so that each subtask fits a memory budget.

    N and S come from a measured cost model (docs/division.md), and so does the time.

    Example:

        divea plan ../shared/data/dbp15k/zh_en --seeds sup_ent_ids --memory 1GiB
    """
    from divea.division.plan import make_plan, parse_memory

    budget = parse_memory(memory)
    found = make_plan(
        open_task(task, source, target, seeds, skip_unknown_seeds), budget, model=model, device=device
    )
    typer.echo(f"divea divide -n {found.parts} -s {found.size}")
    typer.echo(f"a subtask takes about {found.memory / 2**30:.2f} GiB with {model} on {device}")
    typer.echo(f"dividing takes about {found.division_seconds:.0f} s")
    total = f"{found.model_seconds:.0f} s for all {found.parts} subtasks"
    place = "one core" if device == "cpu" else device
    typer.echo(f"{model} takes about {total}, one by one on {place}")
