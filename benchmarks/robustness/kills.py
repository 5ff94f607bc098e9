"""Kills runs and their workers at random moments, up to ten times in one run, and compares the tables.

A kill is SIGKILL to one worker, or to the whole process group of a real `divea align`, which is then started
again. The executor `inline` has no workers. Every run must end with exit code 0 and with the sha256 of
`mappings.tsv` and `ranked.parquet` of a run that was not disturbed.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common import Figures, Needs, add_random_seed, say, synthetic_pair
from benchmarks.robustness.crash import Run
from divea.errors import InputError
from divea.executors.template import WORKER_NAME
from divea.registry import EXECUTORS
from divea.runs.layout import MAPPINGS_TSV, RANKED

NEEDS = Needs("none", "CPU", "30 min")

COUNTS = ("runs", "same bytes", "whole runs killed", "workers killed", "most kills in one run")

WORKER_NAMES = (WORKER_NAME.encode(), b"ray::_run_on_node")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=60, help="kills with each executor")
    parser.add_argument("--most", type=int, default=10, help="the most kills in one run")
    parser.add_argument("--executors", nargs="+", choices=EXECUTORS.names(), default=["inline", "local"])
    parser.add_argument("--entities", type=int, default=600, help="entities of each graph")
    parser.add_argument("--workers", type=int, default=2)
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    columns = dict.fromkeys(("executor", *COUNTS), "")
    table = figures.table("kills at random moments", columns)
    with tempfile.TemporaryDirectory(prefix="divea-kills-") as folder:
        task = synthetic_pair(Path(folder), options.entities) / "task"
        for executor in options.executors:
            if executor == "ray" and importlib.util.find_spec("ray") is None:
                raise InputError("the executor 'ray' needs Ray: pip install 'divea[ray]'")
            chosen = argparse.Namespace(**{**vars(options), "executor": executor})
            killing = Killing(Run(Path(folder) / executor, task, chosen), figures, options.random_seed)
            killing.kill_all(options.kills, options.most)
            table.add({"executor": executor, **killing.counts})
            shutil.rmtree(Path(folder) / executor, ignore_errors=True)
    return figures


@dataclass
class Killing:
    """Runs with one executor that are killed, and what came of them."""

    run: Run
    figures: Figures
    random_seed: int
    counts: Counter[str] = field(default_factory=Counter)

    def kill_all(self, kills: int, most: int) -> None:
        """Run until there were this many kills, with at most `most` in one run."""
        draw = random.Random(self.random_seed)
        start = time.perf_counter()
        if code := self.run.start().wait():
            raise InputError(f"the undisturbed run ended with exit code {code}")
        duration, expected = time.perf_counter() - start, self.checksums()
        self.counts.update(dict.fromkeys(COUNTS, 0))
        while (before := self.kills) < kills:
            shutil.rmtree(self.run.folder)
            code = self._disturbed(draw, duration, min(draw.randint(1, most), kills - before))
            self.counts["most kills in one run"] = max(
                self.counts["most kills in one run"], self.kills - before
            )
            is_same = code == 0 and self.checksums() == expected
            self.counts.update({"runs": 1, "same bytes": is_same})
            if not is_same:
                what = "the tables differ" if code == 0 else f"exit code {code}"
                self.figures.fail(f"{self.run.options.executor}, run {self.counts['runs']}: {what}")
            say(f"{self.run.options.executor}: {dict(self.counts)}")

    def _disturbed(self, draw: random.Random, duration: float, kills: int) -> int:
        """The exit code of a run that is disturbed this many times, or less if it ends before."""
        process = self.run.start()
        longest = duration * min(1, 2 / kills)
        while kills and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(draw.uniform(0, longest))
            is_for_worker = self.run.options.executor != "inline" and draw.random() < 0.7
            while not (found := workers(process.pid)) and is_for_worker and process.poll() is None:
                time.sleep(0.01)
            if process.poll() is not None:
                break
            if is_for_worker:
                with suppress(ProcessLookupError):
                    os.kill(draw.choice(found), signal.SIGKILL)
                    self.counts["workers killed"] += 1
                    kills -= 1
                continue
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self.counts["whole runs killed"] += 1
            kills -= 1
            process = self.run.start()
        return process.wait()

    @property
    def kills(self) -> int:
        """How often something was killed so far."""
        return self.counts["whole runs killed"] + self.counts["workers killed"]

    def checksums(self) -> list[str]:
        """The checksums of the tables that must stay the same."""
        files = [self.run.folder / name for name in (MAPPINGS_TSV, RANKED)]
        return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]


def workers(process: int) -> list[int]:
    """The worker processes among the descendants of a process."""
    found = [process]
    for parent in found:
        with suppress(OSError):
            found += map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split())
    return [child for child in found if any(name in names(child) for name in WORKER_NAMES)]


def names(process: int) -> bytes:
    """The name and the command line of a process; empty if it has ended."""
    with suppress(OSError):
        return b"".join(Path(f"/proc/{process}/{file}").read_bytes() for file in ("comm", "cmdline"))
    return b""
