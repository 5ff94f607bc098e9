"""The Ray executor: an existing cluster, or a new one on this machine (`pip install divea[ray]`).

Jobs are Ray tasks: Ray places them, and this executor tries them again if a worker or a node is lost. Nodes
open the graphs in the run directory if they see it; otherwise they receive them through Ray's object store.
A new cluster listens on this machine's loopback interface only, and requires a token.
"""

from __future__ import annotations

import pickle
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from divea.config.executor import ExecutorSettings
from divea.errors import InputError, printable
from divea.executors.base import Done, Executor, Failed, FailureKind, Tries, continues, failed_piece
from divea.executors.job import Job, Rehearsal
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
from divea.executors.ray_node import Order, call_on_node, run_on_node
from divea.graphs import AlignmentTask, KnowledgeGraph, load_task
from divea.graphs.storage import fingerprint
from divea.loop.lists import Mapper

T = TypeVar("T")
Item = TypeVar("Item")
Result = TypeVar("Result")

_ITEMS_PER_CORE = 3
"""Items of a mapped function that are submitted ahead, for each core of the cluster."""

CHECKS = 3
"""How many times in a row the cluster may fail to answer: the head node may be restarting."""

CALL_SECONDS = 30.0
"""Time that the head node has to answer one call."""


class Ray(Executor):
    """Runs jobs on the Ray cluster at `address` ("auto", "host:port"), or on a new one for `workers` jobs.

    If the caller has initialised Ray, that cluster is used. `gpu_share` is the share of a GPU that a job
    takes: with 0.25, four jobs share one. A job that takes longer than `timeout` seconds fails.
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
        self._threads = 1
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

    def prepare(self, task_folder: Path, threads: int = 1, rehearsal: Rehearsal | None = None) -> None:
        # A cluster of our own is sized by the jobs, even if it starts with calls of functions.
        self._threads = threads

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        import ray

        if not jobs:
            return
        self._threads = max(self._threads, jobs[0].threads)
        self._require_cluster()
        self._check_room(jobs[0])
        submitted = _Jobs(self, task_folder, jobs)
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

    def mapper(self, task_folder: Path) -> Mapper:
        def map_on_nodes(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
            return self._map(task_folder, function, items)

        return map_on_nodes

    def _map(
        self, task_folder: Path, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[Result]:
        """Apply a function to items on the nodes; results are yielded in order.

        A node that does not see the run directory leaves its items to this process. Only a few items are
        submitted ahead of the results that were taken, so that few results wait in memory.
        """
        import ray

        if not items:
            return
        self._require_cluster()
        calls = _Calls(self, task_folder, function, items)
        tries = [Tries() for _ in items]
        ahead = _ITEMS_PER_CORE * max(int(self.in_time(ray.cluster_resources).get("CPU", 1)), 1)
        results: dict[int, Result] = {}
        added = 0
        try:
            for position in range(len(items)):
                while added < min(position + ahead, len(items)):
                    calls.add(added)
                    added += 1
                while position not in results:
                    ready, reference = calls.next_ready()
                    try:
                        found = ray.get(reference)
                        results[ready] = function(items[ready]) if found is None else found[0]
                    except ray.exceptions.LocalRayletDiedError:
                        raise self.lost_cluster() from None
                    except ray.exceptions.RayTaskError as error:
                        # The function would raise it in any process.
                        raise error.cause from None
                    except ray.exceptions.RayError as error:
                        failed = tries[ready].add(_failure(ready, error))
                        if failed is not None:
                            raise failed_piece(failed) from None
                        calls.add(ready)
                yield results.pop(position)
        finally:
            calls.cancel()

    def _require_cluster(self) -> None:
        """Start a cluster if there is none yet, and check that it answers."""
        import ray

        if not ray.is_initialized():
            cpus = None if self.workers is None else self.workers * self._threads
            self._own_cluster = start_cluster(cpus)
        self.check_cluster()

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
        """Raise InputError if the head node does not answer, or if this machine is no longer a node.

        Ray itself would wait for the head node, and then end this process.
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
        """Mark the cluster as lost, and return the error to raise."""
        import ray

        self.is_lost = True
        address = ray.get_runtime_context().gcs_address
        return InputError(
            f"the Ray cluster at {address} is gone; what was solved is kept, and {continues()} the run"
        )

    def close(self) -> None:
        if self._must_shut_down:
            disconnect()
        if self._own_cluster is not None:
            self._own_cluster.end()
            self._own_cluster = None


