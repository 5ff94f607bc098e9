"""Chooses the number of subtasks N and their size S, for both `divea plan` and `divea align`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from divea.config import Settings
from divea.config.effects import given_paths
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.resources.budget import job_memory
from divea.resources.costs import (
    DIVISION_SECONDS_PER_ENTITY,
    cost_of,
    is_measured,
    triples_per_entity,
)
from divea.resources.limits import Limits
from divea.resources.machine import MEMORY_SHARE, cores, gpu_memory, total_memory
from divea.wording import worded

PLANNED_SHARE = 0.9
"""Share of a job's memory that a plan uses; the rest is a margin for what the cost model misses."""

TYPICAL_CONTEXT = 0.16
"""Source context that a division typically chooses, as a share of what unmatched entities leave of S."""


@dataclass(frozen=True)
class Plan:
    """N subtasks of at most S entities."""

    subtasks: int
    size: int | None
    """None: all entities divided by N, or no limit if nothing is divided."""
    notes: tuple[str, ...] = ()
    """What was decided, for the user."""


@dataclass(frozen=True)
class Estimate:
    """Predicted costs of a model in one iteration."""

    memory: float
    """Bytes of a subtask."""
    model_seconds: float
    """Seconds for all subtasks, solved one after the other."""


def plan_subtasks(task: AlignmentTask, settings: Settings, device: str, limits: Limits) -> Plan:
    """N and S: as given, as implied by a given size, or as few subtasks as fit into memory."""
    if settings.division.name == "whole":
        return Plan(1, None)
    if settings.subtasks is not None:
        require_unmatched(task, settings.subtasks)
        return Plan(settings.subtasks, settings.size, _note_on_size(task, settings.subtasks, settings.size))
    if settings.size is not None:
        plan = _plan_by_size(task, settings.size)
    else:
        plan = _plan_by_memory(task, settings, device, limits)
    given = [path for path in given_paths(settings) if path.startswith("division")]
    if plan.subtasks == 1 and given:
        verb = "has" if len(given) == 1 else "have"
        divide = worded(command="--subtasks", python="subtasks=")
        note = f"nothing is divided, so {', '.join(given)} {verb} no effect; {divide} divides"
        plan = Plan(1, None, (*plan.notes, note))
    return plan


def require_unmatched(task: AlignmentTask, subtasks: int) -> None:
    """Raise InputError if there are fewer unmatched source entities than subtasks, or none at all."""
    unmatched = len(task.unmatched_source)
    if not unmatched:
        raise InputError("every source entity is a seed, so nothing is left to align")
    if subtasks > unmatched:
        raise InputError(f"subtasks: {subtasks} is more than the {unmatched} unmatched source entities")


def _note_on_size(task: AlignmentTask, subtasks: int, size: int | None) -> tuple[str, ...]:
    """A note if N subtasks of S entities have no room for all unmatched entities and their context."""
    if size is None or subtasks == 1 or (needed := subtasks_of_size(task, size)) <= subtasks:
        return ()
    return (f"{subtasks} subtasks of at most {size} entities are too small: expect about {needed}",)


def _plan_by_size(task: AlignmentTask, size: int) -> Plan:
    entities = task.source.num_entities + task.target.num_entities
    subtasks = 1 if size >= entities else subtasks_of_size(task, size)
    return Plan(subtasks, size, (f"{subtasks} subtasks of at most {size} entities",))


def _plan_by_memory(task: AlignmentTask, settings: Settings, device: str, limits: Limits) -> Plan:
    for model in settings.models():
        if not is_measured(model.name, device):
            divide = worded(command="--subtasks", python="subtasks=")
            note = f"no division: the costs of {model.name} on {device} were not measured; {divide} divides"
            return Plan(1, None, (note,))
    if device == "cuda":
        memory, jobs_at_once = limits.gpu_memory or int(MEMORY_SHARE * gpu_memory()), 1
    else:
        memory = limits.memory or int(MEMORY_SHARE * total_memory())
        jobs_at_once = 1 if limits.memory else cores()
    if _fewest(task, settings, job_memory(task, memory, device), device).subtasks == 1:
        return Plan(1, None, (f"no division: the whole graph fits into {memory / 2**30:.1f} GiB",))
    plan = _fewest(task, settings, job_memory(task, memory // jobs_at_once, device), device)
    note = f"{plan.subtasks} subtasks of at most {plan.size} entities fit into the memory"
    return Plan(plan.subtasks, plan.size, (note,))


def _fewest(task: AlignmentTask, settings: Settings, memory: int, device: str) -> Plan:
    """The fewest and largest subtasks that fit, for the model that needs most."""
    names = sorted({model.name for model in settings.models()})
    size = min(largest_size(task, memory, name, device) for name in names)
    entities = task.source.num_entities + task.target.num_entities
    return Plan(1, None) if size == entities else Plan(subtasks_of_size(task, size), size)


def largest_size(task: AlignmentTask, memory: int, model: str, device: str) -> int:
    """The most entities of a subtask whose predicted memory fits."""
    cost = cost_of(model, device).memory
    per_entity = cost.entities + cost.triples * triples_per_entity(task)
    size = int((PLANNED_SHARE * memory - cost.fixed) / per_entity)
    if size < 2:
        least = (cost.fixed + 2 * per_entity) / PLANNED_SHARE / 2**20
        raise InputError(
            f"memory: {model} on {device} takes {least:.0f} MiB for the smallest subtask, and the limit "
            f"leaves {max(memory, 0) / 2**20:.0f} MiB for one, beside the libraries and the graphs"
        )
    return min(size, task.source.num_entities + task.target.num_entities)


def subtasks_of_size(task: AlignmentTask, size: int) -> int:
    """How many subtasks of at most `size` entities hold all unmatched entities and their context."""
    # Unmatched entities take what a typical source context leaves of the source's half.
    room = size * (0.5 - TYPICAL_CONTEXT / 2)
    return max(math.ceil(len(task.unmatched_source) / room), 2)


def mean_size(task: AlignmentTask, subtasks: int) -> int:
    """S if it is not given: all entities divided by N."""
    return (task.source.num_entities + task.target.num_entities) // subtasks


def estimate(task: AlignmentTask, plan: Plan, model: str, device: str) -> Estimate:
    """The predicted costs of one iteration with this model."""
    size = plan.size or mean_size(task, plan.subtasks)
    cost, triples = cost_of(model, device), size * triples_per_entity(task)
    return Estimate(cost.memory.at(size, triples), plan.subtasks * cost.seconds.at(size, triples))


def estimate_division(task: AlignmentTask) -> float:
    """The predicted seconds of one division."""
    return DIVISION_SECONDS_PER_ENTITY * (task.source.num_entities + task.target.num_entities)
