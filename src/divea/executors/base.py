"""What an executor is, and how the executor of a run is chosen."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

from divea.config.executor import ExecutorSettings
from divea.errors import InputError, SubtaskError
from divea.executors.job import Job, Rehearsal
from divea.loop.lists import Mapper
from divea.registry import EXECUTORS
from divea.resources.budget import UNLIMITED_JOB_MEMORY
from divea.resources.machine import cores, free_gpu_memory, gpus
from divea.resources.row_blocks import in_threads
from divea.types import Solved
from divea.wording import worded

TRIES = 3
"""How often a job is tried before it counts as failed, if the reason may lie in the job."""

LOSSES = 20
"""How often the worker of a job may be lost. A loss is not the job's fault, and is no reason to solve it in
another way, but a job that always takes its worker with it must fail in the end."""


class FailureKind(StrEnum):
    """Why a job failed."""

    LOST_WORKER = "lost worker"
    """The process or machine ended for a reason outside the job: for example, it was killed."""
    STOPPED_WORKER = "stopped worker"
    """The process was stopped (SIGSTOP) for longer than the timeout."""
    TIMEOUT = "timeout"
    HOST_MEMORY = "out of host memory"
    """The system had no more memory, or its OOM killer ended the process."""
    GPU_MEMORY = "out of GPU memory"
    MEMORY_LIMIT = "out of the memory limit"
    """The job's own limit (`Job.memory`) was reached, and its smallest pieces do not fit either."""
    ERROR = "error"
    """An exception, or a crash of a library."""


LOSS = (FailureKind.LOST_WORKER, FailureKind.STOPPED_WORKER)


@dataclass(frozen=True)
class Done:
    """The results of a job, in the order of its subtasks, and what they cost."""

    position: int
    """The job's position among those given to the executor."""
    solved: list[Solved]
    notes: tuple[str, ...] = ()
    """What was done differently from what was asked, for the user."""
    seconds: float = 0.0
    peak_memory: int = 0
    """The most bytes that the process that ran the job has held so far."""
    peak_gpu_memory: int = 0
    divided: bool = False
    """Whether memory ran out and a subtask was divided further, so that more memory would give another
    result."""


@dataclass(frozen=True)
class Failed:
    """A job that failed: once, as `attempt` returns it, or in every try, as an executor yields it."""

    position: int
    kind: FailureKind
    reason: str
    """What happened, in one line."""
    log: str
    """What is known about every try: tracebacks and what the worker printed."""


class Tries:
    """The failures of one job, which decide whether and how it is tried again."""

    def __init__(self) -> None:
        self._failures: list[Failed] = []

    def add(self, failure: Failed) -> Failed | None:
        """Count a failure. Returns None if the job is to be tried again, otherwise the failure to yield."""
        self._failures.append(failure)
        losses = sum(found.kind in LOSS for found in self._failures)
        own = len(self._failures) - losses
        if own < TRIES and losses < LOSSES:
            return None
        times = losses if failure.kind in LOSS else own
        reason = f"{failure.reason} ({times} times)" if times > 1 else failure.reason
        return replace(failure, reason=reason, log="\n".join(found.log for found in self._failures))

    @property
    def in_pieces(self) -> bool:
        """Whether the next try divides the subtasks from the start: host memory ran out in two tries."""
        return sum(found.kind == FailureKind.HOST_MEMORY for found in self._failures) > 1


def failed_piece(failure: Failed) -> SubtaskError:
    """The error of a piece of learning or writing that failed in every try."""
    return SubtaskError(f"learning or writing failed: {failure.reason}; {continues()} the run")


def continues() -> str:
    """What continues a run, for messages."""
    return worded(command="the same command continues", python="the same call continues")


@dataclass(frozen=True)
class Steps:
    """How far the model of a job has trained; only for displays of progress."""

    position: int
    """The job's position among those given to the executor."""
    done: int
    all: int