def _failure(position: int, error: Exception) -> Failed:
    """Turn an error of Ray into the failure of a job."""
    import ray

    first = printable((str(error).strip().splitlines() or [type(error).__name__])[0])
    kind = FailureKind.LOST_WORKER
    if isinstance(error, ray.exceptions.OutOfMemoryError):
        kind = FailureKind.HOST_MEMORY
    elif isinstance(error, ray.exceptions.RayTaskError):
        kind = FailureKind.ERROR
    return Failed(position, kind, f"{kind}: {first}", str(error))


class _Submitted(ABC):
    """The work that Ray has been given."""

    def __init__(self, executor: Ray, task_folder: Path):
        self._executor, self._task_folder = executor, task_folder
        self.running: dict[Any, int] = {}
        """Positions, by Ray's references to the results."""

    def add(self, position: int, *, in_pieces: bool = False) -> None:
        """Submit the job or item at this position."""
        self.running[self._executor.in_time(lambda: self._submit(position, in_pieces))] = position

    @abstractmethod
    def _submit(self, position: int, in_pieces: bool) -> Any: ...

    @property
    def _folder(self) -> Path:
        return self._executor.folder_on_nodes(self._task_folder)

    def next_ready(self) -> tuple[int, Any]:
        """Wait until Ray has finished one; return its position and the reference to its result."""
        import ray

        ready: list[Any] = []
        while not ready:
            ready, _ = ray.wait(list(self.running), num_returns=1, timeout=CHECK_SECONDS)
            self._executor.check_cluster()
        return self.running.pop(ready[0]), ready[0]

    def cancel(self) -> None:
        import ray

        for reference in () if self._executor.is_lost else self.running:
            ray.cancel(reference, force=True)


class _Jobs(_Submitted):
    """Jobs that Ray is working on."""

    def __init__(self, executor: Ray, task_folder: Path, jobs: Sequence[Job]):
        super().__init__(executor, task_folder)
        self._jobs = jobs
        self._graphs: list[Any] = []

    def _submit(self, position: int, in_pieces: bool) -> Any:
        import ray

        executor, job = self._executor, self._jobs[position]
        order = Order(
            self._folder,
            fingerprint(self._task_folder),
            position,
            executor.timeout,
            in_pieces,
            executor.results_folder,
        )
        task = ray.remote(run_on_node).options(**executor.needs(job))
        return task.remote(order, job, self._graphs)

    def ship_graphs(self) -> None:
        """Put the graphs into Ray's object store, for nodes that do not see the run directory."""
        import ray

        if not self._graphs:
            self._graphs.append(ray.put(_without_attributes(load_task(self._task_folder))))


class _Calls(_Submitted):
    """Calls of one function that Ray is working on."""

    def __init__(
        self, executor: Ray, task_folder: Path, function: Callable[[Item], object], items: Sequence[Item]
    ):
        import ray

        super().__init__(executor, task_folder)
        self._items, self._fingerprint = items, fingerprint(task_folder)
        # A function may hold arrays that all calls need, so it is sent to each node once. Functions and
        # items are sent as bytes, because only a node that sees the run directory can unpickle them.
        self._function = executor.in_time(lambda: ray.put(pickle.dumps(function)))
        self._remote = ray.remote(call_on_node).options(num_cpus=1, max_retries=0)

    def _submit(self, position: int, in_pieces: bool) -> Any:
        item = pickle.dumps(self._items[position])
        return self._remote.remote(self._folder, self._fingerprint, self._function, item)


def _without_attributes(task: AlignmentTask) -> AlignmentTask:
    """The task as plain arrays, without attributes: subtasks need no more."""
    return replace(
        task,
        source=KnowledgeGraph(task.source.entities, task.source.relations, np.array(task.source.triples)),
        target=KnowledgeGraph(task.target.entities, task.target.relations, np.array(task.target.triples)),
    )
