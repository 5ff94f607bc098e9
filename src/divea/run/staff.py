"""Who solves the subtasks of a run, as the user says or as the machine suggests."""

from __future__ import annotations

from dataclasses import dataclass

from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.run.executors import NAMES, Executor, make_executor
from divea.run.machine import cores
from divea.run.manifest import Manifest

_WORTH_PROCESSES = 10_000
"""Entities above which solving takes longer than starting processes does."""


@dataclass(frozen=True)
class Staff:
    """It decides how fast a run is, never what comes out."""

    name: str = "auto"
    """inline, local or ray; auto is local where several subtasks are worth several processes."""
    workers: int | None = None
    address: str | None = None
    timeout: float | None = None
    gpu_share: float = 1.0
    """Of a GPU, for a job on a Ray cluster: with .25, four jobs share one."""

    def __post_init__(self) -> None:
        if self.name not in ("auto", *NAMES):
            raise InputError(f"unknown executor {self.name!r}; choose from auto, {', '.join(NAMES)}")
        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers must be at least 1, not {self.workers}")
        if not 0 < self.gpu_share <= 1:
            raise InputError(f"gpu-share is a share of one GPU, above 0 and up to 1, not {self.gpu_share}")

    def executor(self, manifest: Manifest, task: AlignmentTask) -> Executor:
        """Somebody to do the jobs of a run; within a limit on memory one at a time, unless told otherwise."""
        workers = self.workers
        if workers is None and manifest.device == "cpu":
            workers = min(cores(), manifest.settings.subtasks) if manifest.memory is None else 1
        name = self.name
        if name == "auto":
            large = task.source.num_entities + task.target.num_entities >= _WORTH_PROCESSES
            name = "local" if large and workers is not None and workers > 1 else "inline"
        return make_executor(
            name, workers=workers, address=self.address, timeout=self.timeout, gpu_share=self.gpu_share
        )
