"""Parquet files of triples or links, with columns of labels or of integer ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.stream import reading
from divea.graphs.labels import LABEL


@contextmanager
def open_parquet(path: Path) -> Iterator[pq.ParquetFile]:
    """An open Parquet file. Raises InputError if it is damaged, when it is opened and while it is read."""
    with reading(path):
        if path.is_dir():
            raise InputError("is a folder, not a file", path=path)
        if path.stat().st_size == 0:
            raise InputError("is empty", path=path)
        try:
            with pq.ParquetFile(path) as file:
                yield file
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise InputError(f"not a readable Parquet file ({error})", path=path) from error


def column_names(path: Path) -> list[str]:
    """The names of the columns of a Parquet file."""
    with open_parquet(path) as file:
        return list(file.schema_arrow.names)


def read_label_columns(path: Path, names: Sequence[str]) -> Iterator[list[pa.Array]]:
    """The named columns as labels, in batches; integers become decimal text."""
    with open_parquet(path) as file:
        missing = [name for name in names if name not in file.schema_arrow.names]
        if missing:
            found = ", ".join(file.schema_arrow.names)
            raise InputError(f"has no column '{missing[0]}' (found: {found})", path=path)
        for batch in file.iter_batches(columns=list(names)):
            yield [_labels_of_column(batch[name], name, path) for name in names]


def _labels_of_column(column: pa.Array, name: str, path: Path) -> pa.Array:
    if column.null_count:
        raise InputError(f"the column '{name}' has {column.null_count} missing values", path=path)
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"the column '{name}' is of type {kind}, not text or integer", path=path)
    if pa.types.is_integer(kind):
        # Converting each distinct id to text once is several times faster than converting every row.
        encoded = column.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(LABEL))
    labels = column.cast(LABEL)
    labels.validate(full=True)
    return labels
