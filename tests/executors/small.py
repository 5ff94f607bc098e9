"""A small task, jobs on it, and the bytes of their results."""

from __future__ import annotations

from pathlib import Path

from divea.config import Settings
from divea.division import make_strategy
from divea.executors import Executor, Job, make_jobs
from divea.graphs import Links
from divea.graphs.planted import planted_pair
from divea.loop.loop import Work
from divea.types import Solved

TASK = planted_pair(120, 500, 5, 30, random_seed=4).task
SETTINGS = Settings.of(
    None,
    {
        "subtasks": 4,
        "size": 100,
        "division": {"name": "divea", "delta1": 0.5},
        "model.label-propagation": {"labels": 32, "heads": 8, "draft_heads": 8, "rounds": 2},
    },
)


def small_work() -> Work:
    """The first iteration: four subtasks."""
    return Work(0, TASK, make_strategy(TASK, SETTINGS).divide(TASK).subtasks, Links.from_pairs([]))


def small_jobs() -> list[Job]:
    """The jobs of the first iteration, one per subtask."""
    return make_jobs(small_work(), SETTINGS, device="cpu", memory=None, threads=1)


def result_bytes(solved: list[Solved]) -> list[bytes]:
    """The bytes of the results of one job."""
    return [
        array.tobytes()
        for item in solved
        for array in (
            item.matches.source,
            item.matches.target,
            item.matches.score,
            item.matches.mutual,
            item.top_sums,
        )
    ]


def run_jobs(executor: Executor, folder: Path, jobs: list[Job]) -> list[list[bytes]]:
    """The bytes of all results, in the order of the jobs, which must all be solved."""
    results = {result.position: result for result in executor.run(folder, jobs)}
    assert sorted(results) == list(range(len(jobs)))
    return [result_bytes(results[position].solved) for position in range(len(jobs))]
