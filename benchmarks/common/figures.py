"""Figures: what a benchmark found, as single values, tables and failures."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.common.measuring import Spread
from benchmarks.common.progress import say

Value = str | int | float | bool | Spread | None


def shown(value: Value | dict[str, Any]) -> str:
    """A value for people.

    >>> shown(0.79034), shown(12345), shown(True), shown(Spread(2.5, 2.25, 3.0, 3))
    ('0.7903', '12,345', 'yes', '2.5 (2.25 to 3)')
    """
    if isinstance(value, Spread):
        value = asdict(value)
    if isinstance(value, dict):
        low, high = shown(value["low"]), shown(value["high"])
        return shown(value["median"]) + (f" ({low} to {high})" if value["rounds"] > 1 else "")
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) or (isinstance(value, float) and abs(value) >= 1000):
        return f"{value:,.0f}"
    return f"{value:.4g}" if isinstance(value, float) else value


@dataclass(frozen=True)
class Table:
    """A table of figures: columns with units, and rows that are printed as they are added."""

    units: dict[str, str]
    rows: list[dict[str, Value]] = field(default_factory=list)

    def add(self, row: dict[str, Value]) -> None:
        if unknown := row.keys() - self.units.keys():
            raise ValueError(f"the table has no column {', '.join(sorted(unknown))}")
        self.rows.append({name: row.get(name) for name in self.units})
        cells = ((name, shown(row.get(name)), unit) for name, unit in self.units.items())
        say(", ".join(" ".join(filter(None, cell)) for cell in cells if cell[1]))


class Figures:
    """What a benchmark found: single figures, tables and failures."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[Value, str]] = {}
        self.tables: dict[str, Table] = {}
        self.failures: list[str] = []

    def add(self, name: str, value: Value, unit: str = "") -> None:
        self.values[name] = value, unit
        say(" ".join(filter(None, (f"{name}:", shown(value), unit))))

    def table(self, name: str, units: dict[str, str]) -> Table:
        """A new table: column -> unit, empty if there is none."""
        self.tables[name] = Table(units)
        return self.tables[name]

    def fail(self, text: str) -> None:
        """Record that something is not as it should be; the benchmark then exits with 1."""
        self.failures.append(text)
        say(f"FAILED: {text}")

    def plain(self) -> dict[str, Any]:
        """Name -> value and unit, or columns and rows, as plain JSON types."""
        values = {
            name: {"value": rounded(value), "unit": unit} for name, (value, unit) in self.values.items()
        }
        tables = {
            name: {
                "columns": table.units,
                "rows": [[rounded(value) for value in row.values()] for row in table.rows],
            }
            for name, table in self.tables.items()
        }
        return {**tables, **values}


def rounded(value: Value) -> Any:
    """A value as plain JSON types, with as many digits as a record keeps."""
    if isinstance(value, Spread):
        return {name: rounded(figure) for name, figure in asdict(value).items()}
    # Five digits are more than any measurement here has.
    return float(f"{value:.5g}") if isinstance(value, float) else value
