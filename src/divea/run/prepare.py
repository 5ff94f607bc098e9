"""What a run will be: the settings that were given, and those that the task and the machine suggest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from divea.alignment.loop import strategy_of
from divea.alignment.settings import Settings
from divea.division.plan import COSTS, Plan, make_plan, parts_for
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.matching import METHODS
from divea.models import resolve_model
from divea.run.checksums import task_checksums
from divea.run.machine import SHARE, cores, gpu_memory, resolve_device, total_memory
from divea.run.manifest import Manifest, versions

PROCESS = 400 << 20
"""Bytes that a process takes before it has solved anything: Python, torch, and the graphs that it touches."""


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    device: str = "auto"
    memory: int | None = None
    """Bytes of host memory, of all processes together."""
    gpu_memory: int | None = None
    """Bytes of a GPU's memory."""


def prepare(
    task: AlignmentTask,
    given: dict[str, Any],
    limits: Limits,
    *,
    stored: Manifest | None = None,
    folder: str | None = None,
) -> tuple[Manifest, list[str]]:
    """The manifest of a run with these settings, and sentences about what was decided.

    What was left to the machine is taken from `stored` where the run exists: continuing must not depend on
    where it is done.
    """
    notes: list[str] = []
    settings = Settings.of(given)
    _check_names(settings, task)
    device = resolve_device(limits.device if stored is None or limits.device != "auto" else stored.device)
    if "subtasks" not in given and settings.division != "whole":
        if stored is not None and given.get("size") in (None, stored.settings.size):
            settings = replace(settings, subtasks=stored.settings.subtasks, size=stored.settings.size)
        else:
            settings = _sized(task, settings, device, limits, notes)
    if settings.subtasks > (most := len(task.unmatched_source)):
        raise InputError(
            f"{settings.subtasks} subtasks for {most} entities that are to be matched: N is too large"
        )
    strategy_of(task, settings)
    memory = limits.gpu_memory if device == "cuda" else _job_memory(limits.memory, settings.subtasks)
    # One thread a job leaves the other cores to other jobs; a single job may have them all.
    threads = 1 if settings.subtasks > 1 else cores()
    if stored is not None:
        threads = stored.threads
        memory = stored.memory if limits.memory is limits.gpu_memory is None else memory
    manifest = Manifest(settings, device, threads, memory, task_checksums(task), versions(), folder)
    return manifest, notes


def _job_memory(memory: int | None, subtasks: int) -> int | None:
    """What is left to a job if as many are done at once as there are cores."""
    if memory is None:
        return None
    at_once = min(cores(), subtasks)
    # One job is done in this process, several in processes of their own.
    processes = at_once + 1 if at_once > 1 else 1
    left = (memory - processes * PROCESS) // at_once
    if left <= 0:
        least = processes * PROCESS / 2**30
        raise InputError(f"--memory must be more than {least:.1f} GiB for {at_once} processes at work")
    return left


def _check_names(settings: Settings, task: AlignmentTask) -> None:
    """A wrong name is told before anything is done, not by the first subtask that meets it."""
    for iteration in range(settings.iterations):
        name, options = settings.model_at(iteration)
        resolve_model(name, **options)
    if settings.matching not in METHODS:
        raise InputError(f"unknown matching {settings.matching!r}; choose from {', '.join(METHODS)}")
    if not len(task.seeds):
        raise InputError("there are no seeds: name known matches with --seeds")


def _sized(
    task: AlignmentTask, settings: Settings, device: str, limits: Limits, notes: list[str]
) -> Settings:
    """N and S: as many subtasks as a given size makes, or as the memory asks for."""
    entities = task.source.num_entities + task.target.num_entities
    if settings.size is not None:
        parts = 1 if settings.size >= entities else parts_for(task, settings.size)
        notes.append(f"{parts} subtasks of at most {settings.size} entities")
        return replace(settings, subtasks=parts)
    names = sorted({settings.model_at(iteration)[0] for iteration in range(settings.iterations)})
    for name in names:
        if (name, device) not in COSTS:
            notes.append(f"no division: what {name} needs on {device} was not measured; -n divides")
            return settings
    if device == "cuda":
        budget = limits.gpu_memory or int(SHARE * gpu_memory())
        return _planned(task, settings, device, budget, budget, notes)
    memory = limits.memory or int(SHARE * total_memory())
    whole, part = _job_memory(memory, 1), _job_memory(memory, cores())
    return _planned(task, settings, device, whole or memory, part or memory, notes)


def _planned(
    task: AlignmentTask, settings: Settings, device: str, whole: int, part: int, notes: list[str]
) -> Settings:
    """The whole graph if it fits by itself, else subtasks of which one fits for each core."""
    names = sorted({settings.model_at(iteration)[0] for iteration in range(settings.iterations)})

    def hungriest(budget: int) -> Plan:
        return max((make_plan(task, budget, model=name, device=device) for name in names), key=_parts)

    plan = hungriest(whole)
    if plan.parts == 1:
        taken = f"about {_gib(plan.memory)} of {_gib(whole)}"
        notes.append(f"no division is needed: the whole graph takes {taken}")
        return settings
    plan = hungriest(part)
    notes.append(f"{plan.parts} subtasks of at most {plan.size} entities, about {_gib(plan.memory)} each")
    return replace(settings, subtasks=plan.parts, size=plan.size)


def _parts(plan: Plan) -> int:
    return plan.parts


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
