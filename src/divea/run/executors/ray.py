"""The Ray executor: a cluster that exists, or one of its own on this machine (`pip install divea[ray]`).

Jobs are Ray tasks: Ray finds a place for each, and tries again where a worker or a node is lost. Nodes open
the graphs in the run directory where they see it; otherwise they get them through Ray's object store.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from divea.errors import InputError
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.storage import load_task
from divea.run.executors.attempt import TRIES, attempt
from divea.run.executors.worker import watched
from divea.run.jobs import Done, Failed, Job


class Ray:
    """Ray tasks on the cluster at `address` ("auto", "host:port"), or on one of `workers` cores here.

    `gpu_share` is the part of a GPU that a job takes: with 0.25, four run on one. A job that takes longer
    than `timeout` seconds has failed.
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
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            # Ray reports usage to its makers unless told otherwise.
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            own = {} if address else {"num_cpus": workers, "include_dashboard": False}
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING, **own)

    def run(self, task_folder: Path, jobs: Sequence[Job]) -> Iterator[Done | Failed]:
        import ray

        if jobs:
            self._check_room(jobs[0])
        graphs: list[Any] = []
        failures = [0] * len(jobs)
        logs: list[list[str]] = [[] for _ in jobs]
        running: dict[Any, _Order] = {}

        def submit(position: int, *, in_pieces: bool = False) -> None:
            folder, mark = self.folder_on_nodes(task_folder), _mark(task_folder)
            order = _Order(folder, mark, position, self.timeout, in_pieces)
            task = ray.remote(_do).options(**self._needs(jobs[position], in_pieces=in_pieces))
            running[task.remote(order, jobs[position], graphs)] = order

        for position in range(len(jobs)):
            submit(position)
        try:
            while running:
                (reference,), _ = ray.wait(list(running), num_returns=1)
                order = running.pop(reference)
                position, tries, is_lost = order.position, 1, False
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayError as error:
                    result, is_lost = Failed(position, str(error)), True
                    tries += self._needs(jobs[position], in_pieces=order.in_pieces)["max_retries"]
                if result is None:
                    if not graphs:
                        graphs.append(ray.put(_bare(load_task(task_folder))))
                    submit(position)
                    continue
                if isinstance(result, Failed):
                    failures[position] += tries
                    logs[position].append(result.log)
                    if failures[position] < TRIES:
                        # A worker lost twice over the same job: most likely there is no room for it.
                        submit(position, in_pieces=is_lost)
                        continue
                    result = Failed(position, "\n".join(logs[position]))
                yield result
        finally:
            for reference in running:
                ray.cancel(reference, force=True)

    def folder_on_nodes(self, task_folder: Path) -> Path:
        """Where nodes look for the task."""
        return task_folder.resolve()

    def _needs(self, job: Job, *, in_pieces: bool) -> dict[str, Any]:
        # Lost workers and nodes are Ray's to notice, all tries but the last, which is in pieces.
        needs: dict[str, Any] = {"num_cpus": job.threads, "max_retries": 0 if in_pieces else TRIES - 2}
        if job.device != "cpu":
            needs["num_gpus"] = self.gpu_share
        elif job.memory is not None:
            needs["memory"] = job.memory
        return needs

    def _check_room(self, job: Job) -> None:
        """Ray waits for ever for a node that a job fits on; say so instead."""
        import ray

        needs = self._needs(job, in_pieces=False)
        wanted = {"CPU": needs["num_cpus"], "GPU": needs.get("num_gpus", 0), "memory": needs.get("memory", 0)}
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if not any(all(node.get(name, 0) >= amount for name, amount in wanted.items()) for node in nodes):
            text = ", ".join(f"{amount} {name}" for name, amount in wanted.items() if amount)
            raise InputError(f"no node of the Ray cluster has room for a job: it takes {text}")

    def close(self) -> None:
        import ray

        if self._is_ours:
            ray.shutdown()


@dataclass(frozen=True)
class _Order:
    """What a node is told beside the job."""

    folder: Path
    mark: tuple[int, ...]
    position: int
    timeout: float | None
    in_pieces: bool


def _do(order: _Order, job: Job, graphs: list[Any]) -> Done | Failed | None:
    """Runs on a node. None where the graphs are not to be seen from there."""
    with watched(order.timeout):
        if graphs:
            import ray

            task: AlignmentTask = ray.get(graphs[0])
        elif _mark(order.folder) == order.mark:
            task = _opened(order.folder, order.mark)
        else:
            return None
        return attempt(task, order.position, job, in_pieces=order.in_pieces)


def _mark(folder: Path) -> tuple[int, ...]:
    """Tells a shared folder from another one of the same name."""
    try:
        found = [(folder / side / "triples.npy").stat() for side in ("source", "target")]
    except OSError:
        return ()
    return tuple(number for stat in found for number in (stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=1)
def _opened(folder: Path, mark: tuple[int, ...]) -> AlignmentTask:
    return load_task(folder)


def _bare(task: AlignmentTask) -> AlignmentTask:
    """The task as plain arrays, without attributes: what a subtask is cut from."""
    return replace(
        task,
        source=KnowledgeGraph(task.source.entities, task.source.relations, np.array(task.source.triples)),
        target=KnowledgeGraph(task.target.entities, task.target.relations, np.array(task.target.triples)),
    )
