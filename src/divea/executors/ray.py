"""The Ray executor: an existing cluster, or one of its own on this machine (`pip install divea[ray]`).

Jobs are Ray tasks: Ray places them, and tries them again where a worker or a node is lost. Nodes open the
graphs in the run directory if they see it; otherwise they receive them through Ray's object store.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from divea.config.executor import ExecutorSettings
from divea.errors import InputError
from divea.executors.attempt import attempt
from divea.executors.base import TRIES, Done, Executor, Failed
from divea.executors.job import Job
from divea.executors.worker import time_limit
from divea.graphs import AlignmentTask, KnowledgeGraph, load_task


class Ray(Executor):
    """Ray tasks on the cluster at `address` ("auto", "host:port"), or on a new one with `workers` cores.

    `gpu_share` is the part of a GPU that a job takes: with 0.25, four share one. A job that takes longer than
    `timeout` seconds has failed.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        gpu_share: float = 1.0,
        timeout: float | None = None,
    ):
        try:
            import ray
        except ImportError as error:
            raise InputError("the executor 'ray' needs Ray: pip install 'divea[ray]'") from error
        self.gpu_share, self.timeout = gpu_share, timeout
        self._owns_cluster = not ray.is_initialized()
        if self._owns_cluster:
            # Ray reports usage to its makers unless told otherwise.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            own = {} if address else {"num_cpus": workers, "include_dashboard": False}
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, **own)

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
        self._check_room(jobs[0])
        submitted = _Submitted(self, task_folder, jobs)
        for position in range(len(jobs)):
            submitted.add(position)
        failures = [0] * len(jobs)
        logs: list[list[str]] = [[] for _ in jobs]
        try:
            while submitted.running:
                order, reference = submitted.next_ready()
                position = order.position
                try:
                    result: Done | Failed | None = ray.get(reference)
                    tries, is_lost = 1, False
                except ray.exceptions.RayError as error:
                    result = Failed(position, str(error))
                    tries, is_lost = 1 + _retries_by_ray(order.in_pieces), True
                if result is None:
                    submitted.ship_graphs()
                    submitted.add(position)
                    continue
                if isinstance(result, Failed):
                    failures[position] += tries
                    logs[position].append(result.log)
                    if failures[position] < TRIES:
                        # A worker was lost twice over the same job: most likely there is no memory for it.
                        submitted.add(position, in_pieces=is_lost)
                        continue
                    result = Failed(position, "\n".join(logs[position]))
                yield result
        finally:
            submitted.cancel()

    def folder_on_nodes(self, task_folder: Path) -> Path:
        """Where nodes look for the task."""
        return task_folder.resolve()

    def needs(self, job: Job, *, in_pieces: bool) -> dict[str, Any]:
        """What Ray is asked for to run a job."""
        needs: dict[str, Any] = {"num_cpus": job.threads, "max_retries": _retries_by_ray(in_pieces)}
        if job.device != "cpu":
            needs["num_gpus"] = self.gpu_share
        elif job.memory is not None:
            needs["memory"] = job.memory
        return needs

    def _check_room(self, job: Job) -> None:
        """Raise InputError if no node has room for a job: Ray would wait for ever."""
        import ray

        needs = self.needs(job, in_pieces=False)
        wanted = {"CPU": needs["num_cpus"], "GPU": needs.get("num_gpus", 0), "memory": needs.get("memory", 0)}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
            text = ", ".join(f"{amount} {name}" for name, amount in wanted.items() if amount)
            raise InputError(f"no node of the Ray cluster has room for a job: it takes {text}")

    def close(self) -> None:
        import ray

        if self._owns_cluster:
            ray.shutdown()


def _retries_by_ray(in_pieces: bool) -> int:
    """Ray itself retries lost workers and nodes, in all tries but the last, which is in pieces."""
    return 0 if in_pieces else TRIES - 2


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
        self.running: dict[Any, _Order] = {}

    def add(self, position: int, *, in_pieces: bool = False) -> None:
        import ray

        executor, job = self._executor, self._jobs[position]
        folder = executor.folder_on_nodes(self._task_folder)
        order = _Order(folder, _fingerprint(self._task_folder), position, executor.timeout, in_pieces)
        task = ray.remote(_run_on_node).options(**executor.needs(job, in_pieces=in_pieces))
        self.running[task.remote(order, job, self._graphs)] = order

    def next_ready(self) -> tuple[_Order, Any]:
        import ray

        (reference,), _ = ray.wait(list(self.running), num_returns=1)
        return self.running.pop(reference), reference

    def ship_graphs(self) -> None:
        """Put the graphs into Ray's object store, for nodes that do not see the run directory."""
        import ray

        if not self._graphs:
            self._graphs.append(ray.put(_without_attributes(load_task(self._task_folder))))

    def cancel(self) -> None:
        import ray

        for reference in self.running:
            ray.cancel(reference, force=True)


def _run_on_node(order: _Order, job: Job, graphs: list[Any]) -> Done | Failed | None:
    """Run a job on a node; None if the node does not see the graphs."""
    with time_limit(order.timeout):
        if graphs:
            import ray

            task: AlignmentTask = ray.get(graphs[0])
        elif _fingerprint(order.folder) == order.fingerprint:
            task = _opened(order.folder, order.fingerprint)
        else:
            return None
        return attempt(task, order.position, job, in_pieces=order.in_pieces)


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
