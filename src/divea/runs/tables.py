"""The tables of a run: the mappings, and every ranked list. The same outcome gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import check_characters, write_columns
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.loop.confidence import Assignment
from divea.runs.layout import MAPPINGS_TSV
from divea.types import Ids

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
other's best match. subtask: the subtask of the source in the
last iteration. iteration: the number of iterations, whose scores were averaged."""

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
"""One row per place of each list; `given` marks the assigned pair. The lists of a subtask follow each other,
sorted by the source's id: they share their candidates, so labels repeat and take little time and space."""

ORDER, BY_SUBTASK = "divea:order", "subtask, source"
"""The entry of the file's metadata that says how lists are sorted. Earlier versions sorted them by source
alone, and did not say so."""

_ROWS = 1 << 18


def mappings_table(outcome: Outcome, task: AlignmentTask, min_confidence: float) -> pa.Table:
    """The assigned pairs, by source id, without those below the confidence threshold.

    If confidence could not be calibrated, no pair is left out.
    """
    matches = outcome.matches
    kept = np.where(outcome.confidence < min_confidence, np.int32(-1), outcome.assigned)
    pairs = Assignment.of(matches, kept)
    if not len(pairs):
        return MAPPINGS_SCHEMA.empty_table()
    rows, place = pairs.row, pairs.rank
    confidence = outcome.confidence[rows]
    score = matches.score[rows, place]
    is_alone = matches.target.shape[1] == 1
    runner_up = -np.inf if is_alone else matches.score[rows, 1]
    margin = score - np.where(place == 0, runner_up, matches.score[rows, 0])
    columns = [
        task.source.entities.take(pa.array(matches.source[rows])),
        task.target.entities.take(pa.array(pairs.target)),
        score,
        pa.array(confidence, mask=np.isnan(confidence)),
        (place + 1).astype(np.int32),
        margin,
        matches.mutual[rows] & (place == 0),
        outcome.subtask_of_row[rows],
        np.full(len(rows), outcome.iterations, dtype=np.int32),
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


def write_ranked(outcome: Outcome, task: AlignmentTask, path: Path) -> None:
    """Write all ranked lists as Parquet, a block of rows at a time: there may be a hundred million."""
    with _ranked_parquet(path) as writer:
        # The file says that it holds plain labels, not dictionaries.
        writer.add_key_value_metadata({"ARROW:schema": _stored_schema(RANKED_SCHEMA), ORDER: BY_SUBTASK})
        for batch in _made_ahead(_ranked_batches(outcome, task)):
            writer.write_batch(batch)


def _made_ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, each made in another thread while the one before it is written."""
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(next, batches, None)
        while (batch := following.result()) is not None:
            following = pool.submit(next, batches, None)
            yield batch


def _ranked_batches(outcome: Outcome, task: AlignmentTask) -> Iterator[pa.RecordBatch]:
    matches, targets = outcome.matches, _Codes(task.target.num_entities)
    width = max(matches.target.shape[1], 1)
    step = max(_ROWS // width, 1)
    order = np.lexsort([matches.source, outcome.subtask_of_row])
    for start in range(0, len(matches), step):
        block = order[start : start + step]
        target = matches.target[block]
        row, place = np.nonzero(target >= 0)
        is_given = outcome.assigned[block][row] == target[row, place]
        confidence = outcome.confidence[block][row]
        columns = [
            _labels(task.source, matches.source[block], row),
            _labels(task.target, *targets.of(target[row, place])),
            (place + 1).astype(np.int32),
            matches.score[block][row, place],
            pa.array(confidence, mask=~is_given | np.isnan(confidence)),
            outcome.subtask_of_row[block][row],
            is_given,
        ]
        yield pa.record_batch([pa.array(column) for column in columns], schema=_WRITTEN_SCHEMA)


class _Codes:
    """Numbers the distinct ids of many arrays, faster than by sorting each of them."""

    def __init__(self, size: int):
        self._is_used, self._code = np.zeros(size, dtype=bool), np.zeros(size, dtype=np.int32)

    def of(self, ids: Ids) -> tuple[Ids, Ids]:
        """The distinct ids in order, and the position of each id among them."""
        self._is_used[ids] = True
        distinct = np.flatnonzero(self._is_used).astype(np.int32)
        self._is_used[distinct] = False
        self._code[distinct] = np.arange(len(distinct), dtype=np.int32)
        return distinct, self._code[ids]


def _labels(graph: KnowledgeGraph, ids: Ids, positions: npt.NDArray[np.integer]) -> pa.DictionaryArray:
    """The labels of the entities at some positions of `ids`."""
    return pa.DictionaryArray.from_arrays(positions.astype(np.int32), graph.entities.take(pa.array(ids)))


_WRITTEN_SCHEMA = pa.schema(
    pa.field(field.name, pa.dictionary(pa.int32(), LABEL)) if field.type == LABEL else field
    for field in RANKED_SCHEMA
)
"""How ranked lists are handed to the writer: it need not search for labels that repeat."""


def _ranked_parquet(path: Path) -> pq.ParquetWriter:
    return _parquet(
        path,
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


def _parquet(path: Path, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
    # All options are given: a default that changes with a release would change the bytes.
    return pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        **options,
    )
