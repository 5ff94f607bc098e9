"""What an executor is: jobs in, results out as they get ready, wherever the work is done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from divea.run.jobs import Done, Failed, Job


class Executor(Protocol):
    """Does jobs. `check_executor` holds the contract."""

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        """One result for each job, in any order, as they get ready.

        The folder holds the task as `divea.graphs.storage.save_task` writes it. A job that fails is tried
        again, and after three failures given as `Failed`; the others are not held up by it.
        """

    def close(self) -> None:
        """Give back what was taken: processes, a cluster. May be called twice."""
