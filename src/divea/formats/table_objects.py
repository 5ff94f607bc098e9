"""Tables of pandas, polars, pyarrow and every library with the Arrow C stream protocol, as columns.

No library is imported to recognise its objects. The index of a pandas DataFrame is not read; if it has a name
or holds text, it is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from divea.errors import InputError
from divea.formats.label_columns import require_label_columns
from divea.graphs.builder import as_one_array

ROWS = 1 << 16
"""Rows that are converted at a time."""


def is_a(given: object, library: str, name: str) -> bool:
    """Whether an object is of a class of a library, or of a class derived from it.

    >>> from fractions import Fraction
    >>> is_a(Fraction(1, 2), "numbers", "Number"), is_a("1/2", "numbers", "Number")
    (True, False)
    """
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == library for base in type(given).__mro__
    )


def is_series(given: object) -> bool:
    """Whether an object is a pandas Series, whose index names its values."""
    return is_a(given, "pandas", "Series")


@dataclass(frozen=True)
class TableObject:
    """A table of any library; columns are converted when they are asked for."""

    names: list[str]
    column: Callable[[int], pa.Array | pa.ChunkedArray]
    """The column at a position, counted from 0."""
    where: str
    """The argument that the table was given as, for messages."""

    @classmethod
    def of(cls, given: Any, where: str) -> TableObject | None:
        """The table; None if the object is not a table."""
        if is_a(given, "pandas", "DataFrame"):
            names = [str(name) for name in given.columns]
            index = [str(name) for name in given.index.names if name is not None]
            advice = "reset_index() makes it a column, and reset_index(drop=True) removes it"
            if not {*index} <= {*names}:
                raise InputError(f"the index '{', '.join(index)}' would not be read: {advice}", path=where)
            if not index and given.index.inferred_type in ("string", "mixed"):
                raise InputError(f"the index holds text that would not be read: {advice}", path=where)
            return cls(names, lambda at: _pandas_column(given.iloc[:, at], names[at], where), where)
        if not (isinstance(given, pa.RecordBatch) or hasattr(given, "__arrow_c_stream__")):
            return None
        try:
            # The protocol gives the text of polars as views, which not every release of pyarrow can convert.
            table = given.to_arrow() if is_a(given, "polars", "DataFrame") else pa.table(given)
        except (pa.ArrowException, TypeError, ValueError) as error:
            found = f"{type(given).__module__}.{type(given).__qualname__}"
            raise InputError(f"expected a table; found {found}", path=where) from error
        return cls(list(table.column_names), table.column, where)

    def find(self, headers: Sequence[tuple[str, ...]]) -> list[int] | None:
        """The positions of the columns that one of the headers names; None if there is no such header.

        Columns are found by name, in any order and whatever their case; further columns are left out.
        """
        names = [name.strip().lower() for name in self.names]
        header = next((header for header in headers if {*header} <= {*names}), None)
        if header is None:
            return None
        for name in header:
            if names.count(name) > 1:
                raise InputError(f"the column '{name}' appears twice", path=self.where)
        return [names.index(name) for name in header]

    def labels(self, headers: Sequence[tuple[str, ...]], optional: str | None = None) -> pa.Table:
        """The columns that one of the headers names or, if there are exactly as many, all of them in order.

        The columns of the result have the names of the first header, and hold text or integers without
        missing values.

        Parameters
        ----------
        optional
            A column of the first header: rows in which it is missing are left out.
        """
        expected = headers[0]
        positions = self.find(headers)
        if positions is None and len(self.names) == len(expected):
            positions = list(range(len(expected)))
        if positions is None:
            found = ", ".join(self.names)
            raise InputError(
                f"expected the columns {', '.join(expected)}, or {len(expected)} columns in this order; "
                f"found {len(self.names)} ({found})",
                path=self.where,
            )
        columns = [self.column(at) for at in positions]
        if optional is not None and pa.types.is_null(columns[expected.index(optional)].type):
            at = expected.index(optional)
            columns[at] = columns[at].cast(pa.string())
        names = [self.names[at] for at in positions]
        for name, role, column in zip(names, expected, columns, strict=True):
            if column.null_count and role != optional:
                raise InputError(
                    f"the column '{name}' has {column.null_count} missing values", path=self.where
                )
            require_label_columns(pa.schema([(name, column.type)]), [name], self.where)
        table = pa.table(columns, names=list(expected))
        return table if optional is None else table.filter(table[optional].is_valid())


def _pandas_column(series: Any, name: str, where: str) -> pa.Array | pa.ChunkedArray:
    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError) as error:
        message = f"the column '{name}' mixes types, or holds what is neither text nor a number"
        raise InputError(f"{message}; convert it to text", path=where) from error


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    return as_one_array(column) if isinstance(column, pa.ChunkedArray) else column
