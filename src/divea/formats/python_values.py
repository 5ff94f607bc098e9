"""Python values as labels and as literals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.config.group import shown_value
from divea.errors import InputError
from divea.formats.label_columns import is_text
from divea.formats.table_objects import is_a
from divea.graphs.labels import LABEL

_XSD = "http://www.w3.org/2001/XMLSchema#"


def labels_of(values: Iterable[Any], where: str) -> pa.Array:
    """Text and integers as labels; integers become decimal text, and blank nodes of rdflib `_:` and their id.

    Raises InputError for every other value, and if one is empty or missing.

    >>> labels_of(["Q220", 38], "source").to_pylist()
    ['Q220', '38']
    """
    found = list(values)
    # Most columns hold nothing but text.
    texts = found if {*map(type, found)} <= {str} else [_label(value, where) for value in found]
    if "" in texts:
        raise InputError("a label is empty", path=where)
    return as_text(texts, where)


def as_text(texts: list[str], where: str) -> pa.Array:
    """Strings as an Arrow array; raises InputError if one is not valid Unicode."""
    try:
        return pa.array(texts, LABEL)
    except UnicodeEncodeError as error:
        raise InputError(f"a text is not valid Unicode ({error.reason})", path=where) from error


def _label(value: Any, where: str) -> str:
    if isinstance(value, str):
        if is_a(value, "rdflib", "Literal"):
            raise InputError(f"the literal {shown_value(value)} is no entity or relation", path=where)
        return f"_:{value}" if is_a(value, "rdflib", "BNode") else str(value)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(int(value))
    if is_missing(value):
        raise InputError("a label is missing", path=where)
    raise InputError(f"expected text or an integer as a label; found {shown_value(value)}", path=where)


def is_missing(value: Any) -> bool:
    """Whether a value is missing: None, NaN, or the NA and NaT of pandas."""
    is_nan = isinstance(value, float) and value != value
    return value is None or is_nan or is_a(value, "pandas", "NAType") or is_a(value, "pandas", "NaTType")


def literals_of_column(
    column: pa.Array | pa.ChunkedArray, name: str, where: str
) -> tuple[pa.Array | pa.ChunkedArray, str]:
    """The values of a column as text, null where there is none, and their kind; see `Attributes`.

    Text is a plain string, and numbers, truth values, dates and times have the datatypes of XML Schema. An
    empty text and NaN count as missing. Raises InputError for columns of other types.

    >>> literals_of_column(pa.array([1999.0, None]), "year", "source_attributes")[0].to_pylist()
    ['1999', None]
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if is_text(kind) or pa.types.is_null(kind):
        texts = column.cast(kind).cast(LABEL)
        return pc.if_else(pc.equal(texts, ""), None, texts), ""
    name_of_type = next((name for is_type, name in _DATATYPES if is_type(kind)), None)
    if name_of_type is None:
        raise InputError(
            f"'{name}' is of type {kind}, not text, number, truth value, date or time", path=where
        )
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), None, column)
    texts = column.cast(LABEL)
    if name_of_type == "double":
        texts = pc.replace_substring_regex(texts, "^(-?)inf$", r"\1INF")
    if name_of_type in ("dateTime", "time"):
        texts = _as_xsd_times(texts)
    return texts, f"{_XSD}{name_of_type}"


def _as_xsd_times(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Times of Arrow or Python as XML Schema writes them, with no more digits than needed.

    >>> _as_xsd_times(pa.array(["2020-01-01 22:30:00.500000+0100", "12:00:00.000Z"], LABEL)).to_pylist()
    ['2020-01-01T22:30:00.5+01:00', '12:00:00Z']
    """
    texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    texts = pc.replace_substring_regex(texts, r"([+-]\d{2})(\d{2})$", r"\1:\2")
    texts = pc.replace_substring_regex(texts, r"\.(\d*[1-9])?0*(Z|[+-]|$)", r".\1\2")
    return pc.replace_substring_regex(texts, r"\.(Z|[+-]|$)", r"\1")


_DATATYPES: list[tuple[Any, str]] = [
    (pa.types.is_integer, "integer"),
    (pa.types.is_floating, "double"),
    (pa.types.is_decimal, "decimal"),
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "dateTime"),
    (pa.types.is_time, "time"),
]


def literals_of_values(values: Sequence[Any], names: Sequence[str], where: str) -> tuple[pa.Array, pa.Array]:
    """The text and the kind of each value, as in `literals_of_column`; the text is null if there is none.

    Parameters
    ----------
    names
        What each value is called in messages.

    Examples
    --------
    >>> texts, kinds = literals_of_values(["Rome", 753, None], ["name", "year", "mayor"], "source")
    >>> texts.to_pylist(), kinds.to_pylist()
    (['Rome', '753', None], ['', 'http://www.w3.org/2001/XMLSchema#integer', ''])
    """
    texts: list[str | None] = [None] * len(values)
    kinds = [""] * len(values)
    rows_of_type: dict[type, list[int]] = {}
    for row, value in enumerate(values):
        if not is_missing(value):
            rows_of_type.setdefault(type(value), []).append(row)
    for kind, rows in rows_of_type.items():
        group = [values[row] for row in rows]
        if issubclass(kind, str):
            found, name = as_text([str(value) for value in group], where), ""
            found = pc.if_else(pc.equal(found, ""), None, found)
        elif issubclass(kind, int | np.integer) and not issubclass(kind, bool):
            # Arrow has no integers of more than 64 bits.
            found, name = pa.array([str(int(value)) for value in group], LABEL), f"{_XSD}integer"
        elif issubclass(kind, datetime | time):
            # One Arrow array has one time zone, and would convert the values of others.
            found = _as_xsd_times(pa.array([value.isoformat() for value in group], LABEL))
            name = f"{_XSD}{'dateTime' if issubclass(kind, datetime) else 'time'}"
        elif issubclass(kind, Decimal) and all(value.is_finite() for value in group):
            # One Arrow array has one number of digits.
            found, name = pa.array([f"{value:f}" for value in group], LABEL), f"{_XSD}decimal"
        else:
            found, name = literals_of_column(_as_array(group, names[rows[0]], where), names[rows[0]], where)
        for row, text in zip(rows, found.to_pylist(), strict=True):
            texts[row], kinds[row] = text, name
    return pa.array(texts, LABEL), pa.array(kinds, LABEL)


def _as_array(values: list[Any], name: str, where: str) -> pa.Array:
    try:
        return pa.array(values)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        found = type(values[0]).__name__
        message = f"'{name}' is of type {found}, not text, number, truth value, date or time"
        raise InputError(message, path=where) from error


def each_value(value: Any) -> Iterable[Any]:
    """The values of a list, tuple or set; any other value is one value."""
    return value if isinstance(value, list | tuple | set | frozenset) else (value,)
