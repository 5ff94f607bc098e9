"""Coverage before any model: ours, the paper's way, and the rivals, beside the paper's table.

    python benchmarks/coverage.py ../shared/data/dbp15k

Split 20/0, N = 5, every non-anchor source entity unmatched, seed 0. The paper's figures are after
five iterations with RREA, on its reduced set of unmatched entities.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from divea.division import CPS, SBP, DivEA
from divea.division.groups import group_source
from divea.division.partition import edge_cut
from divea.evaluation.coverage import coverage
from divea.formats import read_links, read_task

PAPER = {
    "zh_en": {"cps": 0.826, "divea": 0.880, "sbp": 0.943, "isbp": 0.960, "divea large": 0.970},
    "fr_en": {"cps": 0.817, "divea": 0.881, "sbp": 0.930, "isbp": 0.960, "divea large": 0.978},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    options = parser.parse_args()
    for name, small, large in (("zh_en", 7792, 9421), ("fr_en", 7930, 9594)):
        folder = options.data / name
        split = folder / "splits" / "20" / "0"
        task = read_task(folder, split / "sup_ent_ids")
        gold = read_links(split / "ref_ent_ids", task, folder=folder)
        print(f"{name}: the paper says {PAPER[name]}")
        for size, delta1 in ((small, 0.5), (large, 0.4)):
            for locality in ("propagate", "bfs"):
                fixed = DivEA(5, size, locality=locality, delta1=delta1, delta2=0.0)
                show(f"{locality}, S {size}, delta1 {delta1}, delta2 0", fixed, task, gold)
                show(f"{locality}, S {size}, shares chosen", DivEA(5, size, locality=locality), task, gold)
        show("cps", CPS(5), task, gold)
        show("sbp", SBP(5), task, gold)
        for partitioner in ("metis", "kaminpar", "random"):
            compare_partitioner(partitioner, task, gold, small)


def show(what: str, strategy, task, gold) -> None:
    began = time.perf_counter()
    division = strategy.divide(task)
    seconds = time.perf_counter() - began
    found = coverage(division, gold)
    sizes = [subtask.size for subtask in division.subtasks]
    print(
        f"    {what}: coverage {found.share:.4f} (together in any subtask {found.share_together:.4f}), "
        f"sizes {min(sizes)}-{max(sizes)}, {seconds:.2f} s {'; '.join(division.notes)}",
        flush=True,
    )


def compare_partitioner(name: str, task, gold, size: int) -> None:
    cuts, shares, seconds = [], [], []
    for seed in range(5):
        began = time.perf_counter()
        groups, _ = group_source(task, 5, partitioner=name, seed=seed)
        seconds.append(time.perf_counter() - began)
        cuts.append(edge_cut(task.source.adjacency, groups))
        division = DivEA(5, size, seed, partitioner=name, delta1=0.5, delta2=0.0).divide(task)
        shares.append(coverage(division, gold).share)
    print(
        f"    partitioner {name}, seeds 0-4: {np.mean(seconds):.3f} s, cut {np.mean(cuts):.4f}, "
        f"coverage {np.mean(shares):.4f} +- {np.std(shares):.4f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
