"""The Ray executor: an existing cluster, or one of its own on this machine (`pip install divea[ray]`).

Jobs are Ray tasks: Ray places them, and this executor tries them again where a worker or a node is lost.
Nodes open the graphs in the run directory if they see it; otherwise they receive them through Ray's object
store. A cluster of its own listens on this machine's loopback interface only, and asks for a token.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, TypeVar

import numpy as np

from divea.config.executor import ExecutorSettings
from divea.errors import InputError, printable
from divea.executors.attempt import attempt
from divea.executors.base import Done, Executor, Failed, FailureKind, Tries
from divea.executors.job import Job
from divea.executors.ray_cluster import (
    CHECK_SECONDS,
    OwnCluster,
    answers,
    connect,
    disconnect,
    give_up,
    set_environment,
    start_cluster,
    within,
)
from divea.graphs import AlignmentTask, KnowledgeGraph, load_task
from divea.wording import worded

T = TypeVar("T")

CHECKS = 3
"""How many times in a row the cluster may fail to answer: the head node may be restarted."""

CALL_SECONDS = 30.0
"""Time that the head node has for one call."""

KILL_SECONDS = 10.0
"""Time after its timeout until a job that Python cannot interrupt is ended with its worker."""


class Ray(Executor):
    """Ray tasks on the cluster at `address` ("auto", "host:port"), or on a new one for `workers` jobs.

    A Ray that the caller has initialised is used as it is. `gpu_share` is the part of a GPU that a job
    uses: with 0.25, four share one. A job that takes longer than `timeout` seconds has failed.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        gpu_share: float = 1.0,
        timeout: float | None = None,
    ):
        self.workers, self.gpu_share, self.timeout = workers, gpu_share, timeout
        if "ray" not in sys.modules:
            set_environment(has_cluster=address is not None)
        try:
            import ray
        except ImportError as error:
            raise InputError("the executor 'ray' needs Ray: pip install 'divea[ray]'") from error
        self._must_shut_down = not ray.is_initialized()
        self._is_own_cluster = self._must_shut_down and address is None
        self._own_cluster: OwnCluster | None = None
        self.is_lost = False
        if self._must_shut_down and address is not None:
            connect(address)

    @classmethod
    def from_settings(cls, settings: ExecutorSettings) -> Self:
        return cls(
            settings.address,
            workers=settings.workers,
            gpu_share=settings.gpu_share,
            timeout=settings.timeout,
        )

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        import ray

        if not jobs:
            return
        if not ray.is_initialized():
            cpus = None if self.workers is None else self.workers * jobs[0].threads
            self._own_cluster = start_cluster(cpus)
        self.check_cluster()
        self._check_room(jobs[0])
        submitted = _Submitted(self, task_folder, jobs)
        tries = [Tries() for _ in jobs]
        for position in range(len(jobs)):
            submitted.add(position)
        try:
            while submitted.running:
                position, reference = submitted.next_ready()
                try:
                    result: Done | Failed | None = ray.get(reference)
                except ray.exceptions.LocalRayletDiedError:
                    raise self.lost_cluster() from None
                except ray.exceptions.RayError as error:
                    result = _failure(position, error)
                if result is None:
                    submitted.ship_graphs()
                    submitted.add(position)
                    continue
                if isinstance(result, Failed):
                    result = tries[position].add(result)
                    if result is None:
                        submitted.add(position, in_pieces=tries[position].in_pieces)
                        continue
                yield result
        finally:
            submitted.cancel()

    def folder_on_nodes(self, task_folder: Path) -> Path:
        """Where nodes look for the task."""
        return task_folder.resolve()

    def needs(self, job: Job) -> dict[str, Any]:
        """What a job requests from Ray. Ray must not retry it: this executor counts the tries."""
        needs: dict[str, Any] = {"num_cpus": job.threads, "max_retries": 0}
        if job.device != "cpu":
            needs["num_gpus"] = self.gpu_share
        elif job.memory is not None and not self._is_own_cluster:
            needs["memory"] = job.memory
        return needs

    def _check_room(self, job: Job) -> None:
        """Raise InputError if no node has room for a job: Ray would wait for ever."""
        import ray

        needs = self.needs(job)
        wanted = {"CPU": needs["num_cpus"], "GPU": needs.get("num_gpus", 0), "memory": needs.get("memory", 0)}
        nodes = [node["Resources"] for node in self.in_time(ray.nodes) if node["Alive"]]
        if not any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
            text = ", ".join(f"{amount} {name}" for name, amount in wanted.items() if amount)
            raise InputError(f"no node of the Ray cluster has room for a job: it takes {text}")

    def check_cluster(self) -> None:
        """Raise InputError if the head node does not answer, or this machine is no node of it any more.

        Ray would wait for it, and end this process.
        """
        import ray

        context = ray.get_runtime_context()
        for _ in range(CHECKS):
            if answers(context.gcs_address):
                own, nodes = context.get_node_id(), self.in_time(ray.nodes)
                if not any(node["Alive"] and node["NodeID"] == own for node in nodes):
                    raise self.lost_cluster()
                return
            time.sleep(CHECK_SECONDS)
        raise self.lost_cluster()

    def in_time(self, call: Callable[[], T]) -> T:
        """The result of a call to the cluster. Raises InputError if it takes too long."""
        try:
            return within(CALL_SECONDS, call)
        except TimeoutError:
            give_up()
            raise self.lost_cluster() from None

    def lost_cluster(self) -> InputError:
        """The error of a cluster that is lost, with which nothing more is tried."""
        import ray

        self.is_lost = True
        address = ray.get_runtime_context().gcs_address
        again = worded(command="the same command", python="the same call")
        return InputError(
            f"the Ray cluster at {address} is gone; what was solved is kept, and {again} continues the run"
        )

    def close(self) -> None:
        if self._must_shut_down:
            disconnect()
        if self._own_cluster is not None:
            self._own_cluster.end()
            self._own_cluster = None


