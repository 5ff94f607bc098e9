"""The local executor: worker processes on this machine.

Workers map the graphs into memory, so the system holds them once for all workers, and receive jobs through a
pipe. A worker that dies is replaced; a worker whose parent dies ends itself.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Self

from divea.config.executor import ExecutorSettings
from divea.executors.base import TRIES, Done, Executor, Failed
from divea.executors.job import Job
from divea.resources.machine import cores


class Local(Executor):
    """Worker processes: `workers` of them, or one per GPU, or as many as there are cores for.

    A job that takes longer than `timeout` seconds has failed. Workers start when jobs come and stay for later
    jobs until `close`.
    """

    def __init__(self, workers: int | None = None, *, timeout: float | None = None):
        self.workers, self.timeout = workers, timeout
        self._workers: list[_Worker] = []
        self._logs = tempfile.TemporaryDirectory(prefix="divea-")

    @classmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        return cls(settings.workers, timeout=settings.timeout)

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        if not jobs:
            return
        count = self._number_of_workers(jobs)
        waiting = deque(range(len(jobs)))
        logs: list[list[str]] = [[] for _ in jobs]
        kills = [0] * len(jobs)
        try:
            while waiting or self._busy:
                self._start_workers(min(count, len(self._busy) + len(waiting)))
                for worker in self._workers:
                    if worker.position is None and waiting:
                        position = waiting.popleft()
                        # Two kills over the same job: most likely there was no memory for it.
                        in_pieces = kills[position] > 1
                        worker.send(position, task_folder, jobs[position], self.timeout, in_pieces)
                for worker in self._wait_for_results():
                    result = worker.receive()
                    if isinstance(result, Failed):
                        position = result.position
                        if worker.process.returncode is not None:
                            kills[position] += worker.process.returncode < 0
                            self._remove(worker)
                        logs[position].append(result.log)
                        if len(logs[position]) < TRIES:
                            waiting.append(position)
                            continue
                        result = Failed(position, "\n".join(logs[position]))
                    yield result
        finally:
            # A caller that stops reading results wants no more work done.
            for worker in self._busy:
                self._remove(worker)

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._workers if worker.position is not None]

    def _wait_for_results(self) -> list[_Worker]:
        """The workers that have a result, or have died; waits until there is one."""
        ready = wait([worker.connection for worker in self._busy])
        return [worker for worker in self._busy if worker.connection in ready]

    def _number_of_workers(self, jobs: Sequence[Job]) -> int:
        if self.workers is not None:
            return self.workers
        if jobs[0].device != "cpu":
            import torch

            return max(torch.cuda.device_count(), 1)
        return max(cores() // jobs[0].threads, 1)

    def _start_workers(self, count: int) -> None:
        """Start workers until there are `count`; a new one takes over the number, and GPU, of one that
        died.
        """
        taken = {worker.number for worker in self._workers}
        for number in range(count):
            if number not in taken and len(self._workers) < count:
                self._workers.append(_Worker(number, Path(self._logs.name) / f"worker-{number}.log"))

    def _remove(self, worker: _Worker) -> None:
        worker.end()
        self._workers.remove(worker)

    def close(self) -> None:
        for worker in self._workers:
            worker.end()
        self._workers = []
        self._logs.cleanup()


class _Worker:
    """A process, the pipe to it, and the job that it works on."""

    def __init__(self, number: int, log: Path):
        self.number, self.log = number, log
        self.position: int | None = None
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        # Not by multiprocessing, which would run the user's own script again in every worker.
        command = [sys.executable, "-P", "-m", "divea.executors.worker"]
        with theirs, log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(number)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # closes when this process ends, however it ends
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def send(self, position: int, folder: Path, job: Job, timeout: float | None, in_pieces: bool) -> None:
        self.position = position
        with suppress(OSError):  # it died while idle: `receive` will say so
            self.connection.send((position, folder, job, timeout, in_pieces))

    def receive(self) -> Done | Failed:
        """The result of its job, if the worker is alive."""
        position, self.position = self.position, None
        assert position is not None
        try:
            result: Done | Failed = self.connection.recv()
            return result
        except (EOFError, OSError):
            self.process.wait()
            return Failed(position, f"worker {_ending(self.process.returncode)}\n{_tail(self.log)}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()
        assert self.process.stdin is not None
        self.process.stdin.close()


def _ending(exit_code: int) -> str:
    if exit_code < 0:
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"ended with code {exit_code}"


def _tail(log: Path, most: int = 4000) -> str:
    return log.read_text(errors="replace")[-most:] if log.exists() else ""
