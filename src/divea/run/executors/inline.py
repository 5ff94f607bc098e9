"""The inline executor: this very process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from divea.graphs.storage import load_task
from divea.run.executors.attempt import TRIES, attempt
from divea.run.jobs import Done, Failed, Job


class Inline:
    """Simplest to debug, and the one that every other executor is compared with."""

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        task = load_task(task_folder)
        for position, job in enumerate(jobs):
            for _ in range(TRIES):
                result = attempt(task, position, job)
                if isinstance(result, Done):
                    break
            yield result

    def close(self) -> None:
        pass

    def __repr__(self) -> str:
        return "Inline()"
