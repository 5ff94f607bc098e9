"""What a run that is killed again and again repeats, and how long it takes to end after its last subtask.

One run is killed with SIGKILL at random moments, which are spread over its whole duration, and started again
each time. A stage that was complete before a kill is looked up afterwards, not repeated: its time before and
after is printed. A second run is killed once, when its last subtask is solved. Both must end with the tables
of a run that was not disturbed, byte for byte.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks.common import Figures, Needs, add_random_seed, say, synthetic_pair
from benchmarks.robustness.crash import Run, check, kill
from divea.errors import InputError
from divea.registry import EXECUTORS
from divea.runs.layout import LOG

NEEDS = Needs("none", "CPU", "20 min")

SETTINGS = (
    "matching.average=3",
    "model.label-propagation.labels=128",
    "model.label-propagation.heads=64",
    "model.label-propagation.draft_heads=64",
    "model.label-propagation.rounds=2",
)

STAGES = ("divide", "solve", "learn", "merge")
"""The stages whose results are kept. Tables are written again as a whole."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entities", type=int, default=200_000, help="entities of each graph")
    parser.add_argument("--subtasks", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--kills", type=int, default=20, help="kills at random moments")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--executor", choices=EXECUTORS.names(), default="auto")
    parser.add_argument("--workers", type=int)
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    chosen = (f"subtasks={options.subtasks}", f"iterations={options.iterations}", *SETTINGS)
    with tempfile.TemporaryDirectory(prefix="divea-resume-") as folder:
        task = synthetic_pair(Path(folder), options.entities) / "task"
        undisturbed = Run(Path(folder) / "undisturbed", task, options, chosen)
        start = time.perf_counter()
        expected = undisturbed.finish()
        if isinstance(expected, str):
            raise InputError(f"the undisturbed run ended with {expected}")
        duration = time.perf_counter() - start
        figures.add("seconds of the undisturbed run", round(duration, 1))
        at_the_end(figures, Run(Path(folder) / "end", task, options, chosen), expected)
        at_random_moments(
            figures, Run(Path(folder) / "random", task, options, chosen), expected, duration, options
        )
    return figures


def at_the_end(figures: Figures, run: Run, expected: dict[str, bytes]) -> None:
    """Kill a run when its last subtask is solved, and measure what the next start takes."""
    process = run.start()
    while _last_stage(run) != ("solve", run.options.iterations - 1) and process.poll() is None:
        time.sleep(0.01)
    if not kill(process):
        raise InputError("the run ended before it was killed")
    start = time.perf_counter()
    found = run.finish()
    took = time.perf_counter() - start
    check(figures, "killed after the last subtask", found, expected)
    tables = sum(event["seconds"] for event in _starts(run)[-1] if event.get("stage") == "write")
    figures.add("seconds to end after the last subtask was solved", round(took, 1))
    figures.add("seconds of that for the tables", round(tables, 1))


def at_random_moments(
    figures: Figures, run: Run, expected: dict[str, bytes], duration: float, options: argparse.Namespace
) -> None:
    draw = random.Random(options.random_seed)
    kills = 0
    while kills < options.kills:
        process = run.start()
        time.sleep(draw.uniform(0, 3 * duration / options.kills))
        if not kill(process):
            break
        kills += 1
        say(f"kill {kills}: {_last_stage(run)}")
    check(figures, f"killed {kills} times", run.finish(), expected)
    figures.add("kills at random moments", kills)
    first, again = _stage_seconds(_starts(run))
    table = figures.table(
        "complete stages", {"stage": "", "iteration": "", "seconds": "s", "longest later": "s", "times": ""}
    )
    for (stage, iteration), seconds in first.items():
        later = again[stage, iteration]
        longest = round(max(later), 2) if later else None
        table.add(
            {
                "stage": stage,
                "iteration": iteration + 1,
                "seconds": round(seconds, 2),
                "longest later": longest,
                "times": len(later),
            }
        )


def _stage_seconds(
    starts: list[list[dict[str, Any]]],
) -> tuple[dict[tuple[str, int], float], dict[tuple[str, int], list[float]]]:
    """What each stage took when it was completed first, and in later starts."""
    first: dict[tuple[str, int], float] = {}
    again: dict[tuple[str, int], list[float]] = defaultdict(list)
    for events in starts:
        for event in events:
            if event["event"] != "stage" or event["stage"] not in STAGES:
                continue
            key = str(event["stage"]), int(event["iteration"])
            if key in first:
                again[key].append(event["seconds"])
            else:
                first[key] = event["seconds"]
    return first, again


def _events(run: Run) -> list[dict[str, Any]]:
    try:
        lines = (run.folder / LOG).read_text().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def _starts(run: Run) -> list[list[dict[str, Any]]]:
    """The events of each start."""
    starts: list[list[dict[str, Any]]] = []
    for event in _events(run):
        if event["event"] == "started" or not starts:
            starts.append([])
        starts[-1].append(event)
    return starts


def _last_stage(run: Run) -> tuple[str, int] | None:
    stages = [(event["stage"], event["iteration"]) for event in _events(run) if event["event"] == "stage"]
    return stages[-1] if stages else None
