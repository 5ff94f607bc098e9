"""How `divea reproduce` should train: variants judged on a fifth of the seeds, test links unread.

    python benchmarks/reproduce_choice.py ../shared/data --device cuda --jobs 8 --out choice

Split 0, N = 5, open. H@1 and coverage after each iteration: models start anew, so an earlier iteration
shows what fewer would give.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from divea.reproduce.cell import Cell
from divea.reproduce.methods import settings_for
from divea.reproduce.runner import run_cells

HARD = {"rrea.loss": "hard", "rrea.steps": 60}
CSLS = {"matching": "csls", "threshold": None}
# (method, whose size, model, changes), in sets that fit two minutes of an H200 each.
VARIANTS = {
    "first": [
        ("DivEA (paper)", "cps", "rrea", {**HARD, **CSLS}),
        ("DivEA (paper)", "cps", "gcn-align", {"gcn-align.steps": 400, **CSLS}),
        ("CPS (semi)", "cps", "rrea", {**HARD, **CSLS}),
        ("CPS (sup)", "cps", "rrea", {**HARD, **CSLS, "rrea.steps": 300}),
        ("DivEA (paper)", "cps", "rrea", {**HARD, **CSLS, "rrea.steps": 30}),
        ("DivEA (paper)", "cps", "rrea", {**HARD, "threshold": None}),
        ("DivEA (paper)", "cps", "rrea", HARD),
    ],
    "second": [
        ("DivEA", "cps", "gcn-align", {"gcn-align.steps": 400}),
        ("DivEA", "cps", "gcn-align", {"gcn-align.steps": 200}),
        ("DivEA", "cps", "gcn-align", {"gcn-align.steps": 400, "threshold": 0.2}),
        ("CPS (semi)", "cps", "gcn-align", {"gcn-align.steps": 400}),
        ("DivEA", "cps", "rrea", HARD),
        ("CPS (semi)", "cps", "rrea", HARD),
        ("DivEA (paper)", "cps", "rrea", {**HARD, "nearest": 0}),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--set", choices=VARIANTS, default="first")
    parser.add_argument("--pairs", nargs="+", default=["zh_en", "fr_en"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    named = {}
    for method, scale, model, changes in VARIANTS[options.set]:
        for pair in options.pairs:
            settings = settings_for(method, model, scale, changes)
            cell = Cell(pair, 20, 0, method, scale, model, 5, settings, validation=0.2)
            named[cell.key] = cell, ", ".join(f"{name}={value}" for name, value in changes.items())

    def say(cell: Cell, record: dict) -> None:
        steps = " ".join(f"{one['H@1']:.3f}/{one['coverage']:.3f}" for one in record["iterations"])
        last = record["iterations"][-1]
        print(
            f"{cell.pair} {cell.method} {cell.scale} {cell.model} [{named[cell.key][1]}] "
            f"H@1/coverage {steps} | "
            f"MRR {last['MRR']:.3f} pseudo {last['pseudo_seeds']} | "
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
