"""The inline executor: runs jobs in this process, several at once in threads if that is faster.

Threads share the libraries and the graphs, so they take far less memory than worker processes. However, a job
that crashes takes the process with it, and no job can be ended after a timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Self

from divea.config.executor import ExecutorSettings
from divea.executors.attempt import attempt
from divea.executors.base import Done, Executor, Failed, Steps, Tries, jobs_per_gpu
from divea.executors.job import Job
from divea.graphs import AlignmentTask, load_task
from divea.models import run_in_threads
from divea.resources.machine import cores

THREADS_PER_GPU = 2
"""Jobs that run at once on a GPU. More would not be faster, because all threads share Python's lock."""


class _StoppedError(Exception):
    """Ends a job that nobody is waiting for any more."""


class Inline(Executor):
    """The executor that is simplest to debug, and that every other executor is compared with."""

    @classmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        return cls()

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        task = load_task(task_folder)
        at_once = jobs_at_once(jobs)
        if at_once == 1:
            for position, job in enumerate(jobs):
                yield self._run_job(task, position, job)
            return
        stopped = Event()
        waiting: deque[Future[Done | Failed]] = deque()
        with _threads(at_once, jobs[0].threads) as pool:
            try:
                for position, job in enumerate(jobs):
                    waiting.append(pool.submit(self._run_job, task, position, job, stopped))
                    # One more job than there are threads, so that no thread has to wait for the caller.
                    if len(waiting) > at_once:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                stopped.set()
                pool.shutdown(wait=False, cancel_futures=True)

    def _run_job(
        self, task: AlignmentTask, position: int, job: Job, stopped: Event | None = None
    ) -> Done | Failed:
        def on_steps(steps: Steps) -> None:
            if stopped is not None and stopped.is_set():
                raise _StoppedError
            if self.on_steps is not None:
                self.on_steps(steps)

        tries = Tries()
        while True:
            result = attempt(task, position, job, in_pieces=tries.in_pieces, on_steps=on_steps)
            if isinstance(result, Done):
                return result
            final = tries.add(result)
            if final is not None or (stopped is not None and stopped.is_set()):
                return final or result

    def __repr__(self) -> str:
        return "Inline()"


def jobs_at_once(jobs: Sequence[Job]) -> int:
    """How many of these jobs one process runs at once. This depends on the machine, and changes no result.

    On a CPU, as many as there are cores for; on a GPU, as many as `jobs_per_gpu` says. Jobs run one after the
    other if there is a memory limit, which is for one job, or if their model cannot run in threads.
    """
    if not jobs or jobs[0].memory is not None:
        return 1
    device = jobs[0].device
    if not run_in_threads((job.model for job in jobs), device):
        return 1
    most = cores() // jobs[0].threads if device == "cpu" else jobs_per_gpu(device, THREADS_PER_GPU)
    return max(min(most, len(jobs)), 1)


@contextmanager
def _threads(count: int, torch_threads: int) -> Iterator[ThreadPoolExecutor]:
    """Threads in which torch itself uses a given number of threads.

    One library that torch computes with keeps this number per thread, and another one per process, so it must
    be set to the same value in all threads before the first of them computes.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(torch_threads)
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(torch_threads,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)
