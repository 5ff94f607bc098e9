"""`divea plan`: how `divea align` would divide a task on this machine, and what that costs."""

from __future__ import annotations

from typing import Annotated

import typer

from divea.cli.options import (
    Assignments,
    Config,
    KeepSchema,
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
from divea.cli.terminal import print_json, print_line


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
    keep_schema: KeepSchema = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
) -> None:
    """Show how `divea align` with the same settings and limits would divide a task.

    The number and size of subtasks come from a cost model that was measured for every built-in model
    (docs/notes/division.md), and so does the time.

    Examples:

        divea plan pair/task --memory 1GiB

        divea plan pair/task --memory 1GiB --model rrea --json
    """
    from divea.resources.costs import is_measured
    from divea.resources.limits import Limits
    from divea.resources.machine import resolve_device
    from divea.resources.plan import estimate, estimate_division, mean_size, plan_subtasks

    options = {"model.name": model, "subtasks": subtasks, "size": size}
    settings = checked_settings(given_settings(preset, config, assignments, options))
    limits, where = Limits.of(device, memory, gpu_memory), resolve_device(device)
    limits.require_effect(where)
    opened = open_task(task, source, target, seeds, skip_unknown_seeds, keep_schema)
    found = plan_subtasks(opened, settings, where, limits)
    size = found.size or mean_size(opened, found.subtasks)
    names = dict.fromkeys(model.name for model in settings.models())
    costs = {name: estimate(opened, found, name, where) for name in names if is_measured(name, where)}
    division_seconds = estimate_division(opened)
    if as_json:
        models = [
            {"model": name, "memory": round(cost.memory), "seconds": cost.model_seconds}
            for name, cost in costs.items()
        ]
        figures = {"subtasks": found.subtasks, "size": size, "device": where, "notes": found.notes}
        print_json({**figures, "models": models, "division_seconds": division_seconds})
        return
    what = f"{found.subtasks} subtasks (-n) of at most {size} entities (-s)"
    print_line(f"divea align would make {what if found.subtasks > 1 else 'one subtask of the whole graph'}")
    for note in found.notes:
        print_line(f"note: {note}")
    place = "one core" if where == "cpu" else "one GPU"
    for name in names:
        if name not in costs:
            print_line(f"{name} on {where}: costs were not measured")
            continue
        cost = costs[name]
        print_line(f"{name} on {where}: about {cost.memory / 2**30:.2f} GiB per subtask")
        print_line(f"{name} on {where}: about {cost.model_seconds:.0f} s per iteration on {place}")
    print_line(f"dividing: about {division_seconds:.1f} s per iteration")
