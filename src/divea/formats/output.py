"""Output files: compressed if the name says so, and tables that are safe for spreadsheets."""

from __future__ import annotations

import lzma
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.graphs.labels import LABEL

_FORMULA = "^[=+\\-@\t\r\n＝＋－＠]"
"""The start of a text that a spreadsheet takes for a formula, as OWASP lists it under "CSV injection"."""


def open_output(path: Path) -> pa.NativeFile:
    """A file to write, compressed if its suffix is .gz, .bz2, .xz or .zst."""
    if path.suffix == ".xz":
        return pa.PythonFile(lzma.open(path, "wb"), mode="w")
    compression = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}.get(path.suffix)
    return pa.output_stream(str(path), compression=compression)


def require_spreadsheet(path: Path, suffix: str) -> None:
    """Raise InputError if a file of this suffix is not a table that a spreadsheet opens."""
    if suffix not in (".tsv", ".csv"):
        raise InputError("only .tsv and .csv files are for spreadsheets", path=path)


def formula_free(table: pa.Table) -> pa.Table:
    """The table with an apostrophe before every text that a spreadsheet would take for a formula.

    The file is then for people: if it is read back, such a label has changed.

    >>> formula_free(pa.table({"label": pa.array(["=1+1", "Rome"], LABEL), "score": [-1, 0]})).to_pylist()
    [{'label': "'=1+1", 'score': -1}, {'label': 'Rome', 'score': 0}]
    """
    for at, name in enumerate(table.column_names):
        column = table[name]
        if pa.types.is_large_string(column.type):
            escaped = pc.binary_join_element_wise(pa.scalar("'", LABEL), column, pa.scalar("", LABEL))
            column = pc.if_else(pc.match_substring_regex(column, _FORMULA), escaped, column)
            table = table.set_column(at, name, column)
    return table
