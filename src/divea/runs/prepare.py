"""Prepares a run: checks the settings against the task, and chooses what they leave open."""

from __future__ import annotations

from divea.config import Settings
from divea.config.effects import SIZED_DIVISIONS
from divea.division import make_strategy
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.models import make_model
from divea.resources.budget import job_memory
from divea.resources.limits import Limits
from divea.resources.machine import cores, processor, resolve_device
from divea.resources.plan import Plan, mean_size, plan_subtasks
from divea.runs.checksums import task_checksums
from divea.runs.manifest import Manifest, library_versions


def prepare(
    task: AlignmentTask,
    settings: Settings,
    limits: Limits,
    *,
    stored: Manifest | None = None,
    folder: str | None = None,
) -> tuple[Manifest, tuple[str, ...]]:
    """The manifest of a run, and notes on what was chosen.

    Parameters
    ----------
    stored
        The manifest of the run if it exists. What the settings leave open is then taken from it: continuing
        a run must not depend on the machine.
    folder
        The task folder, if the task came from one.
    """
    if not len(task.seeds):
        raise InputError("the task has no seeds (known matches), and nothing can be aligned without")
    device = resolve_device(
        stored.device if stored is not None and limits.device == "auto" else limits.device
    )
    plan = _plan(task, settings, device, limits, stored)
    effective = settings.resolved(subtasks=plan.subtasks, size=_size(task, settings, plan))
    _check(task, effective)
    limit = limits.gpu_memory if device == "cuda" else limits.memory
    memory = None if limit is None else job_memory(task, limit, device)
    # One thread per job leaves the other cores to other jobs. Within a memory limit jobs run one at a time.
    threads = cores() if plan.subtasks == 1 or limits.memory is not None else 1
    subtasks_per_job = limits.subtasks_per_job
    if stored is not None:
        threads = stored.threads
        memory = stored.memory if limit is None else memory
        subtasks_per_job = subtasks_per_job or stored.subtasks_per_job
    manifest: Manifest = Manifest.checked(
        {
            "settings": effective,
            "device": device,
            "threads": threads,
            "memory": memory,
            "subtasks_per_job": subtasks_per_job,
            "task": task_checksums(task),
            "versions": library_versions(),
            "processors": [processor(device)],
            "folder": folder,
        },
        allow_unused=True,
    )
    return manifest, plan.notes


def _plan(
    task: AlignmentTask, settings: Settings, device: str, limits: Limits, stored: Manifest | None
) -> Plan:
    if (
        stored is not None
        and settings.subtasks in (None, stored.settings.subtasks)
        and settings.size in (None, stored.settings.size)
    ):
        return Plan(stored.settings.subtasks or 1, stored.settings.size)
    return plan_subtasks(task, settings, device, limits)


def _size(task: AlignmentTask, settings: Settings, plan: Plan) -> int | None:
    """The effective size limit; None if nothing is divided, or if the division keeps no limit."""
    if plan.subtasks == 1 or settings.division.name not in SIZED_DIVISIONS:
        return plan.size
    return plan.size or mean_size(task, plan.subtasks)


def _check(task: AlignmentTask, settings: Settings) -> None:
    """Raise InputError now for what would otherwise fail in the first subtask."""
    for model in settings.models():
        make_model(model)
    make_strategy(task, settings)
