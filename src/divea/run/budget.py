"""From a limit on memory to subtasks that keep it: what is left for a job, and what fits into that."""

from __future__ import annotations

from dataclasses import replace

from divea.alignment.settings import Settings
from divea.division.plan import make_plan
from divea.errors import InputError
from divea.graphs import AlignmentTask

PROGRAM = 480 << 20
"""Bytes of the interpreter with its libraries, of which torch is the largest."""

PER_ENTITY = 1000
"""Bytes per entity of both graphs for what a run keeps or makes between jobs: labels, adjacency, the
division, ranked lists."""

GPU_PROGRAM = 800 << 20
"""Bytes of a GPU that its driver and libraries take, which torch does not count; 753 MiB on an H200."""


def for_a_job(task: AlignmentTask, memory: int, device: str) -> int:
    """What a limit on a process's memory leaves for solving; it depends on the task alone."""
    taken = GPU_PROGRAM
    if device == "cpu":
        taken = PROGRAM + PER_ENTITY * (task.source.num_entities + task.target.num_entities)
    if memory <= taken:
        raise InputError(f"a run takes {taken / 2**20:.0f} MiB before it solves anything; allow more memory")
    return memory - taken


def fit(task: AlignmentTask, settings: Settings, memory: int, device: str) -> Settings:
    """Settings whose subtasks fit the bytes for a job; a division that was asked for stays as it is."""
    if settings.subtasks > 1:
        return settings
    names = {settings.model_at(iteration)[0] for iteration in range(settings.iterations)}
    plans = [make_plan(task, memory, model=name, device=device) for name in sorted(names)]
    plan = min(plans, key=lambda plan: plan.size)
    return settings if plan.parts == 1 else replace(settings, subtasks=plan.parts, size=plan.size)
