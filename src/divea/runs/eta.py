"""Estimates how long a run will still take, from the time its subtasks took so far and the cost of models."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from divea.config import ModelSettings, Settings
from divea.config.models import BUILT_IN_OPTIONS, DualAmnOptions, LabelPropagationOptions, RreaOptions
from divea.config.settings import PRESETS
from divea.graphs import AlignmentTask
from divea.resources.costs import COSTS, triples_per_entity
from divea.resources.plan import mean_size

HARD_LOSS_SECONDS = 1.25e-7
"""CPU seconds of a hard loss per step, seed of the batch and entity: each seed meets each entity."""

MEASURED_SEEDS = 0.025
"""Seeds per entity of the subtasks that the costs were measured on."""

PSEUDO_SEEDS = 0.8
"""Share of a subtask's entities that are typically seeds or pseudo-seeds after the first iteration."""


def iteration_costs(task: AlignmentTask, settings: Settings, device: str) -> list[float | None]:
    """The estimated seconds of one subtask in each iteration; None where the model was not measured.

    Only their ratios count: `Eta` scales them by what was measured in the run.

    Examples
    --------
    >>> from divea.graphs.planted import planted_pair
    >>> costs = iteration_costs(planted_pair().task, Settings.preset("best", subtasks=2), "cpu")
    >>> len(costs), costs[-1] > 3 * costs[0]
    (7, True)
    """
    subtasks = settings.subtasks or 1
    size = settings.size or mean_size(task, subtasks)
    triples = size * triples_per_entity(task)
    seeds = [len(task.seeds) / subtasks] + (settings.iterations - 1) * [PSEUDO_SEEDS * size / 2]
    return [
        _seconds(model, device, size, triples, count)
        for model, count in zip(settings.models(), seeds, strict=True)
    ]


def _seconds(model: ModelSettings, device: str, size: int, triples: float, seeds: float) -> float | None:
    """The estimated seconds of a subtask: the sum over the models of an ensemble."""
    total = 0.0
    for name in model.names:
        if (name, device) not in COSTS:
            return None
        options = model.options(name)
        total += COSTS[name, device].seconds.at(size, triples) * _relative_work(name, options)
        if device == "cpu":
            total += _seconds_for_more_seeds(options, size, seeds)
    return round(total, 3)


def _seconds_for_more_seeds(options: Any, size: int, seeds: float) -> float:
    """The additional CPU seconds of a hard loss for more seeds than the costs were measured with."""
    if isinstance(options, DualAmnOptions) or (isinstance(options, RreaOptions) and options.loss == "hard"):
        more = max(min(options.batch, seeds) - MEASURED_SEEDS * size, 0)
        return HARD_LOSS_SECONDS * options.steps * size * more
    return 0.0


def _relative_work(name: str, options: Any) -> float:
    """The work with these options, relative to the options that the costs were measured with."""
    if isinstance(options, LabelPropagationOptions):
        # A rough fit to the options of the presets: drafts are matched, too. Times measured in the run soon
        # take its place.
        measured = PRESETS["best"]["model"]["label-propagation"]
        return _propagation(options) / _propagation(LabelPropagationOptions(**measured))
    published = BUILT_IN_OPTIONS[name]()
    return float(options.steps / published.steps)  # type: ignore[attr-defined]


def _propagation(options: LabelPropagationOptions) -> float:
    heads = 1.3 * (options.rounds - 1) * options.draft_heads + options.heads
    return heads * options.width * math.sqrt(options.labels)


