"""The results of a recipe as a table: means over splits, the paper's figures beside them, and a t-test."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from divea.errors import InputError
from divea.evaluation import paired_t_test
from divea.experiments.cell import Cell
from divea.experiments.recipes import Recipe
from divea.experiments.run import Metrics

_COLUMNS = ("source", "method", "model", "dataset", "subtask_size", "metric", "value")
_MODELS = {"rrea": "RREA", "gcn-align": "GCN-Align"}
# The paper gives one coverage per division, whatever is trained on it.
_COVERAGE_OF = {"CPS (semi)": "CPS", "SBP (semi)": "SBP"}


@dataclass(frozen=True)
class Reference:
    """Values by (method, model, data set, size, metric)."""

    values: dict[tuple[str, str, str, str, str], float]

    @classmethod
    def read(cls, path: Path) -> Reference:
        """Read a table with the columns source, method, model, dataset, subtask_size, metric, value."""
        values = {}
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file, delimiter="\t")
            if tuple(rows.fieldnames or ()) != _COLUMNS:
                raise InputError(f"expected a header of {', '.join(_COLUMNS)}", path=path, line=1)
            for line, row in enumerate(rows, start=2):
                try:
                    value = float(row["value"])
                except (TypeError, ValueError):
                    raise InputError(f"no number: {row['value']!r}", path=path, line=line) from None
                if row["source"] == "paper table":
                    at = (row["method"], row["model"], row["dataset"], row["subtask_size"], row["metric"])
                    values[at] = value
        return cls(values)

    def get(self, method: str, model: str, pair: str, scale: str, metric: str) -> float | None:
        """A figure by our names, or None if the paper has none; ratios are computed from its tables."""
        if metric == "H@1 / coverage":
            hits = self.get(method, model, pair, scale, "H@1")
            covered = self.get(method, model, pair, scale, "coverage")
            return hits / covered if hits is not None and covered else None
        if method == "DivEA (paper)":
            method = "DivEA"
        if metric == "coverage":
            method = _COVERAGE_OF.get(method, method)
        return self.values.get((method, _MODELS.get(model, model), pair.replace("_", "-"), scale, metric))


@dataclass(frozen=True)
class Row:
    """One row of the table: a method over all splits that were run."""

    pair: str
    model: str
    scale: str
    percent: int
    subtasks: int
    method: str
    iteration: int
    """From 1; 0 stands for the last one."""
    by_split: dict[int, dict[str, float]]
    """Split -> measure -> value."""
    paper: dict[str, float | None]

    def values(self, measure: str) -> list[float]:
        return [found[measure] for found in self.by_split.values()]

    def mean(self, measure: str) -> float:
        """The mean over splits; NaN if a split does not have the figure."""
        return float(np.mean(self.values(measure)))

    def spread(self, measure: str) -> float:
        """The standard deviation over splits; NaN for a single one."""
        values = self.values(measure)
        return float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")

    @property
    def place(self) -> tuple[Any, ...]:
        """What two rows must share to be compared."""
        return self.pair, self.model, self.scale, self.percent, self.subtasks, self.iteration


_Place = tuple[str, str, str, int, int, str, int]


def rows_of(
    recipe: Recipe, cells: Sequence[Cell], metrics: Metrics, reference: Reference | None
) -> list[Row]:
    """The rows of all finished cells, in the order of the cells."""
    groups: dict[_Place, dict[int, dict[str, float]]] = {}
    for cell in cells:
        record = metrics.get(cell.key)
        if record is None:
            continue
        last = len(record["iterations"])
        for number in range(1, last + 1) if recipe.axis == "iteration" else [0]:
            at = (cell.pair, cell.model, cell.scale, cell.percent, cell.subtasks, cell.method, number)
            found = {measure: _value(record, measure, number - 1) for measure in recipe.measures}
            groups.setdefault(at, {})[cell.split] = found
    return [Row(*at, by_split, _paper(recipe, at, reference)) for at, by_split in groups.items()]


def _value(record: dict[str, Any], measure: str, iteration: int) -> float:
    found = record["iterations"][iteration]
    if measure == "H@1 / coverage":
        return float(found["H@1"] / found["coverage"]) if found["coverage"] else 0.0
    # A run that was interrupted has no costs.
    return float(found[measure] if measure in found else record.get(measure, float("nan")))


def _paper(recipe: Recipe, at: _Place, reference: Reference | None) -> dict[str, float | None]:
    pair, model, scale, percent, subtasks, method, _ = at
    # The paper's tables have 20 % seeds and five subtasks, on DBP15K, after the last iteration.
    if reference is None or percent != 20 or subtasks != 5 or recipe.axis == "iteration":
        return {}
    return {measure: reference.get(method, model, pair, scale, measure) for measure in recipe.measures}


def table_of(recipe: Recipe, rows: Sequence[Row]) -> list[dict[str, str]]:
    """The rows as text; columns that would stay empty are left out."""
    ours = {row.place: row for row in rows if row.method == recipe.ours}
    tested = recipe.measures[0]
    table = []
    for row in rows:
        line = {
            "data": row.pair,
            "model": row.model,
            "size": row.scale,
            "seeds %": str(row.percent),
            "N": str(row.subtasks),
            "iteration": str(row.iteration or ""),
            "method": row.method,
            "runs": str(len(row.by_split)),
        }
        for measure in recipe.measures:
            line[measure] = _number(row.mean(measure))
            if measure == tested:
                line["±"] = _number(row.spread(measure))
            line[f"paper {measure}"] = _number(row.paper.get(measure))
        line |= _compared(row, ours.get(row.place), recipe)
        table.append(line)
    empty = [name for name in table[0] if not any(line[name] for line in table)] if table else []
    return [{name: text for name, text in line.items() if name not in empty} for line in table]


def _compared(row: Row, ours: Row | None, recipe: Recipe) -> dict[str, str]:
    """The lead of our method, and p of a two-tailed t-test, paired over splits."""
    measure = recipe.measures[0]
    lead, chance = f"{recipe.ours}'s lead in {measure}", "p"
    if ours is None or ours.method == row.method:
        return {lead: "", chance: ""}
    common = [split for split in row.by_split if split in ours.by_split]
    if len(common) < 2:
        return {lead: "", chance: ""}
    test = paired_t_test(
        [ours.by_split[split][measure] for split in common],
        [row.by_split[split][measure] for split in common],
    )
    return {lead: f"{test.difference:+.4f}", chance: f"{test.p:.2g}"}


def _number(value: float | None) -> str:
    if value is None or np.isnan(value):
        return ""
    return f"{value:.4f}" if abs(value) < 10 else f"{value:.1f}"


def as_tsv(table: Sequence[dict[str, str]]) -> str:
    """Tab-separated, with a header."""
    if not table:
        return ""
    text = io.StringIO()
    writer = csv.DictWriter(text, table[0], delimiter="\t", lineterminator="\n")
    writer.writeheader()
    writer.writerows(table)
    return text.getvalue()


def as_markdown(title: str, table: Sequence[dict[str, str]]) -> str:
    """A heading and a table."""
    if not table:
        return f"## {title}\n\nnothing was run\n"
    lines = [list(table[0]), ["---"] * len(table[0]), *(list(line.values()) for line in table)]
    return f"## {title}\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
