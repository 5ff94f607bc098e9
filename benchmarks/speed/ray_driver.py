"""Memory of the process that drives a run on a Ray cluster, by stage; nodes do the work.

The cluster is two nodes on this machine with one core each. The settings are chosen for speed: little is
matched, most lists are contested, and that takes the most memory in one-to-one assignment. Memory is that of
the process `divea align` alone, where pages that several processes share count as their share (PSS), sampled
once a second. What importing divea and Ray takes is measured as well.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.common import MIB, Figures, Needs, add_pairs, say, synthetic_pair
from benchmarks.common.watching import Memory, exact_memory
from divea.errors import InputError
from divea.runs.log import read_log

NEEDS = Needs("none", "CPU, 12 GiB", "6 min")

QUICK = (
    *("--iterations", "2", "--features", "none", "--device", "cpu", "--executor", "ray"),
    *("--set", "model.label_propagation.labels=16", "--set", "model.label_propagation.heads=8"),
    *("--set", "model.label_propagation.rounds=1", "--set", "matching.method=cosine"),
)
_LIBRARIES = (
    "import time, divea.runs.align, divea.executors.ray, ray, torch; print(flush=True); time.sleep(60)"
)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    parser.add_argument("--entities", type=int, default=2_000_000, help="entities of each graph")
    parser.add_argument("--subtasks", type=int, default=200)


def run(options: argparse.Namespace) -> Figures:
    if importlib.util.find_spec("ray") is None:
        raise InputError("the executor 'ray' needs Ray: pip install 'divea[ray]'")
    figures = Figures()
    task = synthetic_pair(options.pairs, options.entities) / "task"
    libraries = memory_of_libraries()
    columns = {"stage": "", "iteration": "", "time": "s", "memory": "MiB", "anonymous": "MiB"}
    table = figures.table("stages", columns)
    with tempfile.TemporaryDirectory(prefix="divea-driver-") as folder, cluster() as address:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "divea", "align", str(task), "--out", str(out), "--quiet", *QUICK]
        command += ["-n", str(options.subtasks)]
        seen = watched(command, {**os.environ, "RAY_ADDRESS": address})
        for stage in read_log(out):
            if stage["event"] != "stage":
                continue
            start = stage["time"] - stage["seconds"]
            during = [memory for at, memory in seen if start <= at <= stage["time"]]
            table.add(
                {
                    "stage": stage["stage"],
                    "iteration": stage["iteration"] + 1,
                    "time": round(stage["seconds"], 1),
                    "memory": max((one.total for one in during), default=0) // MIB,
                    "anonymous": max((one.anonymous for one in during), default=0) // MIB,
                }
            )
    peak = max(memory.total for _, memory in seen)
    figures.add("MiB of the libraries", libraries // MIB)
    figures.add("peak in MiB", peak // MIB)
    figures.add("peak beyond the libraries in MiB", (peak - libraries) // MIB)
    say(f"{peak // MIB} MiB, {libraries // MIB} MiB of them for the libraries")
    return figures


def memory_of_libraries() -> int:
    with subprocess.Popen([sys.executable, "-c", _LIBRARIES], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = exact_memory(process.pid).total
        process.kill()
    return found


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of two nodes."""
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    node = {"num_cpus": 1, "object_store_memory": 1 << 30}
    nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    try:
        nodes.add_node(**node)
        yield nodes.address
    finally:
        nodes.shutdown()


def watched(command: list[str], environment: dict[str, str]) -> list[tuple[float, Memory]]:
    """Run a command; the memory of its process, with the time of each sample."""
    seen: list[tuple[float, Memory]] = []
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        seen.append((time.time(), exact_memory(process.pid)))
        time.sleep(1)
    if process.returncode:
        raise InputError(f"the run ended with code {process.returncode}")
    return seen
