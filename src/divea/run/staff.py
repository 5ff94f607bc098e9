"""Who solves the subtasks of a run, as the user says or as the machine suggests."""

from __future__ import annotations

from dataclasses import dataclass

from divea.graphs import AlignmentTask
from divea.run.executors import Executor, make_executor
from divea.run.machine import cores
from divea.run.manifest import Manifest
from divea.run.prepare import PROCESS

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

    def executor(self, manifest: Manifest, task: AlignmentTask, memory: int | None) -> Executor:
        """An executor that keeps within `memory` bytes of the host."""
        workers = self.workers
        if workers is None and manifest.device == "cpu":
            workers = _workers_within(memory, manifest)
        name = self.name
        if name == "auto":
            large = task.source.num_entities + task.target.num_entities >= _WORTH_PROCESSES
            name = "local" if large and workers is not None and workers > 1 else "inline"
        return make_executor(name, workers=workers, address=self.address, timeout=self.timeout)


def _workers_within(memory: int | None, manifest: Manifest) -> int:
    """Processes that this machine has cores for and the memory has room for."""
    most = min(cores(), manifest.settings.subtasks)
    if memory is None or manifest.memory is None:
        return most
    return max(1, min(most, (memory - PROCESS) // (manifest.memory + PROCESS)))