class Eta:
    """Estimates the remaining time of a run from its events, live or read from a log.

    The time of a subtask is the mean over the subtasks that the same model has solved. For a model that has
    solved none yet, it is the estimated cost, scaled by how the other models compare with their estimates.
    """

    def __init__(self) -> None:
        self.began: float | None = None
        self.since = 0.0
        """When the last subtask was solved, or solving began."""
        self.iteration = self.iterations = self.subtasks = self.done = 0
        self.fold = self.folds = 0
        """The fold of the cross-validation, from 1, and the number of folds; 0 is the main loop, the last."""
        self._costs: list[float | None] = []
        self._seconds: dict[float | None, float] = {}
        self._solved: dict[float | None, int] = {}
        self._divisions = 0
        self._seconds_beside = 0.0

    def observe(self, event: str, facts: Mapping[str, Any], at: float) -> None:
        """Take note of an event. A log may hold anything: a value that is not a number counts as 0."""
        if event == "started":
            self.began, self.since, self.iteration, self.done = at, at, 0, 0
            self.iterations, self.subtasks = _count(facts, "iterations"), _count(facts, "subtasks")
            self.fold, self.folds = 0, _count(facts, "folds")
            costs = facts.get("costs")
            self._costs = [_cost(value) for value in costs] if isinstance(costs, list) else []
        elif event == "iteration":
            self.iteration, self.subtasks = _count(facts, "iteration"), _count(facts, "subtasks")
            self.done, self.since, self.fold = _count(facts, "solved_before"), at, _count(facts, "fold")
        elif event in ("solved", "failed"):
            subtasks = facts.get("subtasks")
            count = len(subtasks) if isinstance(subtasks, list | tuple) else 0
            cost = self._cost_of(self.iteration)
            self._seconds[cost] = self._seconds.get(cost, 0.0) + max(at - self.since, 0.0)
            self._solved[cost] = self._solved.get(cost, 0) + count
            self.done, self.since = self.done + count, at
        elif event == "stage" and facts.get("stage") in ("divide", "learn"):
            self._divisions += facts["stage"] == "divide"
            self._seconds_beside += max(number(facts, "seconds"), 0.0)
            self.since = at

    def seconds_left(self, at: float) -> float | None:
        """The estimated seconds until the run ends; None before the first subtask is solved."""
        if not any(self._solved.values()) or not 0 < self.iterations <= 1000:
            return None
        later = [*range(self.iteration + 1, self.iterations), *self._iterations_of_later_loops()]
        left = sum(self.subtasks * self._seconds_of_subtask(iteration) for iteration in later)
        beside = self._seconds_beside / max(self._divisions, 1) * len(later)
        unsolved, current = self.subtasks - self.done, self._seconds_of_subtask(self.iteration)
        if unsolved > 0:
            left += unsolved * current - min(max(at - self.since, 0.0), current)
        return left + beside

    def _iterations_of_later_loops(self) -> list[int]:
        """The iterations of the folds that follow, and of the main loop after them."""
        loops = self.folds - self.fold + 1 if 0 < self.fold <= self.folds <= 1000 else 0
        return loops * list(range(self.iterations))

    def _seconds_of_subtask(self, iteration: int) -> float:
        cost = self._cost_of(iteration)
        if self._solved.get(cost):
            return self._seconds[cost] / self._solved[cost]
        expected = sum(known * count for known, count in self._solved.items() if known is not None)
        if cost is None or not expected:
            return sum(self._seconds.values()) / sum(self._solved.values())
        took = sum(seconds for known, seconds in self._seconds.items() if known is not None)
        return cost * took / expected

    def _cost_of(self, iteration: int) -> float | None:
        return self._costs[iteration] if 0 <= iteration < len(self._costs) else None


def number(facts: Mapping[str, Any], name: str, default: float = 0) -> float:
    """A number in an event, or the default: an event written by somebody else may hold anything."""
    value = facts.get(name)
    if isinstance(value, int | float) and abs(value) < 1 << 62:
        return value
    return default


def _count(facts: Mapping[str, Any], name: str) -> int:
    return max(int(number(facts, name)), 0)


def _cost(value: Any) -> float | None:
    is_cost = isinstance(value, int | float) and 0 < value < 1e12
    return float(value) if is_cost else None
