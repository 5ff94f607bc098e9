"""The tables of a run: the mappings, and every ranked list. The same outcome gives the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import check_characters, write_columns
from divea.formats.parquet_join import join_parquet
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.ids import numbered
from divea.graphs.labels import LABEL
from divea.graphs.storage import StoredTask
from divea.io import HashedFile
from divea.loop.lists import IN_MEMORY, Blocks, stacked
from divea.runs.layout import MAPPINGS_TSV
from divea.types import Ids, Matches

if TYPE_CHECKING:
    from divea.loop.loop import Outcome

MAPPINGS_SCHEMA = pa.schema(
    [
        ("source", LABEL),
        ("target", LABEL),
        ("score", pa.float32()),
        ("confidence", pa.float64()),
        ("rank", pa.int32()),
        ("margin", pa.float32()),
        ("mutual", pa.bool_()),
        ("subtask", pa.int32()),
        ("iteration", pa.int32()),
    ]
)
"""rank: the target's place in the source's ranked list. margin: its score minus the best score of another
target in the list, below 0 if the first of the list was assigned to another source. mutual: each end is the
other's best match. subtask: the subtask of the source in the last iteration. iteration: the number of
iterations of the run."""

RANKED_SCHEMA = pa.schema(
    [
        ("source", LABEL),
        ("target", LABEL),
        ("rank", pa.int32()),
        ("score", pa.float32()),
        ("confidence", pa.float64()),
        ("subtask", pa.int32()),
        ("given", pa.bool_()),
    ]
)
"""One row per place of each list; `given` marks the assigned pair. The lists of a subtask are consecutive,
sorted by source id: they share their candidates, so labels repeat and take little time and space."""

ORDER, BY_SUBTASK = "divea:order", "subtask, source"
"""The entry in the file's metadata that says how lists are sorted. Earlier versions sorted them by source
alone, and wrote no such entry."""

_ROWS = 1 << 18


def mappings_table(outcome: Outcome, task: AlignmentTask, min_confidence: float) -> pa.Table:
    """The assigned pairs, by source id, without those below the confidence threshold.

    If confidence could not be calibrated, no pair is left out.
    """
    # Not `>=`: confidence that could not be calibrated is NaN.
    is_kept = ~(outcome.confidence < min_confidence)
    pairs, confidence = outcome.assignment.take(is_kept), outcome.confidence[is_kept]
    columns = [
        task.source.entities.take(pa.array(pairs.source)),
        task.target.entities.take(pa.array(pairs.target)),
        pairs.score,
        pa.array(confidence, mask=np.isnan(confidence)),
        (pairs.rank + 1).astype(np.int32),
        pairs.score - pairs.rival,
        pairs.mutual,
        outcome.ranking.lists.subtask_of_row[pairs.row],
        np.full(len(pairs), outcome.iterations, dtype=np.int32),
    ]
    return pa.table([pa.array(column) for column in columns], schema=MAPPINGS_SCHEMA)


def write_mappings_parquet(table: pa.Table, path: Path) -> None:
    """Write the mappings as Parquet."""
    with _parquet(path, table.schema, use_dictionary=True) as writer:
        writer.write_table(table)


def tsv_problem(table: pa.Table) -> str | None:
    """Why the mappings cannot be written as TSV, such as a label with a tab; None if they can."""
    try:
        check_characters(table, Path(MAPPINGS_TSV))
    except InputError as error:
        return error.message
    return None


def write_mappings_tsv(table: pa.Table, path: Path) -> None:
    """Write the mappings as TSV. Raises InputError if a label contains a tab."""
    write_columns(path, table, header=True)


def write_ranked(outcome: Outcome, task: StoredTask, path: Path, blocks: Blocks = IN_MEMORY) -> str:
    """Write all ranked lists as Parquet, and return the checksum: there may be a hundred million rows.

    Row groups are encoded by `blocks`; only a few of them are in memory at a time.
    """
    # This schema says that the file holds plain labels, not dictionaries.
    metadata = {"ARROW:schema": _stored_schema(RANKED_SCHEMA), ORDER: BY_SUBTASK}
    encode = partial(_encoded, task=task, metadata=metadata)
    with HashedFile(path) as file:
        join_parquet(blocks.map(encode, _row_groups(outcome)), file)
    return file.checksum


@dataclass(frozen=True, eq=False)
class _RowGroup:
    """Consecutive lists, and the pairs that were assigned from them."""

    lists: list[tuple[Matches, slice]]
    subtask: Ids
    """The subtask of each list; `given` and `confidence` are by list, too."""
    given: Ids
    """The assigned target, -1 for none."""
    confidence: npt.NDArray[np.float64]


def _row_groups(outcome: Outcome) -> list[_RowGroup]:
    """All lists by subtask and source, in groups of similar size; an empty group if there are none."""
    lists, pairs = outcome.ranking.lists, outcome.assignment
    rows = np.concatenate([np.zeros(0, dtype=np.int64), *lists.rows])
    given, confidence = pairs.by_row(len(lists)), np.full(len(lists), np.nan)
    confidence[pairs.row] = outcome.confidence
    count = max(_ROWS // max(lists.width, 1), 1)
    groups = []
    for first in range(0, max(len(rows), 1), count):
        own = rows[first : first + count]
        members = lists.between(first, min(first + count, len(rows)))
        groups.append(_RowGroup(members, lists.subtask_of_row[own], given[own], confidence[own]))
    return groups


def _encoded(group: _RowGroup, *, task: StoredTask, metadata: dict[str, str]) -> pa.Buffer:
    """A group of lists as a Parquet file of its own."""
    with pa.BufferOutputStream() as part, _ranked_parquet(part) as writer:
        writer.add_key_value_metadata(metadata)
        if group.lists:
            writer.write_batch(_ranked_batch(group, task.task))
        writer.close()
        return part.getvalue()


def _ranked_batch(group: _RowGroup, task: AlignmentTask) -> pa.RecordBatch:
    """The lists of a group."""
    matches = stacked(group.lists)
    row, place = np.nonzero(matches.target >= 0)
    listed = matches.target[row, place]
    is_given = group.given[row] == listed
    confidence = group.confidence[row]
    columns = [
        _labels(task.source, matches.source, row),
        _labels(task.target, *numbered(listed)),
        (place + 1).astype(np.int32),
        matches.score[row, place],
        pa.array(confidence, mask=~is_given | np.isnan(confidence)),
        group.subtask[row],
        is_given,
    ]
    return pa.record_batch([pa.array(column) for column in columns], schema=_WRITTEN_SCHEMA)


def _labels(graph: KnowledgeGraph, ids: Ids, positions: npt.NDArray[np.integer]) -> pa.DictionaryArray:
    """The labels of the entities at some positions of `ids`."""
    return pa.DictionaryArray.from_arrays(positions.astype(np.int32), graph.entities.take(pa.array(ids)))


_WRITTEN_SCHEMA = pa.schema(
    pa.field(field.name, pa.dictionary(pa.int32(), LABEL)) if field.type == LABEL else field
    for field in RANKED_SCHEMA
)
"""The schema in which ranked lists are passed to the writer, which need not search for repeated labels."""


def _ranked_parquet(file: pa.NativeFile) -> pq.ParquetWriter:
    return _parquet(
        file,
        _WRITTEN_SCHEMA,
        store_schema=False,
        # Scores hardly ever repeat: a dictionary of them would cost time and a third more space.
        use_dictionary=["source", "target", "rank", "subtask"],
        dictionary_pagesize_limit=1 << 24,
        # The smallest and largest label say nothing about lists that are sorted by id.
        write_statistics=["rank", "score", "confidence", "subtask", "given"],
    )


def _stored_schema(schema: pa.Schema) -> str:
    """A schema as Arrow keeps it in the metadata of a Parquet file."""
    with pa.BufferOutputStream() as file:
        pq.write_table(schema.empty_table(), file)
        metadata = pq.read_metadata(pa.BufferReader(file.getvalue())).metadata
    stored: bytes = metadata[b"ARROW:schema"]
    return stored.decode()


def _parquet(file: Path | pa.NativeFile, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    # All options are given, because a default that changes with a release would change the bytes.
    return pq.ParquetWriter(
        file,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        **options,
    )
