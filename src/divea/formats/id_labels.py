"""Reads the files of a task folder that give the label of each id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.formats.delimited import read_columns
from divea.graphs.labels import LABEL, find_labels, hash_labels
from divea.types import Ids


class IdLabels:
    """The ids of one file and the label of each; ids are compared as text.

    Raises InputError if an id or a label appears twice.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        batches = list(read_columns(path, ("id", "label")))
        if not batches:
            raise InputError("contains no ids", path=path)
        ids = pa.concat_arrays([batch["id"] for batch in batches])
        labels = pa.concat_arrays([batch["label"] for batch in batches])
        _refuse_repeats(path, "id", ids)
        _refuse_repeats(path, "label", labels)
        hashes = hash_labels(ids)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        self._ids = ids.take(pa.array(order))
        self.labels = labels.take(pa.array(order))

    def find(self, ids: pa.Array) -> Ids:
        """The position in `labels` of each id, -1 for an unknown id; ids may be dictionary-encoded."""
        if pa.types.is_dictionary(ids.type):
            return self.find(ids.dictionary)[ids.indices.to_numpy()]
        return find_labels(ids, self._ids, self._hashes)

    def labelled(self, ids: pa.Array, path: Path, line: int, relations: IdLabels | None = None) -> pa.Array:
        """The labels of a column of ids, dictionary-encoded.

        Parameters
        ----------
        path, line
            The file that the ids come from and the line of the first one, for error messages.
        relations
            For ids of entities, the ids of relations: an id that is found there gets a better message.
        """
        rows = self.find(ids)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            bad = ids[int(unknown[0])].as_py()
            message = f"the id {bad} has no label in {self.path.name}"
            if relations is not None and relations.find(pa.array([bad], type=LABEL))[0] >= 0:
                message = f"the id {bad} is a relation's ({relations.path.name}), used as an entity"
            raise InputError(message, path=path, line=line + int(unknown[0]))
        return pa.DictionaryArray.from_arrays(pa.array(rows), self.labels)


def _refuse_repeats(path: Path, what: str, column: pa.Array) -> None:
    counts = pc.value_counts(column)
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        value = repeated[0]["values"].as_py()
        line = int(np.flatnonzero(pc.equal(column, value))[1]) + 1
        raise InputError(f"the {what} {value!r} appears twice", path=path, line=line)
