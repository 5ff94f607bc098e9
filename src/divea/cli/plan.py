"""`divea plan`: how `divea align` would divide a task on this machine, and what that costs."""

from __future__ import annotations

from typing import Annotated

import typer

from divea.cli.options import (
    Assignments,
    Config,
    Preset,
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


def plan(
    task: TaskFolder = None,
    memory: Annotated[str | None, typer.Option(help="Host memory limit, for example 4GiB.")] = None,
    gpu_memory: Annotated[str | None, typer.Option(help="GPU memory limit, for example 2GiB.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    model: Annotated[str | None, typer.Option(help="Model that solves the subtasks.")] = None,
    subtasks: Subtasks = None,
    size: Size = None,
    preset: Preset = None,
    config: Config = None,
    assignments: Assignments = None,
    source: Source = None,
    target: Target = None,
    seeds: Seeds = None,
    skip_unknown_seeds: SkipUnknownSeeds = False,
) -> None:
    """Show how `divea align` with the same settings and limits would divide a task.

    The number and size of subtasks come from a cost model that was measured for every built-in model
    (docs/notes/division.md), and so does the time.

    Examples:

        divea plan pair/task --memory 1GiB

        divea plan pair/task --memory 1GiB --model rrea
    """
    from divea.resources.costs import COSTS
    from divea.resources.limits import Limits
    from divea.resources.machine import resolve_device
    from divea.resources.plan import estimate, estimate_division, mean_size, plan_subtasks

    options = {"model.name": model, "subtasks": subtasks, "size": size}
    settings = checked_settings(given_settings(preset, config, assignments, options))
    limits, where = Limits.of(device, memory, gpu_memory), resolve_device(device)
    opened = open_task(task, source, target, seeds, skip_unknown_seeds)
    found = plan_subtasks(opened, settings, where, limits)
    size = found.size or mean_size(opened, found.subtasks)
    what = f"{found.subtasks} subtasks (-n) of at most {size} entities (-s)"
    typer.echo(f"divea align would make {what if found.subtasks > 1 else 'one subtask of the whole graph'}")
    for note in found.notes:
        typer.echo(f"note: {note}")
    for name in dict.fromkeys(model.name for model in settings.models()):
        if (name, where) not in COSTS:
            typer.echo(f"{name} on {where}: costs were not measured")
            continue
        costs = estimate(opened, found, name, where)
        place = "one core" if where == "cpu" else "one GPU"
        typer.echo(f"{name} on {where}: about {costs.memory / 2**30:.2f} GiB per subtask")
        typer.echo(f"{name} on {where}: about {costs.model_seconds:.0f} s per iteration on {place}")
    typer.echo(f"dividing: about {estimate_division(opened):.1f} s per iteration")
