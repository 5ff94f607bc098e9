"""Throughput of local workers: the same jobs with one worker and with two (or more), in turns.

    python benchmarks/workers.py PAIR --workers 1 2

PAIR is a folder of `divea synth`. Each count does all jobs `--repeats` times; workers are started, and have
done a job each, before the clock is. The best time of each count is compared, and so are the bytes.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from divea.alignment.loop import Work
from divea.alignment.settings import Settings
from divea.division import DivEA
from divea.graphs import Links, load_task
from divea.run.executors.local import Local
from divea.run.jobs import Done, Job, jobs_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--size", type=int, default=3000, help="entities of a subtask")
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--model", default="label-propagation")
    options = parser.parse_args()
    task = load_task(options.pair / "task")
    parts = -(-(task.source.num_entities + task.target.num_entities) // options.size)
    subtasks = DivEA(parts, options.size, delta1=0.45, delta2=0.0).divide(task).subtasks[: options.jobs]
    work = Work(0, task, subtasks, Links.from_pairs([]))
    jobs = jobs_of(work, Settings(model=options.model), device="cpu", memory=None, threads=1)
    executors = {count: Local(count) for count in options.workers}
    best = dict.fromkeys(options.workers, float("inf"))
    seen = set()
    for count, executor in executors.items():
        run(executor, options.pair, jobs[:1] * count)
    for repeat in range(options.repeats):
        for count, executor in executors.items():
            start = time.perf_counter()
            seen.add(run(executor, options.pair, jobs))
            seconds = time.perf_counter() - start
            best[count] = min(best[count], seconds)
            print(f"round {repeat}: {count} workers, {len(jobs)} jobs, {seconds:.2f} s", flush=True)
    for executor in executors.values():
        executor.close()
    one = best[options.workers[0]]
    for count, seconds in best.items():
        print(f"{count} workers: {len(jobs) / seconds:.2f} jobs/s, {one / seconds:.2f} times the first")
    print("identical bytes" if len(seen) == 1 else "THE BYTES DIFFER")


def run(executor: Local, pair: Path, jobs: list[Job]) -> tuple[bytes, ...]:
    results = {}
    for result in executor.run(pair / "task", jobs):
        assert isinstance(result, Done), result.log
        results[result.position] = result.solved
    return tuple(solved.matches.score.tobytes() for place in range(len(jobs)) for solved in results[place])


if __name__ == "__main__":
    main()
