"""The stages of a whole run of `divea align`: their time, memory, and how busy the GPU is.

Memory is that of all processes, sampled once a second; pages that several processes share count once.
"Anonymous" leaves out the pages of files, which the system can take back. The use of the GPU is sampled by
`nvidia-smi`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import Figures, Needs, add_pairs, say, synthetic_pair
from benchmarks.common.watching import Watched, watch
from divea.runs.log import read_log

NEEDS = Needs("none, or a task", "GPU, or CPU", "4 min")

GIB = 1 << 30
LEARNING_AND_WRITING = ("learn", "merge", "write")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    parser.add_argument("--entities", type=int, default=2_000_000, help="entities of each graph")
    parser.add_argument("--task", type=Path, help="align this task instead of a generated one")
    parser.add_argument("--gold", type=Path, help="evaluate the run with these links")
    parser.add_argument("--out", type=Path, help="keep the run here, and continue it if it exists")
    parser.add_argument(
        "--align", default="-n 200", help="options of `divea align`, as one argument: --align='-n 200'"
    )


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    task, gold = options.task, options.gold
    if task is None:
        pair = synthetic_pair(options.pairs, options.entities)
        task, gold = pair / "task", gold or pair / "gold.tsv"
    with tempfile.TemporaryDirectory(prefix="divea-stages-") as folder:
        out = options.out or Path(folder) / "run"
        before = len(read_log(out)) if out.exists() else 0
        command = [sys.executable, "-m", "divea", "align", str(task), "--out", str(out), "--quiet"]
        # More samples would slow the run down: the system goes through all pages of a process for each.
        watched = watch([*command, *options.align.split()], every=1.0)
        stages = [line for line in read_log(out)[before:] if line["event"] == "stage"]
        add_stages(figures, stages, watched)
        if gold is not None:
            evaluate = [sys.executable, "-m", "divea", "evaluate", str(out), "--gold", str(gold), "--json"]
            found = json.loads(subprocess.run(evaluate, check=True, capture_output=True).stdout)
            for name in ("coverage", "hits@1", "precision", "recall"):
                if name in found:
                    figures.add(name, round(found[name], 4))
    return figures


def add_stages(figures: Figures, stages: list[dict[str, Any]], watched: Watched) -> None:
    """A row per stage, and figures of the whole run."""
    columns = {"stage": "", "iteration": "", "time": "s", "memory": "GiB", "anonymous": "GiB"}
    table = figures.table("stages", {**columns, "GPU memory": "GiB", "GPU busy": "%"})
    solving: list[int] = []
    for stage in stages:
        end, seconds = stage["time"], stage["seconds"]
        memory = [found for at, found in watched.memory if end - seconds <= at <= end]
        busy = [use for at, use in watched.gpu if end - seconds <= at <= end]
        if stage["stage"] == "solve":
            solving += busy
        table.add(
            {
                "stage": stage["stage"],
                "iteration": stage["iteration"] + 1,
                "time": round(seconds, 1),
                "memory": round(max((one.total for one in memory), default=0) / GIB, 2),
                "anonymous": round(max((one.anonymous for one in memory), default=0) / GIB, 2),
                "GPU memory": round(stage["peak_gpu_memory"] / GIB, 2),
                "GPU busy": round(sum(busy) / len(busy), 1) if busy else None,
            }
        )
    last = sum(one["seconds"] for one in stages if one["stage"] in LEARNING_AND_WRITING)
    figures.add("seconds", round(watched.seconds, 1))
    figures.add("share of learning, merging and writing", round(last / watched.seconds, 3))
    figures.add("peak memory in GiB", round(watched.peak / GIB, 2))
    anonymous = max((found.anonymous for _, found in watched.memory), default=0)
    figures.add("peak anonymous memory in GiB", round(anonymous / GIB, 2))
    if solving:
        figures.add("percent of solving in which the GPU is busy", round(sum(solving) / len(solving), 1))
    say(f"{watched.seconds:.1f} s, {watched.peak / GIB:.2f} GiB")
