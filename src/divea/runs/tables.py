"""The tables of a run: the mappings, and every ranked list. The same outcome gives the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import check_characters, write_columns
from divea.graphs import AlignmentTask
from divea.graphs.labels import LABEL
from divea.loop.confidence import Assignment
from divea.runs.layout import MAPPINGS_TSV

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
"""One row per place of each list; `given` marks the assigned pair."""

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
    with _parquet(path, table.schema) as writer:
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
    # Scores hardly ever repeat: a dictionary of them would cost time and a third more space.
    with _parquet(path, RANKED_SCHEMA, dictionaries=["source", "target", "rank", "subtask"]) as writer:
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
    matches = outcome.matches
    width = max(matches.target.shape[1], 1)
    step = max(_ROWS // width, 1)
    for start in range(0, len(matches), step):
        block = slice(start, start + step)
        target = matches.target[block]
        row, place = np.nonzero(target >= 0)
        is_given = outcome.assigned[block][row] == target[row, place]
        confidence = outcome.confidence[block][row]
        columns = [
            task.source.entities.take(pa.array(matches.source[block][row])),
            task.target.entities.take(pa.array(target[row, place])),
            (place + 1).astype(np.int32),
            matches.score[block][row, place],
            pa.array(confidence, mask=~is_given | np.isnan(confidence)),
            outcome.subtask_of_row[block][row],
            is_given,
        ]
        yield pa.record_batch([pa.array(column) for column in columns], schema=RANKED_SCHEMA)


def _parquet(path: Path, schema: pa.Schema, dictionaries: list[str] | bool = True) -> pq.ParquetWriter:
    # All options are given: a default that changes with a release would change the bytes.
    return pq.ParquetWriter(
        path,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        use_dictionary=dictionaries,
    )
