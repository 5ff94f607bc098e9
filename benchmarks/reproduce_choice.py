"""How `divea reproduce` should train: variants judged on a fifth of the seeds, test links unread.

    python benchmarks/reproduce_choice.py ../shared/data --device cuda --jobs 8 --out choice

Split 0, N = 5, CPS size, open. H@1 after each iteration: models start anew, so an earlier iteration shows
what fewer would give.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from divea.reproduce.cell import Cell
from divea.reproduce.methods import settings_for
from divea.reproduce.runner import run_cells

HARD = {"rrea.loss": "hard", "rrea.steps": 60}
VARIANTS = [
    ("DivEA", "rrea", HARD),
    ("DivEA", "gcn-align", {"gcn-align.steps": 400}),
    ("CPS (semi)", "rrea", HARD),
    ("CPS (sup)", "rrea", HARD),
    ("DivEA", "rrea", {**HARD, "rrea.steps": 30}),
    ("DivEA", "rrea", {**HARD, "rrea.steps": 120}),
    ("DivEA", "rrea", {**HARD, "matching": "sinkhorn"}),
    ("DivEA", "rrea", {**HARD, "matching": "sinkhorn", "threshold": 0.5}),
    ("CPS (semi)", "gcn-align", {"gcn-align.steps": 400}),
    ("DivEA", "gcn-align", {"gcn-align.steps": 400, "matching": "sinkhorn"}),
    # Supervised with as many steps as one iteration of the others, in case five times as many overfit.
    ("CPS (sup)", "rrea", {**HARD, "rrea.steps": 12}),
    ("DivEA", "rrea", {"rrea.loss": "margin", "rrea.steps": 250}),
    ("DivEA", "gcn-align", {"gcn-align.steps": 1000}),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", nargs="+", default=["zh_en", "fr_en"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    named = {}
    for method, model, changes in VARIANTS:
        for pair in options.pairs:
            settings = settings_for(method, model, "cps", changes)
            cell = Cell(pair, 20, 0, method, "cps", model, 5, settings, validation=0.2)
            named[cell.key] = cell, ", ".join(f"{name}={value}" for name, value in changes.items())

    def say(cell: Cell, record: dict) -> None:
        steps = " ".join(f"{one['H@1']:.3f}" for one in record["iterations"])
        last = record["iterations"][-1]
        print(
            f"{cell.pair} {cell.method} {cell.model} [{named[cell.key][1]}] H@1 {steps} | coverage "
            f"{last['coverage']:.3f} MRR {last['MRR']:.3f} pseudo {last['pseudo_seeds']} | "
            f"{record['seconds']:.1f} s (division {record['division_seconds']:.1f}) "
            f"{record['memory_mib']:.0f} MiB",
            flush=True,
        )

    _, failures = run_cells(
        [cell for cell, _ in named.values()],
        options.out / "cells.jsonl",
        data=options.data,
        device=options.device,
        jobs=options.jobs,
        say=say,
    )
    print("\n".join(failures))


if __name__ == "__main__":
    main()