def _failure(position: int, error: Exception) -> Failed:
    """What an error of Ray means for a job."""
    import ray

    first = printable((str(error).strip().splitlines() or [type(error).__name__])[0])
    kind = FailureKind.LOST_WORKER
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        kind = FailureKind.HOST_MEMORY
    elif isinstance(error, ray.exceptions.RayTaskError):
        kind = FailureKind.ERROR
    return Failed(position, kind, f"{kind}: {first}", str(error))


@dataclass(frozen=True)
class _Order:
    """What a node is told beside the job."""

    folder: Path
    fingerprint: tuple[int, ...]
    position: int
    timeout: float | None
    in_pieces: bool


class _Submitted:
    """The jobs that Ray is working on."""

    def __init__(self, executor: Ray, task_folder: Path, jobs: Sequence[Job]):
        self._executor, self._task_folder, self._jobs = executor, task_folder, jobs
        self._graphs: list[Any] = []
        self.running: dict[Any, int] = {}
        """The positions of the jobs, by Ray's references to their results."""

    def add(self, position: int, *, in_pieces: bool = False) -> None:
        import ray

        executor, job = self._executor, self._jobs[position]
        folder = executor.folder_on_nodes(self._task_folder)
        order = _Order(folder, _fingerprint(self._task_folder), position, executor.timeout, in_pieces)
        task = ray.remote(_run_on_node).options(**executor.needs(job))
        self.running[executor.in_time(lambda: task.remote(order, job, self._graphs))] = position

    def next_ready(self) -> tuple[int, Any]:
        """A job that Ray has finished with, whatever the result; waits until there is one."""
        import ray

        ready: list[Any] = []
        while not ready:
            ready, _ = ray.wait(list(self.running), num_returns=1, timeout=CHECK_SECONDS)
            self._executor.check_cluster()
        return self.running.pop(ready[0]), ready[0]

    def ship_graphs(self) -> None:
        """Put the graphs into Ray's object store, for nodes that do not see the run directory."""
        import ray

        if not self._graphs:
            self._graphs.append(ray.put(_without_attributes(load_task(self._task_folder))))

    def cancel(self) -> None:
        import ray

        for reference in () if self._executor.is_lost else self.running:
            ray.cancel(reference, force=True)


def _run_on_node(order: _Order, job: Job, graphs: list[Any]) -> Done | Failed | None:
    """Run a job on a node; None if the node does not see the graphs."""
    try:
        with _time_limit(order.timeout):
            if graphs:
                import ray

                task: AlignmentTask = ray.get(graphs[0])
            elif _fingerprint(order.folder) == order.fingerprint:
                task = _opened(order.folder, order.fingerprint)
            else:
                return None
            return attempt(task, order.position, job, in_pieces=order.in_pieces)
    except _TimeIsUp:
        kind = FailureKind.TIMEOUT
        reason = f"{kind}: the job took longer than {order.timeout:g} s"
        return Failed(order.position, kind, reason, f"{reason}\n{traceback.format_exc()}")


class _TimeIsUp(BaseException):
    """A job has reached its timeout; not an Exception, so that nothing on the way handles it."""


def _raise_time_is_up(number: int, frame: FrameType | None) -> NoReturn:
    raise _TimeIsUp


_WATCHDOG = """
import os, select, sys
if not select.select([0], [], [], float(sys.argv[1]))[0]:
    os.kill(int(sys.argv[2]), 9)
"""
"""A program that kills a process unless its standard input closes in time."""


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `_TimeIsUp` within the block when the time is up.

    A process outside of this one ends it a little later, if it is stopped or hangs in a library.
    """
    if seconds is None:
        yield
        return
    command = [sys.executable, "-S", "-c", _WATCHDOG, str(seconds + KILL_SECONDS), str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE):
        before = signal.signal(signal.SIGALRM, _raise_time_is_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


def _fingerprint(folder: Path) -> tuple[int, ...]:
    """Tells a shared folder from another folder of the same name."""
    try:
        found = [(folder / side / "triples.npy").stat() for side in ("source", "target")]
    except OSError:
        return ()
    return tuple(number for stat in found for number in (stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=1)
def _opened(folder: Path, fingerprint: tuple[int, ...]) -> AlignmentTask:
    return load_task(folder)


def _without_attributes(task: AlignmentTask) -> AlignmentTask:
    """The task as plain arrays, without attributes: subtasks need no more."""
    return replace(
        task,
        source=KnowledgeGraph(task.source.entities, task.source.relations, np.array(task.source.triples)),
        target=KnowledgeGraph(task.target.entities, task.target.relations, np.array(task.target.triples)),
    )
