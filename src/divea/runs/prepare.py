"""Prepares a run: checks the settings against the task, and chooses what they leave open."""

from __future__ import annotations

from divea.config import FeatureSettings, Settings
from divea.config.effects import SIZED_DIVISIONS
from divea.division import make_strategy
from divea.errors import CalibrationError, InputError
from divea.features import make_features
from divea.graphs import AlignmentTask
from divea.loop.confidence import FEWEST_PAIRS
from divea.models import make_model
from divea.resources.budget import job_memory
from divea.resources.limits import Limits
from divea.resources.machine import cores, processor, resolve_device
from divea.resources.plan import Plan, mean_size, plan_subtasks
from divea.runs.checksums import task_checksums
from divea.runs.manifest import Manifest, library_versions

FOLDS = 5
"""Folds of the cross-validation if a threshold is given and held-back seeds would be too few."""
ENOUGH_HELD_BACK = 100
"""The number of held-back seeds from which cross-validation is not needed."""
USEFUL_SEEDS = 100
"""The number of seeds from which cross-validation gives a useful confidence (docs/notes/confidence.md)."""


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
    features, feature_notes = _features(task, settings)
    settings = settings.model_copy(update={"features": features})
    if not len(task.seeds) and not features.used:
        raise InputError(
            "the task has no seeds (known matches), and no names or attribute values to start from instead"
        )
    device = resolve_device(
        stored.device if stored is not None and limits.device == "auto" else limits.device
    )
    limits.require_effect(device)
    plan = _plan(task, settings, device, limits, stored)
    folds, fold_notes = _folds(task, settings, stored)
    effective = settings.resolved(
        subtasks=plan.subtasks,
        size=_size(task, settings, plan),
        confidence=settings.confidence.model_copy(update={"folds": folds}),
    )
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
            "task": {**task_checksums(task), **_checksums_of_features(effective)},
            "versions": library_versions(),
            "processors": [processor(device)],
            "folder": folder,
        },
        allow_unused=True,
    )
    return manifest, plan.notes + fold_notes + feature_notes


def _features(task: AlignmentTask, settings: Settings) -> tuple[FeatureSettings, tuple[str, ...]]:
    """The features that the task has data for, and a note on each other feature that was asked for."""
    made = {feature.name: feature for feature in make_features(settings.features)}
    missing = [name for name, feature in made.items() if not feature.is_available(task)]
    if not missing:
        return settings.features, ()
    used = "+".join(name for name in made if name not in missing) or "none"
    asked = missing if "name" in settings.features.model_fields_set else []
    notes = tuple(f"no {name}: the graphs have nothing to compute them from" for name in asked)
    return settings.features.model_copy(update={"name": used}), notes


def _checksums_of_features(settings: Settings) -> dict[str, str]:
    """The checksums of the files that features read."""
    found: dict[str, str] = {}
    for feature in make_features(settings.features):
        found |= feature.checksums()
    return found


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


def _folds(task: AlignmentTask, settings: Settings, stored: Manifest | None) -> tuple[int, tuple[str, ...]]:
    """The folds of the cross-validation, 0 for none, and a note on it.

    Raises CalibrationError if there are too few seeds for the threshold that the settings have.
    """
    confidence, seeds = settings.confidence, len(task.seeds)
    number = confidence.folds
    if number is None and stored is not None:
        number = stored.settings.confidence.folds
    if number is None:
        held_back = round(confidence.held_back * seeds) if settings.iterations > 1 else 0
        number = FOLDS if confidence.has_threshold and held_back < ENOUGH_HELD_BACK else 0
    if not number or (not seeds and settings.features.used):
        return 0, ()
    # A seed judges two pairs at most: one at each end.
    fewest = max(number, (FEWEST_PAIRS + 1) // 2)
    if seeds < fewest and settings.features.used:
        return 0, ()
    if seeds < fewest:
        raise CalibrationError(
            f"confidence cannot be calibrated on {seeds} seeds: it needs {fewest} at least, and is useful "
            f"from about {USEFUL_SEEDS} on; add seeds, or leave the threshold out to get all pairs"
        )
    text = f"confidence is learned by cross-validation on {seeds} seeds: {number} loops beside the main one"
    return number, (text,)


def _check(task: AlignmentTask, settings: Settings) -> None:
    """Raise InputError now for anything that would otherwise fail in the first subtask."""
    for model in settings.models():
        make_model(model)
    make_strategy(task, settings)
