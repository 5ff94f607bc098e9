"""Every table and figure of the paper's evaluation: which runs it needs, and what it shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from divea.experiments.cell import Cell
from divea.experiments.methods import settings_for

BOTH = ("rrea", "gcn-align")


@dataclass(frozen=True)
class Recipe:
    """Methods with the sizes they are compared at, what varies, and what is measured."""

    title: str
    methods: tuple[tuple[str, str], ...]
    """(method, whose subtask size)."""
    measures: tuple[str, ...]
    """Columns of the table; the first one is tested for significance."""
    plotted: tuple[str, ...]
    """The measures that are drawn."""
    models: tuple[str, ...] = ("rrea",)
    subtasks: tuple[int, ...] = (5,)
    percents: tuple[int, ...] = (20,)
    axis: Literal["method", "subtasks", "percent", "iteration"] = "method"
    """What the plot has on its x axis."""
    stacked: bool = True
    ours: str = "DivEA"
    """The method that the others are tested against."""

    def cells(
        self,
        pairs: Sequence[str],
        models: Sequence[str],
        splits: Sequence[int],
        *,
        subtasks: Sequence[int] = (),
        percents: Sequence[int] = (),
        methods: Sequence[str] = (),
        changes: dict[str, Any] | None = None,
        validation: float = 0.0,
    ) -> list[Cell]:
        """The cells, in the order of the table; of all methods if none is named."""
        return [
            Cell(
                pair,
                percent,
                split,
                method,
                scale,
                model,
                number,
                settings_for(method, model, scale, changes or {}),
                self.stacked,
                validation,
            )
            for pair in pairs
            for model in models
            for percent in percents or self.percents
            for number in subtasks or self.subtasks
            for method, scale in self.methods
            for split in splits
            if not methods or method in methods
        ]


_QUALITY = ("H@1", "H@5", "MRR", "coverage")
_BEST = (("CPS (semi)", "cps"), ("DivEA", "cps"), ("I-SBP", "sbp"), ("DivEA", "sbp"))

RECIPES: dict[str, Recipe] = {
    "cps": Recipe(
        "Table 1: DivEA and the variants of CPS",
        (
            ("CPS (sup)", "cps"),
            ("CPS (semi)", "cps"),
            ("CPS (semi), averaged", "cps"),
            ("DivEA (paper)", "cps"),
            ("DivEA", "cps"),
        ),
        _QUALITY,
        ("H@1",),
        BOTH,
    ),
    "sbp": Recipe(
        "Table 2: DivEA and the variants of SBP",
        (
            ("SBP (sup)", "sbp"),
            ("SBP (semi)", "sbp"),
            ("SBP (semi), averaged", "sbp"),
            ("I-SBP", "sbp"),
            ("I-SBP, averaged", "sbp"),
            ("DivEA (paper)", "sbp"),
            ("DivEA", "sbp"),
        ),
        _QUALITY,
        ("H@1",),
        BOTH,
    ),
    "coverage": Recipe(
        "Table 3: coverage of test links by subtasks",
        (
            ("CPS (semi)", "cps"),
            ("DivEA (paper)", "cps"),
            ("DivEA", "cps"),
            ("SBP (semi)", "sbp"),
            ("I-SBP", "sbp"),
            ("DivEA (paper)", "sbp"),
            ("DivEA", "sbp"),
        ),
        ("coverage", "together"),
        ("coverage",),
    ),
    "discovery": Recipe(
        "Progressive counterpart discovery: coverage by iteration, with and without similarity",
        (("DivEA (paper)", "cps"), ("DivEA (paper), locality only", "cps")),
        ("coverage", "H@1"),
        ("coverage",),
        percents=(5, 20),
        axis="iteration",
        ours="DivEA (paper)",
    ),
    "informativeness": Recipe(
        "Informativeness of contexts: H@1 / coverage",
        _BEST,
        ("H@1 / coverage", "H@1", "coverage"),
        ("H@1 / coverage",),
        BOTH,
    ),
    "attributes": Recipe(
        "Incorporating attributes: with and without the names of entities",
        (
            ("CPS (semi)", "cps"),
            ("CPS (semi), averaged", "cps"),
            ("DivEA (paper)", "cps"),
            ("DivEA", "cps"),
            ("CPS (semi), with names", "cps"),
            ("CPS (semi), averaged, with names", "cps"),
            ("DivEA (paper), with names", "cps"),
            ("DivEA, with names", "cps"),
        ),
        ("H@1", "coverage", "H@1 / coverage"),
        ("H@1", "coverage", "H@1 / coverage"),
        ours="DivEA, with names",
    ),
    "subtasks": Recipe(
        "Robustness: quality by number of subtasks",
        _BEST,
        ("H@1", "coverage"),
        ("H@1",),
        subtasks=(5, 10, 15, 20),
        axis="subtasks",
    ),
    "seeds": Recipe(
        "Robustness: quality by percentage of seeds",
        _BEST,
        ("H@1", "coverage"),
        ("H@1",),
        percents=(5, 20, 30),
        axis="percent",
    ),
    "gains": Recipe(
        "Gains and costs: memory and time of a subtask, and quality, by number of subtasks",
        (("DivEA", "cps"),),
        ("H@1", "coverage", "memory_mib", "subtask_seconds", "largest"),
        ("memory_mib", "subtask_seconds", "H@1"),
        subtasks=(1, 2, 5, 10, 20),
        axis="subtasks",
        stacked=False,
    ),
    "time": Recipe(
        "Tables 4 and 5: seconds of division against seconds of training",
        _BEST,
        ("division_seconds", "solving_seconds", "seconds"),
        ("division_seconds", "solving_seconds"),
    ),
    "coherence": Recipe(
        "Coherent against random groups of unmatched entities",
        (("DivEA (paper), random groups", "cps"), ("DivEA (paper)", "cps")),
        ("H@1", "coverage"),
        ("H@1", "coverage"),
        ours="DivEA (paper)",
    ),
}