class Executor(ABC):
    """Runs jobs. `check_executor` checks the contract."""

    on_steps: Callable[[Steps], None] | None = None
    """Called about once a second while the model of a job trains, if set and if the executor supports it."""

    results_folder: Path | None = None
    """A folder where other processes may leave results as temporary files, if they see it. The caller moves
    or removes the files. None: all results are sent."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        """Make the executor from its settings."""

    @abstractmethod
    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        """Yield one result per job, in any order, as soon as each is ready.

        A job that fails is tried again as `Tries` says, and finally yields `Failed`; it does not delay the
        others.

        Parameters
        ----------
        task_folder
            The folder of the task, as `divea.graphs.save_task` writes it.
        """

    def prepare(self, task_folder: Path, threads: int = 1, rehearsal: Rehearsal | None = None) -> None:
        """Start anything that takes a while, such as a process, before there are jobs for it.

        Parameters
        ----------
        task_folder
            The folder of the task.
        threads
            The threads of each job.
        rehearsal
            A tiny job, for processes that wait for their first real one.
        """
        return

    def mapper(self, task_folder: Path) -> Mapper:
        """Return what applies a function to pieces of the ranked lists of a run: threads of this process.

        An executor with other processes or machines overrides it, so that they do this work too.

        Parameters
        ----------
        task_folder
            The folder of the task, in the run directory. Pieces are files beside it.
        """
        return in_threads

    def close(self) -> None:
        """Release processes or a cluster. May be called twice."""
        return


PROCESSES_PER_GPU = 2
"""Worker processes that share a GPU: while the GPU computes the job of one, the other prepares its own. A
third process takes another GiB of host memory and saves hardly any time (docs/notes/scale.md)."""

WORTH_PROCESSES = 10_000
"""The number of entities from which worker processes are worth the time it takes to start them."""

WORTH_PROCESSES_ON_GPU = 1_000_000
"""The same on a GPU, where subtasks take far less time."""

FEW_CORES = 4
"""The most cores with which threads of this process are as fast as worker processes; they take less memory.
The threads of more jobs would wait for Python's lock."""


def make_executor(settings: ExecutorSettings) -> Executor:
    """The executor that the settings name.

    >>> make_executor(ExecutorSettings(name="inline"))
    Inline()
    """
    executor: type[Executor] = EXECUTORS.load(settings.name)
    return executor.from_settings(settings)


def choose_executor(
    settings: ExecutorSettings,
    *,
    subtasks: int,
    entities: int,
    device: str,
    has_memory_limit: bool,
    in_threads: bool,
) -> ExecutorSettings:
    """Fill in what the settings leave open: the executor, and the number of workers.

    A limit on host memory applies to all processes together. A worker process would take a third of a GiB
    away from the jobs, and so change what fits: with a limit, only `inline` and a cluster are allowed.

    Parameters
    ----------
    has_memory_limit
        Whether there is a limit on the memory of the device.
    in_threads
        Whether the models can solve several jobs at once in threads of one process.
    """
    is_asked_for = settings.workers is not None or settings.timeout is not None
    is_local = settings.name == "local" or (settings.name == "auto" and is_asked_for)
    if has_memory_limit and device == "cpu" and is_local:
        raise InputError(
            "executor: a memory limit is on all processes together and leaves no room for worker processes; "
            "leave out local, workers and timeout, or the limit"
        )
    name, workers = settings.name, settings.workers
    if workers is None and (device == "cpu" or name in ("auto", "local")):
        workers = min(_most_workers(device, has_memory_limit), subtasks)
    if name == "auto":
        is_worth_it = entities >= (WORTH_PROCESSES if device == "cpu" else WORTH_PROCESSES_ON_GPU)
        is_enough = device == "cpu" and in_threads and cores() <= FEW_CORES
        is_worth_it &= workers is not None and workers > 1 and not is_enough
        name = "local" if is_worth_it or is_asked_for else "inline"
    return settings.model_copy(update={"name": name, "workers": None if name == "inline" else workers})


def _most_workers(device: str, has_memory_limit: bool) -> int:
    """The number of worker processes that the cores, or the GPUs and their memory, are enough for."""
    if device == "cpu":
        return 1 if has_memory_limit else cores()
    return gpus() * (1 if has_memory_limit else jobs_per_gpu(device, PROCESSES_PER_GPU))


def jobs_per_gpu(device: str, most: int) -> int:
    """How many jobs a GPU works on at once: `most`, or fewer if its memory is short.

    They must fit into its memory with room to spare. A job that runs out of memory because of another one
    would be divided further, and give another result.
    """
    return max(min(most, free_gpu_memory(device) // (4 * UNLIMITED_JOB_MEMORY[device])), 1)
