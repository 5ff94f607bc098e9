"""The figures of the paper, for the columns beside ours."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from divea.errors import InputError

_COLUMNS = ("source", "method", "model", "dataset", "subtask_size", "metric", "value")
_MODELS = {"rrea": "RREA", "gcn-align": "GCN-Align"}
# Where the paper gives coverage, it does so once for a division, whatever is trained on it.
_COVERAGE_OF = {"CPS (semi)": "CPS", "SBP (semi)": "SBP"}


@dataclass(frozen=True)
class Reference:
    """Values by (method, model, data set, size, metric)."""

    values: dict[tuple[str, str, str, str, str], float]

    @classmethod
    def read(cls, path: Path) -> Reference:
        """From a table with the columns source, method, model, dataset, subtask_size, metric, value."""
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
        """A figure by our names, or None where the paper has none; ratios come out of its tables."""
        if metric == "H@1 / coverage":
            hits = self.get(method, model, pair, scale, "H@1")
            covered = self.get(method, model, pair, scale, "coverage")
            return hits / covered if hits is not None and covered else None
        if method == "DivEA (paper)":
            method = "DivEA"
        if metric == "coverage":
            method = _COVERAGE_OF.get(method, method)
        return self.values.get((method, _MODELS.get(model, model), pair.replace("_", "-"), scale, metric))
