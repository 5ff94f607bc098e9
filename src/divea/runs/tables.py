"""The tables of a run: the mappings, and every ranked list. The same outcome gives the same bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
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
from divea.graphs.labels import LABEL
from divea.loop.confidence import Assignment
from divea.resources.machine import cores
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
    """Write all ranked lists as Parquet: there may be a hundred million rows.

    Blocks of rows are encoded on all cores; only a few of them are in memory at a time.
    """
    matches = outcome.matches
    order = np.lexsort([matches.source, outcome.subtask_of_row])
    lists = max(_ROWS // max(matches.target.shape[1], 1), 1)
    # The file says that it holds plain labels, not dictionaries.
    metadata = {"ARROW:schema": _stored_schema(RANKED_SCHEMA), ORDER: BY_SUBTASK}

    def encoded(first: int) -> pa.Buffer:
        with pa.BufferOutputStream() as part, _ranked_parquet(part) as writer:
            writer.add_key_value_metadata(metadata)
            if len(order):
                writer.write_batch(_ranked_batch(outcome, task, order[first : first + lists]))
            writer.close()
            return part.getvalue()

    with path.open("wb") as file:
        join_parquet(_made_ahead(encoded, range(0, max(len(order), 1), lists)), file)


def _made_ahead(make: Callable[[int], pa.Buffer], numbers: Iterable[int]) -> Iterator[pa.Buffer]:
    """What `make` returns for each number, in order, made in threads while earlier ones are used."""
    threads = cores()
    with ThreadPoolExecutor(threads) as pool:
        made: deque[Future[pa.Buffer]] = deque()
        for number in numbers:
            made.append(pool.submit(make, number))
            if len(made) > 2 * threads:
                yield made.popleft().result()
        while made:
            yield made.popleft().result()


def _ranked_batch(outcome: Outcome, task: AlignmentTask, rows: npt.NDArray[np.integer]) -> pa.RecordBatch:
    """The lists of some rows of the matches."""
    matches = outcome.matches
    target = matches.target[rows]
    row, place = np.nonzero(target >= 0)
    listed = target[row, place]
    is_given = outcome.assigned[rows][row] == listed
    confidence = outcome.confidence[rows][row]
    columns = [
        _labels(task.source, matches.source[rows], row),
        _labels(task.target, *_numbered(listed, task.target.num_entities)),
        (place + 1).astype(np.int32),
        matches.score[rows][row, place],
        pa.array(confidence, mask=~is_given | np.isnan(confidence)),
        outcome.subtask_of_row[rows][row],
        is_given,
    ]
    return pa.record_batch([pa.array(column) for column in columns], schema=_WRITTEN_SCHEMA)


def _numbered(ids: Ids, most: int) -> tuple[Ids, Ids]:
    """The distinct ids in order, and the position of each id among them; faster than by sorting."""
    is_used, code = np.zeros(most, dtype=bool), np.empty(most, dtype=np.int32)
    is_used[ids] = True
    distinct = np.flatnonzero(is_used).astype(np.int32)
    code[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, code[ids]


def _labels(graph: KnowledgeGraph, ids: Ids, positions: npt.NDArray[np.integer]) -> pa.DictionaryArray:
    """The labels of the entities at some positions of `ids`."""
    return pa.DictionaryArray.from_arrays(positions.astype(np.int32), graph.entities.take(pa.array(ids)))


_WRITTEN_SCHEMA = pa.schema(
    pa.field(field.name, pa.dictionary(pa.int32(), LABEL)) if field.type == LABEL else field
    for field in RANKED_SCHEMA
)
"""How ranked lists are handed to the writer: it need not search for labels that repeat."""


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
    # All options are given: a default that changes with a release would change the bytes.
    return pq.ParquetWriter(
        file,
        schema,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=3,
        **options,
    )
