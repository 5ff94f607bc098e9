"""Columns of Arrow tables as labels: text or integers, without missing and empty values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.graphs.labels import LABEL


def require_label_columns(schema: pa.Schema, names: Sequence[str], path: str | Path) -> None:
    """Raise InputError if a column is missing, appears twice, or holds neither text nor integers.

    Parameters
    ----------
    path
        Where the columns come from, for messages.
    """
    for name in names:
        if name not in schema.names:
            raise InputError(f"has no column '{name}' (found: {', '.join(schema.names)})", path=path)
        if schema.names.count(name) > 1:
            raise InputError(f"the column '{name}' appears twice", path=path)
        kind = schema.field(name).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        if not (pa.types.is_integer(kind) or is_text(kind)):
            raise InputError(f"the column '{name}' is of type {kind}, not text or integer", path=path)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of Arrow's types of text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def labels_of_column(column: pa.Array, name: str, path: str | Path) -> pa.Array:
    """A column of text or integers as labels, plain or dictionary-encoded; integers become decimal text.

    Raises InputError if a value is missing or empty.
    """
    column.validate(full=True)
    if column.null_count:
        raise InputError(f"the column '{name}' has {column.null_count} missing values", path=path)
    if pa.types.is_integer(column.type):
        # Converting each distinct id to text once is several times faster than converting every row.
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        column = pa.DictionaryArray.from_arrays(column.indices, column.dictionary.cast(LABEL))
        values = column.dictionary
    else:
        values = column = column.cast(LABEL)
    if len(values) and pc.min(pc.binary_length(values)).as_py() == 0:
        raise InputError(f"the column '{name}' has an empty value", path=path)
    return column
