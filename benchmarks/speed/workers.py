"""Throughput of local workers: the same jobs with one worker and with more, in turns.

Subtasks of a synthetic pair, one thread per job. Workers are started, and have done a job each, before the
measurement starts. All numbers of workers must give the same bytes.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from benchmarks.common import Figures, Needs, add_pairs, add_rounds, in_turns, measure, synthetic_pair
from divea.config import DivisionSettings, Settings
from divea.division import DivEA
from divea.executors import Done, Job, make_jobs
from divea.executors.local import Local
from divea.graphs import Links, load_task
from divea.loop.loop import Work

NEEDS = Needs("synthetic pairs", "CPU", "2 min")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    parser.add_argument("--entities", type=int, default=100_000, help="entities of each graph")
    parser.add_argument("--size", type=int, default=3000, help="entities of a subtask")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--model", default="label-propagation")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    table = figures.table("workers", {"workers": "", "time": "s", "throughput": "jobs/s", "speed-up": ""})
    folder = synthetic_pair(options.pairs, options.entities) / "task"
    jobs = some_jobs(folder, options)
    executors = {count: Local(count) for count in options.workers}
    try:
        for count, executor in executors.items():
            solve(executor, folder, jobs[:1] * count)
        works = {
            str(count): partial(measure, partial(solve, executor, folder, jobs))
            for count, executor in executors.items()
        }
        found = in_turns(works, options.rounds)
    finally:
        for executor in executors.values():
            executor.close()
    first = found[str(options.workers[0])]
    for count, rounds in found.items():
        table.add(
            {
                "workers": int(count),
                "time": rounds.seconds,
                "throughput": len(jobs) / rounds.seconds.median,
                "speed-up": first.times(rounds),
            }
        )
    results = [result for rounds in found.values() for result in rounds.results]
    if any(result != results[0] for result in results):
        figures.fail("the bytes of the results differ")
    return figures


def some_jobs(folder: Path, options: argparse.Namespace) -> list[Job]:
    task = load_task(folder)
    parts = -(-(task.source.num_entities + task.target.num_entities) // options.size)
    division = DivEA(parts, options.size, DivisionSettings(delta1=0.45)).divide(task)
    work = Work(0, task, division.subtasks[: options.jobs], Links.from_pairs([]))
    settings = Settings.of(None, {"model": options.model, "features": "none"})
    return make_jobs(work, settings, device="cpu", memory=None, threads=1)


def solve(executor: Local, folder: Path, jobs: list[Job]) -> list[bytes]:
    """The bytes of the scores of every subtask, in order."""
    results = {}
    for result in executor.run(folder, jobs):
        if not isinstance(result, Done):
            raise RuntimeError(result.log)
        results[result.position] = [solved.matches.score.tobytes() for solved in result.solved]
    return [score for position in range(len(jobs)) for score in results[position]]
