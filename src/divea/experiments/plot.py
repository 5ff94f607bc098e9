"""The results of a recipe as a plot: ours as bars or lines, the paper's figures as diamonds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from divea.experiments.recipes import Recipe
from divea.experiments.table import Row

_WORDS = {
    "subtasks": "number of subtasks",
    "percent": "seeds, % of links",
    "iteration": "iteration",
    "memory_mib": "peak memory, MiB",
    "subtask_seconds": "seconds per subtask",
    "division_seconds": "seconds of division",
    "solving_seconds": "seconds of training and matching",
}
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee")


def draw(recipe: Recipe, rows: Sequence[Row], path: Path) -> None:
    """Write a plot in the format that the path's suffix says, with a column per data set and model."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    facets = list(dict.fromkeys(_facet(recipe, row) for row in rows))
    # Bars need room for their labels.
    wide = max(3.6, 0.75 * len(recipe.methods)) if recipe.axis == "method" else 3.6
    figure = Figure(figsize=(0.6 + wide * len(facets), 0.6 + 3.0 * len(recipe.plotted)), layout="constrained")
    axes = figure.subplots(len(recipe.plotted), len(facets), squeeze=False)
    for measure, line in zip(recipe.plotted, axes, strict=True):
        for facet, axis in zip(facets, line, strict=True):
            own = [row for row in rows if _facet(recipe, row) == facet]
            if recipe.axis == "method":
                _bars(axis, own, measure, recipe.ours)
            else:
                _lines(axis, own, measure, recipe.axis)
            axis.set_title(facet, fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
        line[0].set_ylabel(_WORDS.get(measure, measure))
    figure.suptitle(recipe.title, fontsize=11)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if labels:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), frameon=False)
    # Without a date, the same figures give the same bytes.
    stamp = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with rc_context({"svg.hashsalt": "divea"}):
        figure.savefig(path, dpi=150, metadata=stamp)


def _facet(recipe: Recipe, row: Row) -> str:
    seeds = f", {row.percent} % seeds" if recipe.axis == "iteration" else ""
    return f"{row.pair}, {row.model}{seeds}"


def _name(row: Row) -> str:
    return f"{row.method}, {row.scale} size"


def _bars(axis: Any, rows: Sequence[Row], measure: str, ours: str) -> None:
    places = np.arange(len(rows))
    means, spread = [row.mean(measure) for row in rows], [np.std(row.values(measure)) for row in rows]
    colours = [_COLOURS[1] if row.method == ours else _COLOURS[0] for row in rows]
    axis.bar(places, means, yerr=spread, color=colours, width=0.7)
    known = [(at, value) for at, row in zip(places, rows, strict=True) if (value := row.paper.get(measure))]
    if known:
        axis.plot(*zip(*known, strict=True), "D", color="black", mfc="white", label="the paper")
    sizes = {row.scale for row in rows}
    names = [_name(row) if len(sizes) > 1 else row.method for row in rows]
    axis.set_xticks(places, [name.replace(", ", ",\n").replace(" (", "\n(") for name in names], fontsize=8)


def _lines(axis: Any, rows: Sequence[Row], measure: str, along: str) -> None:
    for number, name in enumerate(dict.fromkeys(_name(row) for row in rows)):
        own = [row for row in rows if _name(row) == name]
        x, y = [getattr(row, along) for row in own], [row.mean(measure) for row in own]
        spread = [np.std(row.values(measure)) for row in own]
        axis.errorbar(x, y, spread, marker="o", ms=4, color=_COLOURS[number], label=name)
    axis.set_xticks(sorted({getattr(row, along) for row in rows}))
    axis.set_xlabel(_WORDS[along])
    if along != "iteration":
        axis.set_ylim(bottom=0)
