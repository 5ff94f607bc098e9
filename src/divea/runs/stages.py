"""The stages of a run, such as dividing and solving: how long each takes, and how much memory."""

from __future__ import annotations

import time
from typing import Any

from divea.executors import Done
from divea.resources.machine import peak_memory
from divea.runs.log import Log


class Stages:
    """Wall time and peak memory of the stages of a run; a stage starts where the previous one ended."""

    def __init__(self, log: Log):
        self._log = log
        self._start = time.perf_counter()
        self.peak = self.peak_gpu = 0
        self.measured: list[dict[str, Any]] = []

    def end(self, stage: str, iteration: int) -> None:
        """Measure and log the stage that ends now."""
        now = time.perf_counter()
        self.peak = max(self.peak, peak_memory())
        measured = {
            "seconds": round(now - self._start, 3),
            "peak_memory": self.peak,
            "peak_gpu_memory": self.peak_gpu,
        }
        self.measured.append({"stage": stage, "iteration": iteration, **measured})
        self._log("stage", stage=stage, iteration=iteration, **measured)
        self._start = now

    def add_job(self, done: Done) -> None:
        """Take the memory of a finished job into account, which another process may have run."""
        self.peak = max(self.peak, done.peak_memory)
        self.peak_gpu = max(self.peak_gpu, done.peak_gpu_memory)
