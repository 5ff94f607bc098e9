"""The time of subtasks on a GPU, and how busy it is, by the number of jobs at once, in threads or processes.

Every number of jobs solves the same subtasks and should give the same results. Models that train would not do
so in threads of one process, so only other models run in threads (`Model.in_threads`). The share of time in
which the GPU computes something is sampled by `nvidia-smi`. Worker processes have done a job each before the
measurement.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.common import Figures, Needs, add_random_seed, synthetic_pair
from benchmarks.common.watching import gpu_use
from divea.config import DivisionSettings, ModelSettings, Settings
from divea.division import DivEA
from divea.errors import InputError
from divea.executors import Executor, Failed, Job, inline, make_jobs
from divea.executors.local import Local
from divea.graphs import Links, load_task
from divea.io import checksum
from divea.loop.loop import Work
from divea.models import make_model

NEEDS = Needs("none", "GPU", "3 min")

MODELS: dict[str, dict[str, Any]] = {
    "label-propagation": {},
    "rrea": {"loss": "hard", "steps": 60},
    "dual-amn": {},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entities", type=int, default=400_000, help="entities of each graph")
    parser.add_argument("--subtasks", type=int, default=40)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["label-propagation", "rrea"])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--processes", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--device", default="cuda")
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    columns = {
        "model": "",
        "jobs at once": "",
        "in": "",
        "time": "s",
        "per subtask": "s",
        "same results": "",
        "GPU busy": "%",
    }
    table = figures.table("subtasks on a GPU", columns)
    with tempfile.TemporaryDirectory(prefix="divea-gpu-jobs-") as folder:
        place = synthetic_pair(Path(folder), options.entities) / "task"
        task = load_task(place)
        size = (task.source.num_entities + task.target.num_entities) // options.subtasks
        division = DivEA(options.subtasks, size, DivisionSettings(delta1=0.5), options.random_seed).divide(
            task
        )
        work = Work(0, task, division.subtasks, Links.from_pairs([]))
        for name in options.models:
            model = ModelSettings.checked({"name": name, name: MODELS[name]})
            settings = Settings(subtasks=options.subtasks, model=model)
            jobs = make_jobs(work, settings, device=options.device, memory=None, threads=1)
            expected = None
            ways = [
                *(("threads", at_once) for at_once in options.threads),
                *(("processes", at_once) for at_once in options.processes),
            ]
            for way, at_once in ways:
                found, seconds, busy = measured(place, jobs, way, at_once)
                expected = expected or found
                if found != expected and (way == "processes" or make_model(model).in_threads):
                    figures.fail(f"{name}: other results with {at_once} jobs at once in {way}")
                table.add(
                    {
                        "model": name,
                        "jobs at once": at_once,
                        "in": way,
                        "time": round(seconds, 2),
                        "per subtask": round(seconds / options.subtasks, 3),
                        "same results": found == expected,
                        "GPU busy": round(sum(busy) / len(busy), 1) if busy else None,
                    }
                )
    return figures


def measured(place: Path, jobs: list[Job], way: str, at_once: int) -> tuple[list[str], float, list[int]]:
    """The checksums of all results, the seconds, and samples of the use of the GPU."""
    executor: Executor = Local(at_once) if way == "processes" else inline.Inline()
    try:
        with mock.patch.object(inline, "jobs_at_once", lambda jobs: at_once):
            solve(executor, place, jobs[:at_once])  # compiles kernels, and starts workers
            with gpu_use() as samples:
                start = time.perf_counter()
                found = solve(executor, place, jobs)
                seconds = time.perf_counter() - start
    finally:
        executor.close()
    return found, seconds, [use for _, use in samples]


def solve(executor: Executor, task_folder: Path, jobs: list[Job]) -> list[str]:
    """The checksums of all results, in the order of the jobs."""
    sums: dict[int, list[str]] = {}
    for result in executor.run(task_folder, jobs):
        if isinstance(result, Failed):
            raise InputError(result.reason)
        sums[result.position] = [
            checksum(one.matches.target, one.matches.score, one.top_sums) for one in result.solved
        ]
    return [one for position in sorted(sums) for one in sums[position]]
