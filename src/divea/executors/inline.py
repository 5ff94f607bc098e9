"""The inline executor: this very process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from divea.config.executor import ExecutorSettings
from divea.executors.attempt import attempt
from divea.executors.base import Done, Executor, Failed, Tries
from divea.executors.job import Job
from divea.graphs import load_task


class Inline(Executor):
    """The simplest to debug, and the one that every other executor is compared with."""

    @classmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        return cls()

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        task = load_task(task_folder)
        for position, job in enumerate(jobs):
            tries = Tries()
            result: Done | Failed | None = None
            while result is None:
                result = attempt(task, position, job, in_pieces=tries.in_pieces, on_steps=self.on_steps)
                if isinstance(result, Failed):
                    result = tries.add(result)
            yield result

    def __repr__(self) -> str:
        return "Inline()"
