"""The local executor: worker processes on this machine.

Each worker maps the graphs into memory, which the system then holds once for all of them, and gets its
jobs through a pipe. A worker that dies is replaced; one whose parent dies ends itself.
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

from divea.run.executors.attempt import TRIES
from divea.run.jobs import Done, Failed, Job


class Local:
    """Worker processes: `workers` of them, or one per GPU, or as many as there are cores for.

    A job that takes longer than `timeout` seconds has failed. Workers start when jobs come and stay for the
    next ones until `close`.
    """

    def __init__(self, workers: int | None = None, *, timeout: float | None = None):
        self.workers, self.timeout = workers, timeout
        self._staff: list[_Worker] = []
        self._logs = tempfile.TemporaryDirectory(prefix="divea-")

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        if not jobs:
            return
        count = self._how_many(jobs)
        waiting = deque(range(len(jobs)))
        logs: list[list[str]] = [[] for _ in jobs]
        kills = [0] * len(jobs)
        try:
            while waiting or self._busy:
                self._hire(min(count, len(self._busy) + len(waiting)))
                for worker in self._staff:
                    if worker.position is None and waiting:
                        position = waiting.popleft()
                        # Ended twice by the system over the same job: most likely there was no room for it.
                        worker.give(position, task_folder, jobs[position], self.timeout, kills[position] > 1)
                ready = wait([worker.connection for worker in self._busy])
                for worker in [worker for worker in self._busy if worker.connection in ready]:
                    result = worker.take()
                    if isinstance(result, Failed):
                        position = result.position
                        if worker.process.returncode is not None:
                            kills[position] += worker.process.returncode < 0
                            worker.end()
                            self._staff.remove(worker)
                        logs[position].append(result.log)
                        if len(logs[position]) < TRIES:
                            waiting.append(position)
                            continue
                        result = Failed(position, "\n".join(logs[position]))
                    yield result
        finally:
            # Whoever stops reading results early wants no more work done.
            for worker in self._busy:
                worker.end()
                self._staff.remove(worker)

    @property
    def _busy(self) -> list[_Worker]:
        return [worker for worker in self._staff if worker.position is not None]

    def _how_many(self, jobs: Sequence[Job]) -> int:
        if self.workers is not None:
            return self.workers
        if jobs[0].device != "cpu":
            import torch

            return max(torch.cuda.device_count(), 1)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return max(cores // jobs[0].threads, 1)

    def _hire(self, count: int) -> None:
        """Fill up to so many workers; the number of one that left is given again, and with it its GPU."""
        taken = {worker.number for worker in self._staff}
        for number in range(count):
            if number not in taken and len(self._staff) < count:
                self._staff.append(_Worker(number, Path(self._logs.name) / f"worker-{number}.log"))

    def close(self) -> None:
        for worker in self._staff:
            worker.end()
        self._staff = []
        self._logs.cleanup()


class _Worker:
    """A process, the pipe to it, and the job that it is at."""

    def __init__(self, number: int, log: Path):
        self.number, self.log = number, log
        self.position: int | None = None
        ours, theirs = socket.socketpair()
        self.connection = Connection(ours.detach())
        # Not by multiprocessing: that would run the user's own script once more in every worker.
        command = [sys.executable, "-P", "-m", "divea.run.executors.worker"]
        with theirs, log.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(number)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,  # ends with this process, however it ends: the worker listens
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )

    def give(self, position: int, folder: Path, job: Job, timeout: float | None, in_pieces: bool) -> None:
        self.position = position
        with suppress(OSError):  # it died while idle: taking its result will say so
            self.connection.send((position, folder, job, timeout, in_pieces))

    def take(self) -> Done | Failed:
        """The result of its job; it is there, or the worker is dead."""
        position, self.position = self.position, None
        assert position is not None
        try:
            result: Done | Failed = self.connection.recv()
            return result
        except (EOFError, OSError):
            self.process.wait()
            return Failed(position, f"worker {_end(self.process.returncode)}\n{_tail(self.log)}")

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()
        assert self.process.stdin is not None
        self.process.stdin.close()


def _end(exit_code: int) -> str:
    return (
        f"was ended by {signal.Signals(-exit_code).name}" if exit_code < 0 else f"ended with code {exit_code}"
    )


def _tail(log: Path, most: int = 4000) -> str:
    return log.read_text(errors="replace")[-most:] if log.exists() else ""
