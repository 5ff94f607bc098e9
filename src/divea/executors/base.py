"""What an executor is, and how the executor of a run is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from divea.config.executor import ExecutorSettings
from divea.executors.job import Job
from divea.loop.solve import Solved
from divea.registry import EXECUTORS
from divea.resources.machine import cores

TRIES = 3
"""How often a job is tried before it counts as failed."""


@dataclass(frozen=True)
class Done:
    """The results of a job, in the order of its subtasks, and what they cost."""

    position: int
    """The job's position among those given to the executor."""
    solved: list[Solved]
    notes: tuple[str, ...] = ()
    """What was done differently than asked, for the user."""
    seconds: float = 0.0
    peak_memory: int = 0
    """The most bytes that the process that ran the job has held so far."""
    peak_gpu_memory: int = 0


@dataclass(frozen=True)
class Failed:
    """A job that failed: once, as `attempt` returns it, or in every try, as an executor yields it."""

    position: int
    log: str


class Executor(ABC):
    """Runs jobs. `check_executor` checks the contract."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        """Make the executor from its settings."""

    @abstractmethod
    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        """Yield one result per job, in any order, as results get ready.

        A job that fails is tried again, and yields `Failed` after `TRIES` failures; it does not delay the
        others.

        Parameters
        ----------
        task_folder
            The task as `divea.graphs.save_task` writes it.
        """

    def close(self) -> None:
        """Release processes or a cluster. May be called twice."""
        return


WORTH_PROCESSES = 10_000
"""Entities above which solving takes longer than starting worker processes."""


def make_executor(settings: ExecutorSettings) -> Executor:
    """The executor that the settings name.

    >>> make_executor(ExecutorSettings(name="inline"))
    Inline()
    """
    executor: type[Executor] = EXECUTORS.load(settings.name)
    return executor.from_settings(settings)


def choose_executor(
    settings: ExecutorSettings, *, subtasks: int, entities: int, device: str, has_memory_limit: bool
) -> ExecutorSettings:
    """Fill in what the settings leave open: the executor, and the number of workers.

    Within a memory limit jobs run one at a time, unless workers are given.
    """
    workers = settings.workers
    if workers is None and device == "cpu":
        workers = 1 if has_memory_limit else min(cores(), subtasks)
    name = settings.name
    if name == "auto":
        is_worth_it = entities >= WORTH_PROCESSES and workers is not None and workers > 1
        is_asked_for = settings.workers is not None or settings.timeout is not None
        name = "local" if is_worth_it or is_asked_for else "inline"
    chosen = {"name": name, "workers": None if name == "inline" else workers}
    return settings.model_copy(update=chosen)
