"""What a division strategy is, how one is made from settings, and the simplest one: no division."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from divea.config import DivisionSettings, Settings
from divea.division.subtask import Division, Feedback, Subtask
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.registry import DIVISIONS
from divea.resources.plan import mean_size, require_unmatched


class Strategy(ABC):
    """Divides a task into subtasks. `check_division` checks that the result keeps the contract."""

    @classmethod
    @abstractmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> Strategy:
        """Make the strategy.

        Parameters
        ----------
        parts
            N, the number of subtasks.
        size
            S, the most entities of a subtask; a strategy that cannot keep a limit ignores it.
        settings
            The group `division` of the settings.
        device
            Where dense work is done: "cpu" or "cuda". `divea align` divides on the CPU.
        """

    @abstractmethod
    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """Divide the task, using what an earlier iteration learned if there was one."""


def make_strategy(task: AlignmentTask, settings: Settings, device: str = "cpu") -> Strategy:
    """The strategy that the settings name. One subtask means the whole graph.

    >>> from divea.graphs.planted import planted_pair
    >>> make_strategy(planted_pair().task, Settings(subtasks=5, division={"name": "cps"}))
    CPS(parts=5, random_seed=0)
    """
    if settings.subtasks is None:
        raise InputError("the number of subtasks is not chosen yet")
    require_unmatched(task, settings.subtasks)
    name = settings.division.name if settings.subtasks > 1 else "whole"
    size = settings.size or mean_size(task, settings.subtasks)
    strategy: type[Strategy] = DIVISIONS.load(name)
    return strategy.from_settings(
        settings.subtasks, size, settings.division, random_seed=settings.random_seed, device=device
    )


@dataclass(frozen=True)
class Whole(Strategy):
    """One subtask that holds everything."""

    @classmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> Whole:
        return cls()

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The task itself; feedback changes nothing."""
        subtask = Subtask.of(
            0,
            task,
            source_entities=np.arange(task.source.num_entities, dtype=np.int32),
            target_entities=np.arange(task.target.num_entities, dtype=np.int32),
            unmatched=task.unmatched_source,
            candidates=task.unmatched_target,
        )
        return Division((subtask,), np.zeros(task.source.num_entities, dtype=np.int32))
