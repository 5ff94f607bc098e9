"""Kills runs at every journal line and at random moments, and checks that their tables stay the same.

Each kill is SIGKILL to the whole process group of a real `divea align`, workers included. For every journal
line a new run is killed when the line is written, and then continued to its end. For random moments a run is
killed a random time after each start until it finishes before the kill. Every run must end with the tables
of a run that was not disturbed, byte for byte.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common import Figures, Needs, add_random_seed, synthetic_pair
from divea.errors import InputError
from divea.registry import EXECUTORS
from divea.runs.layout import JOURNAL, MAPPINGS, MAPPINGS_TSV, RANKED

NEEDS = Needs("none", "CPU", "15 min")

SETTINGS = (
    "subtasks=3",
    "iterations=2",
    "model.label-propagation.labels=32",
    "model.label-propagation.heads=16",
    "model.label-propagation.draft_heads=16",
    "model.label-propagation.rounds=2",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entities", type=int, default=600, help="entities of each graph")
    parser.add_argument("--points", type=int, help="journal lines to kill at (default: all)")
    parser.add_argument("--random", type=int, default=50, help="kills at random moments")
    parser.add_argument("--executor", choices=EXECUTORS.names(), default="local")
    parser.add_argument("--workers", type=int, default=2)
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="divea-crash-") as folder:
        task = synthetic_pair(Path(folder), options.entities) / "task"
        start = time.perf_counter()
        undisturbed = Run(Path(folder) / "undisturbed", task, options)
        expected = undisturbed.finish()
        if isinstance(expected, str):
            raise InputError(f"the undisturbed run ended with {expected}")
        duration, lines = time.perf_counter() - start, undisturbed.journal_lines()
        figures.add("journal lines of a run", lines)
        kill_at_lines(figures, Run(Path(folder) / "lines", task, options), expected, options.points or lines)
        disturbed = Run(Path(folder) / "random", task, options)
        kill_at_random(figures, disturbed, expected, options.random, duration, options.random_seed)
    return figures


@dataclass(frozen=True)
class Run:
    """A run of `divea align` that may be killed and started again."""

    folder: Path
    task: Path
    options: argparse.Namespace
    settings: tuple[str, ...] = SETTINGS

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "divea", "align", str(self.task), "--out", str(self.folder), "-q"]
        command += [part for setting in self.settings for part in ("--set", setting)]
        command += ["--device", getattr(self.options, "device", "cpu")]
        command += ["--executor", self.options.executor]
        if self.options.workers and self.options.executor != "inline":
            command += ["--workers", str(self.options.workers)]
        return subprocess.Popen(
            command,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def finish(self) -> dict[str, bytes] | str:
        """The tables of the run, or how the command failed."""
        code = self.start().wait()
        if code:
            return f"exit code {code}"
        return {name: (self.folder / name).read_bytes() for name in (MAPPINGS, MAPPINGS_TSV, RANKED)}

    def journal_lines(self) -> int:
        try:
            return (self.folder / JOURNAL).read_bytes().count(b"\n")
        except FileNotFoundError:
            return 0


def kill(process: subprocess.Popen[bytes]) -> bool:
    """Kill the process group; whether the process was still running."""
    was_running = process.poll() is None
    if was_running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return was_running


def check(figures: Figures, what: str, found: dict[str, bytes] | str, expected: dict[str, bytes]) -> bool:
    if isinstance(found, str):
        figures.fail(f"{what}: {found}")
    elif found != expected:
        figures.fail(f"{what}: the tables differ")
    return found == expected


def kill_at_lines(figures: Figures, run: Run, expected: dict[str, bytes], points: int) -> None:
    table = figures.table("killed at journal lines", {"line": "", "lines when killed": "", "same bytes": ""})
    for point in range(1, points + 1):
        process = run.start()
        while run.journal_lines() < point and process.poll() is None:
            time.sleep(0.001)
        was_running, lines = kill(process), run.journal_lines()
        is_same = check(figures, f"killed at line {point}", run.finish(), expected)
        table.add({"line": point, "lines when killed": lines if was_running else None, "same bytes": is_same})
        shutil.rmtree(run.folder)


def kill_at_random(
    figures: Figures,
    run: Run,
    expected: dict[str, bytes],
    count: int,
    duration: float,
    random_seed: int,
) -> None:
    draw = random.Random(random_seed)
    kills = starts = 0
    while kills < count:
        was_running = True
        while was_running and kills < count:
            process = run.start()
            starts += 1
            time.sleep(draw.uniform(0, 1.2 * duration))
            was_running = kill(process)
            kills += was_running
        check(figures, f"killed at random, after kill {kills}", run.finish(), expected)
        shutil.rmtree(run.folder)
    figures.add("kills at random moments", kills)
    figures.add("starts until all kills were done", starts)
