"""What dividing saves: time and memory of all processes of `divea align`, undivided and divided.

Memory is the peak of the sum over the process tree, where pages that several processes share count once
(PSS), sampled every 50 ms. The memory that importing the libraries takes once is measured as well, and
subtracted before runs are compared. The divided runs of a model must have the same mappings.

An undivided run may take hours. With --most it is ended after some time; its memory is then at least what was
seen, and the ratio at most what is printed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.common import DBP15K, MIB, DataSet, Figures, Needs, add_data, say, synthetic_pair
from benchmarks.common.watching import watch
from divea.graphs import save_task
from divea.runs.layout import MAPPINGS

NEEDS = Needs("DBP15K, or none with --entities", "CPU", "10 min")

MODELS = {
    "label-propagation": (),
    "rrea": ("--set", "model.rrea.loss=hard", "--set", "model.rrea.steps=60"),
}
EXECUTORS = {"default": (), "processes": ("--executor", "local")}
_LIBRARIES = "import divea.executors.attempt, divea.runs.align, torch"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K, default=("zh-en",))
    parser.add_argument("--entities", type=int, help="generate a pair with this many entities a side instead")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--subtasks", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument(
        "--most", type=float, default=float("inf"), help="end undivided runs after this many seconds"
    )


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    libraries = watch([sys.executable, "-c", _LIBRARIES]).peak // MIB
    figures.add("MiB of the libraries", libraries)
    columns = {"data": "", "model": "", "N": "", "executor": "", "seconds": "s", "memory": "MiB"}
    table = figures.table("memory", {**columns, "beyond the libraries": "MiB", "of undivided": ""})
    with tempfile.TemporaryDirectory(prefix="divea-memory-") as folder:
        for name, task in tasks(options, Path(folder)):
            for model in options.models:
                whole = 0
                mappings = set()
                for subtasks, executor in ((1, "default"), *((options.subtasks, one) for one in EXECUTORS)):
                    out = Path(folder) / f"{name}-{model}-{subtasks}-{executor}"
                    most = options.most if subtasks == 1 else float("inf")
                    found = watch(
                        command(task, out, model, subtasks, executor, options.iterations), most=most
                    )
                    mebibytes = found.peak // MIB
                    beyond = mebibytes - libraries
                    whole = whole or beyond
                    if subtasks > 1:
                        mappings.add((out / MAPPINGS).read_bytes())
                    say(
                        f"{name}, {model}, N = {subtasks}, {executor}: {found.seconds:.1f} s, {mebibytes} MiB"
                        + (" (ended)" if found.was_ended else "")
                    )
                    table.add(
                        {
                            "data": name,
                            "model": model,
                            "N": subtasks,
                            "executor": executor,
                            "seconds": round(found.seconds, 1),
                            "memory": mebibytes,
                            "beyond the libraries": beyond,
                            "of undivided": round(beyond / whole, 3),
                        }
                    )
                if len(mappings) != 1:
                    figures.fail(f"{name}, {model}: executors give different mappings")
    return figures


def tasks(options: argparse.Namespace, folder: Path) -> list[tuple[str, Path]]:
    """The names and folders of the tasks."""
    if options.entities is not None:
        return [(f"synth {options.entities}", synthetic_pair(folder, options.entities) / "task")]
    for name in options.sets:
        save_task(DataSet(name, options.data).task(), folder / name)
    return [(name, folder / name) for name in options.sets]


def command(task: Path, out: Path, model: str, subtasks: int, executor: str, iterations: int) -> list[str]:
    chosen = ["--features", "none", "--device", "cpu", "--model", model, *MODELS[model], *EXECUTORS[executor]]
    numbers = ["-n", str(subtasks), "--iterations", str(iterations)]
    align = [sys.executable, "-m", "divea", "align", str(task), "--out", str(out), "--quiet"]
    return [*align, *chosen, *numbers]
