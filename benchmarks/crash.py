"""Kills a run at every journal point and at random moments, and checks that its tables stay the same.

    python benchmarks/crash.py [--entities 600] [--random 50] [--executor local] [--seed 0]

Each kill is SIGKILL to the whole process group of a real `divea align`, workers included. For every journal
point a fresh run is killed there, then continued to its end; for every random moment one is killed a drawn
time after its start, and again after each continuation until it gets through.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SETTINGS = {
    "subtasks": 3,
    "iterations": 2,
    "model_options": {"labels": 32, "heads": 16, "draft_heads": 16, "rounds": 2},
}
TABLES = ("mappings.parquet", "mappings.tsv", "ranked.parquet")


def start(command: list[str]) -> subprocess.Popen[bytes]:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, start_new_session=True, stdout=quiet, stderr=quiet, env=env)


def kill(process: subprocess.Popen[bytes]) -> bool:
    """Whether it was still at work."""
    at_work = process.poll() is None
    if at_work:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return at_work


def lines(run: Path) -> int:
    try:
        return (run / "journal.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


def finish(command: list[str], run: Path, expected: dict[str, bytes]) -> None:
    code = start(command).wait()
    assert code == 0, f"exit code {code}"
    found = {name: (run / name).read_bytes() for name in TABLES}
    assert found == expected, "the tables differ"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--entities", type=int, default=600)
    parser.add_argument("--random", type=int, default=50)
    parser.add_argument("--executor", default="local")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="divea-crash-"))
    divea = [sys.executable, "-m", "divea"]
    entities = ["--entities", str(given.entities)]
    subprocess.run([*divea, "synth", str(folder / "pair"), *entities], check=True, stdout=subprocess.DEVNULL)
    (folder / "settings.json").write_text(json.dumps(SETTINGS))
    options = ["--config", str(folder / "settings.json"), "--executor", given.executor, "--workers", "2"]

    def command(run: Path) -> list[str]:
        return [*divea, "align", str(folder / "pair" / "task"), *options, "--out", str(run), "-q"]

    whole = folder / "whole"
    began = time.perf_counter()
    assert start(command(whole)).wait() == 0
    length = time.perf_counter() - began
    expected = {name: (whole / name).read_bytes() for name in TABLES}
    points = lines(whole)
    print(f"undisturbed: {length:.1f} s, {points} journal lines, executor {given.executor}", flush=True)

    for point in range(1, points + 1):
        run = folder / "point"
        process = start(command(run))
        while lines(run) < point and process.poll() is None:
            time.sleep(0.001)
        at_work = kill(process)
        killed_at = lines(run)
        finish(command(run), run, expected)
        print(
            f"point {point}: killed {'at' if at_work else 'after'} line {killed_at}, same bytes", flush=True
        )
        shutil.rmtree(run)

    draw = random.Random(given.seed)
    kills = starts = 0
    while kills < given.random:
        run = folder / "random"
        while kills < given.random:
            process = start(command(run))
            starts += 1
            time.sleep(draw.uniform(0, 1.2 * length))
            if not kill(process):
                break
            kills += 1
        finish(command(run), run, expected)
        shutil.rmtree(run)
    print(f"random: {kills} kills in {starts} starts, same bytes every time", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
