"""How `divea reproduce` should train: variants of its settings, judged on held-out seeds.

DBP15K, split 20/0, N = 5, open protocol. H@1 and coverage are listed after each iteration: models start from
scratch, so an earlier iteration shows what fewer of them would give. The cells are run directories in --out,
so a stopped benchmark continues. No test link is read.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import DBP15K, DataSet, Figures, Needs, Value, add_data, add_device, add_settings, say
from benchmarks.common.data import VALIDATION_SHARE
from divea.experiments.cell import Cell
from divea.experiments.methods import MODELS, read_changes, settings_for
from divea.experiments.run import run_cells

NEEDS = Needs("DBP15K", "CPU or GPU", "5 min (GPU)")

HARD = {"model.rrea.loss": "hard", "model.rrea.steps": 60}
EVERY_MUTUAL_PAIR = {"matching.threshold": -10}
CSLS = {"matching.method": "csls", **EVERY_MUTUAL_PAIR}

VARIANTS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "first": [
        ("DivEA (paper)", "rrea", {**HARD, **CSLS}),
        ("DivEA (paper)", "gcn-align", {"model.gcn-align.steps": 400, **CSLS}),
        ("CPS (semi)", "rrea", {**HARD, **CSLS}),
        ("CPS (sup)", "rrea", {**HARD, **CSLS, "model.rrea.steps": 300}),
        ("DivEA (paper)", "rrea", {**HARD, **CSLS, "model.rrea.steps": 30}),
        ("DivEA (paper)", "rrea", {**HARD, **EVERY_MUTUAL_PAIR}),
        ("DivEA (paper)", "rrea", HARD),
    ],
    "second": [
        ("DivEA", "gcn-align", {"model.gcn-align.steps": 400, "matching.threshold": 0.5}),
        ("DivEA", "gcn-align", {"model.gcn-align.steps": 200, "matching.threshold": 0.5}),
        ("DivEA", "gcn-align", {"model.gcn-align.steps": 400, "matching.threshold": 0.2}),
        ("CPS (semi)", "gcn-align", {"model.gcn-align.steps": 400, "matching.threshold": 0.5}),
        ("DivEA", "rrea", HARD),
        ("CPS (semi)", "rrea", HARD),
        ("DivEA (paper)", "rrea", {**HARD, "division.nearest": 0}),
    ],
}
"""(method, model, changes to its settings), in groups that take about two minutes of an H200 each."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)
    add_device(parser)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    add_settings(parser, "model.rrea.steps=100, for all variants that it has an effect on")
    parser.add_argument("--jobs", type=int, default=1, help="cells that run at the same time")
    parser.add_argument("--out", type=Path, help="folder of the cells (default: a temporary folder)")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = dict.fromkeys(("data", "method", "model", "changes"), "")
    units |= dict.fromkeys(("H@1", "coverage", "MRR", "pseudo-seeds"), "")
    table = figures.table("variants", {**units, "time": "s", "division": "s", "memory": "MiB"})
    variants = list(chosen_variants(options))
    with tempfile.TemporaryDirectory() as folder:
        metrics, failures = run_cells(
            [variant.cell for variant in variants],
            options.out or Path(folder),
            data=options.data,
            device=options.device,
            jobs=options.jobs,
            report=lambda cell, _: say(f"done: {cell}"),
        )
    for variant in variants:
        if variant.cell.key in metrics:
            table.add(variant.row(metrics[variant.cell.key]))
    for failure in failures:
        figures.fail(failure)
    return figures


@dataclass(frozen=True)
class Variant:
    """A cell, the name of its data set, and how its settings differ from those of `divea reproduce`."""

    cell: Cell
    data: str
    changes: dict[str, Any]

    def row(self, metrics: dict[str, Any]) -> dict[str, Value]:
        iterations = metrics["iterations"]
        return {
            "data": self.data,
            "method": self.cell.method,
            "model": self.cell.model,
            "changes": ", ".join(f"{path}={value}" for path, value in self.changes.items()),
            "H@1": ", ".join(f"{one['H@1']:.3f}" for one in iterations),
            "coverage": ", ".join(f"{one['coverage']:.3f}" for one in iterations),
            "MRR": iterations[-1]["MRR"],
            "pseudo-seeds": iterations[-1]["pseudo_seeds"],
            "time": metrics["seconds"],
            "division": metrics["division_seconds"],
            "memory": metrics["memory_mib"],
        }


def chosen_variants(options: argparse.Namespace) -> Iterator[Variant]:
    for method, model, changes in (variant for group in options.variants for variant in VARIANTS[group]):
        changed = {**changes, **own_changes(options.set, model)}
        for name in options.sets:
            pair, settings = (
                DataSet(name, options.data).folder.name,
                settings_for(method, model, "cps", changed),
            )
            cell = Cell(pair, 20, 0, method, "cps", model, 5, settings, validation=VALIDATION_SHARE)
            yield Variant(cell, name, changed)


def own_changes(assignments: list[str], model: str) -> dict[str, Any]:
    """The assigned settings without options of other models."""
    changes = read_changes(assignments, [model])
    other = [f"model.{name}." for name in MODELS if name != model]
    return {path: value for path, value in changes.items() if not path.startswith(tuple(other))}
