"""What a run will be: the settings that were given, and those that the task and the machine suggest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from divea.alignment.loop import strategy_of
from divea.alignment.settings import Settings
from divea.division.plan import COSTS, make_plan, parts_for
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.matching import METHODS
from divea.models import resolve_model
from divea.run.checksums import task_checksums
from divea.run.machine import SHARE, cores, gpu_memory, resolve_device, total_memory
from divea.run.manifest import Manifest, versions


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    device: str = "auto"
    memory: int | None = None
    """Bytes of host memory; half of the machine's if left out."""
    gpu_memory: int | None = None
    """Bytes of GPU memory; most of the GPU's if left out."""


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
    device = resolve_device(limits.device)
    if stored is not None and limits.device == "auto":
        device = resolve_device(stored.device)
    memory = _memory(device, limits)
    if stored is not None and limits.memory is limits.gpu_memory is None:
        memory = stored.memory
    settings = Settings.of(given)
    _check_names(settings, task)
    if "subtasks" not in given and settings.division != "whole":
        if stored is not None and stored.settings.size == given.get("size", stored.settings.size):
            settings = replace(settings, subtasks=stored.settings.subtasks, size=stored.settings.size)
        else:
            settings = _sized(task, settings, device, memory, notes)
    if settings.subtasks > (most := len(task.unmatched_source)):
        raise InputError(
            f"{settings.subtasks} subtasks for {most} entities that are to be matched: N is too large"
        )
    strategy_of(task, settings)
    # One thread a job leaves the other cores to other jobs; a single job may have them all.
    threads = 1 if settings.subtasks > 1 else cores()
    if stored is not None:
        threads = stored.threads
    manifest = Manifest(settings, device, threads, memory, task_checksums(task), versions(), folder)
    return manifest, notes


def _memory(device: str, limits: Limits) -> int:
    if device == "cuda":
        return limits.gpu_memory or int(0.8 * gpu_memory())
    return limits.memory or int(SHARE * total_memory())


def _check_names(settings: Settings, task: AlignmentTask) -> None:
    """A wrong name is told before anything is done, not by the first subtask that meets it."""
    for iteration in range(settings.iterations):
        name, options = settings.model_at(iteration)
        resolve_model(name, **options)
    if settings.matching not in METHODS:
        raise InputError(f"unknown matching {settings.matching!r}; choose from {', '.join(METHODS)}")
    if not len(task.seeds):
        raise InputError("there are no seeds: name known matches with --seeds")


def _sized(task: AlignmentTask, settings: Settings, device: str, memory: int, notes: list[str]) -> Settings:
    """N and S: as many subtasks as a given size makes, or as the memory asks for."""
    entities = task.source.num_entities + task.target.num_entities
    if settings.size is not None:
        parts = 1 if settings.size >= entities else parts_for(task, settings.size)
        notes.append(f"{parts} subtasks of at most {settings.size} entities")
        return replace(settings, subtasks=parts)
    names = {settings.model_at(iteration)[0] for iteration in range(settings.iterations)}
    unmeasured = [name for name in names if (name, device) not in COSTS]
    if unmeasured:
        notes.append(
            f"what {unmeasured[0]} needs on {device} was not measured, so nothing is divided; -n divides"
        )
        return settings
    plans = [make_plan(task, memory, model=name, device=device) for name in sorted(names)]
    plan = max(plans, key=lambda plan: plan.parts)
    if plan.parts == 1:
        notes.append(
            f"no division is needed: the whole graph takes about {_gib(plan.memory)} of {_gib(memory)}"
        )
        return settings
    notes.append(f"{plan.parts} subtasks of at most {plan.size} entities, about {_gib(plan.memory)} each")
    return replace(settings, subtasks=plan.parts, size=plan.size)


def _gib(size: float) -> str:
    return f"{size / 2**30:.1f} GiB"
