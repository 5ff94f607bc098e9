"""What a run will be: the settings that were given, and those that the task and the machine suggest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from divea.alignment.loop import strategy_of
from divea.alignment.settings import Settings
from divea.division import STRATEGIES
from divea.division.plan import COSTS, parts_for
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.matching import METHODS
from divea.models import resolve_model
from divea.run.budget import fit, for_a_job
from divea.run.checksums import task_checksums
from divea.run.machine import SHARE, cores, gpu_memory, resolve_device, total_memory
from divea.run.manifest import Manifest, versions


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    device: str = "auto"
    memory: int | None = None
    """Bytes of host memory. They are kept by solving one subtask at a time; with more workers, by each."""
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
    limit = limits.gpu_memory if device == "cuda" else limits.memory
    memory = None if limit is None else for_a_job(task, limit, device)
    # One thread a job leaves the other cores to other jobs; within a limit jobs are done one at a time.
    threads = cores() if settings.subtasks == 1 or limits.memory is not None else 1
    if stored is not None:
        threads = stored.threads
        memory = stored.memory if limit is None else memory
    manifest = Manifest(settings, device, threads, memory, task_checksums(task), versions(), folder)
    return manifest, notes


def _check_names(settings: Settings, task: AlignmentTask) -> None:
    """A wrong name is told before anything is done, not by the first subtask that meets it."""
    for iteration in range(settings.iterations):
        name, options = settings.model_at(iteration)
        resolve_model(name, **options)
    if settings.matching not in METHODS:
        raise InputError(f"unknown matching {settings.matching!r}; choose from {', '.join(METHODS)}")
    if settings.division not in STRATEGIES:
        raise InputError(f"unknown division {settings.division!r}; choose from {', '.join(STRATEGIES)}")
    if settings.size is not None and settings.size < 2:
        raise InputError(f"a subtask holds at least 2 entities, one of each graph, not {settings.size}")
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
    for iteration in range(settings.iterations):
        name = settings.model_at(iteration)[0]
        if (name, device) not in COSTS:
            notes.append(f"no division: what {name} needs on {device} was not measured; -n divides")
            return settings
    if device == "cuda":
        memory, at_once = limits.gpu_memory or int(SHARE * gpu_memory()), 1
    else:
        memory = limits.memory or int(SHARE * total_memory())
        at_once = 1 if limits.memory else cores()
    fitted = fit(task, settings, for_a_job(task, memory, device), device)
    if fitted.subtasks == 1:
        notes.append(f"no division is needed: the whole graph fits into {memory / 2**30:.1f} GiB")
        return settings
    fitted = fit(task, settings, for_a_job(task, memory // at_once, device), device)
    notes.append(f"{fitted.subtasks} subtasks of at most {fitted.size} entities fit into the memory")
    return fitted
