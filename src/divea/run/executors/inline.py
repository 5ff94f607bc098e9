"""The inline executor: this very process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from divea.graphs.storage import load_task
from divea.run.executors.attempt import attempt
from divea.run.jobs import Done, Failed, Job


class Inline:
    """Simplest to debug, and the one that every other executor is compared with."""

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        task = load_task(task_folder)
        for position, job in enumerate(jobs):
            yield attempt(task, position, job)

    def close(self) -> None:
        pass
