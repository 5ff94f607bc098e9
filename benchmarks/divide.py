"""The whole first division at growing sizes: time by step, memory, evenness, and how the cost grows.

    python benchmarks/divide.py --pairs /tmp/pairs                      # 100K to 2M, N = entities / 10000
    python benchmarks/divide.py --pairs /tmp/pairs --rounds 5           # the median of five
    python benchmarks/divide.py --pairs /tmp/pairs --entities 2000000

Each size is a process of its own, on two threads unless told otherwise, with pairs of `divea synth`
(made once, kept in --pairs). Counted is everything after the task folder is opened: adjacency,
partition, shares, source contexts, discovery, target contexts, and subtasks written in the JAPE layout.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

SIZE = 23_000


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=Path, required=True)
    parser.add_argument("--entities", type=int, nargs="+", default=[100_000, 300_000, 1_000_000, 2_000_000])
    parser.add_argument("--partitioner", default="metis")
    parser.add_argument("--threads", type=int, default=2, help="METIS has one")
    parser.add_argument(
        "--rounds", type=int, default=1, help="run all sizes so often; the median of each counts"
    )
    parser.add_argument("--cpu", action="store_true", help="CPU seconds, for a busy machine; one thread")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.cpu:
        time.perf_counter, options.threads = time.process_time, 1  # for the division's own watch too
    if options.one:
        pair = options.pairs / f"synth{options.one}"
        print(json.dumps(measure(pair, options.one, options.partitioner, options.threads)))
        return
    for entities in options.entities:
        pair = options.pairs / f"synth{entities}"
        if not pair.is_dir():
            command = [sys.executable, "-m", "divea", "synth", str(pair), "--entities", str(entities)]
            subprocess.run([*command, "--seed", "1"], check=True)
    runs: dict[int, list[dict]] = {entities: [] for entities in options.entities}
    # Round by round, so that a slow hour of the machine slows all sizes down; the fastest run of each would
    # favour the short ones, which fit into a quiet moment.
    for _ in range(options.rounds):
        for entities in options.entities:
            command = [sys.executable, __file__, "--pairs", str(options.pairs), "--one", str(entities)]
            command += ["--partitioner", options.partitioner, "--threads", str(options.threads)]
            command += ["--cpu"] if options.cpu else []
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            runs[entities].append(json.loads(done.stdout))
            print(f"{entities}: {runs[entities][-1]['total']:.2f} s", flush=True)
    rows = [median(runs[entities]) for entities in options.entities]
    for row in rows:
        report(row)
    if len(rows) > 1:
        sizes, totals = [row["entities"] for row in rows], [row["total"] for row in rows]
        slope = np.polyfit(np.log(sizes), np.log(totals), 1)[0]
        rest = [row["total"] - row["steps"]["partition"] for row in rows]
        slope_rest = np.polyfit(np.log(sizes), np.log(rest), 1)[0]
        print(f"fitted slope of total time: {slope:.3f}; of all but the partition: {slope_rest:.3f}")


def median(runs: list[dict]) -> dict:
    """The run in the middle (of an even number, the faster of two)."""
    return sorted(runs, key=lambda row: row["total"])[(len(runs) - 1) // 2]


def measure(pair: Path, entities: int, partitioner: str, threads: int) -> dict[str, object]:
    import torch

    from divea.division import DivEA, write_division
    from divea.division import threads as pieces
    from divea.graphs import load_task

    torch.set_num_threads(threads)
    pieces.AT_ONCE = min(pieces.AT_ONCE, threads)
    parts = max(2, entities // 10_000)
    task = load_task(pair / "task")
    began = time.perf_counter()
    division = DivEA(parts, SIZE, partitioner=partitioner).divide(task)
    writing = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        write_division(division, task, Path(folder) / "out", layouts=["jape"])
        ended = time.perf_counter()
        shutil.rmtree(Path(folder) / "out")
    sizes = [subtask.size for subtask in division.subtasks]
    return {
        "entities": entities,
        "parts": parts,
        "steps": {**division.seconds, "write": ended - writing},
        "total": ended - began,
        "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "smallest": min(sizes),
        "largest": max(sizes),
        "notes": division.notes,
        "coverage": covered(division, task, pair / "gold.tsv"),
    }


def covered(division, task, gold_file: Path) -> float:
    """Coverage by group; `divea.evaluation.coverage` also counts pairs in foreign subtasks, which is slow."""
    from divea.formats import read_links

    gold = read_links(gold_file, task)
    group = division.groups[gold.source]
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(division.subtasks) + 1))
    found = sum(
        np.isin(gold.target[order[bounds[i] : bounds[i + 1]]], subtask.candidates).sum()
        for i, subtask in enumerate(division.subtasks)
    )
    return float(found / len(gold))


def report(row: dict) -> None:
    own = row["steps"]["partition"]
    steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in row["steps"].items())
    print(
        f"{row['entities']} entities, N = {row['parts']}, S = {SIZE}: {row['total']:.1f} s = "
        f"{row['total'] / own:.2f} x the partitioner's; {row['gib']:.2f} GiB; sizes {row['smallest']}"
        f"-{row['largest']}; coverage {row['coverage']:.4f}\n    {steps}\n    {'; '.join(row['notes'])}",
        flush=True,
    )


if __name__ == "__main__":
    main()
