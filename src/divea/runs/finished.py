"""Opens a finished run. It may have been made by somebody else: everything is checked before it is used."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.division import Division, load_division
from divea.errors import InputError
from divea.formats.parquet import read_encoded_batches, read_whole_table
from divea.graphs import AlignmentTask, KnowledgeGraph, Links, load_task
from divea.runs.directory import is_valid_file
from divea.runs.journal import read_journal
from divea.runs.layout import DIVISION, MAPPINGS, MAPPINGS_TSV, RANKED, TABLES, TASK
from divea.runs.manifest import Manifest
from divea.runs.opening import read_stored_task
from divea.runs.tables import MAPPINGS_SCHEMA, RANKED_SCHEMA
from divea.types import Ids, Matches
from divea.wording import worded

_TOO_MANY = "holds more than a run of this task can"
_FOREIGN = "holds ranked lists that do not belong to the task"


@dataclass(frozen=True)
class FinishedRun:
    """A run whose tables are written."""

    path: Path
    manifest: Manifest
    task: AlignmentTask

    @cached_property
    def division(self) -> Division:
        """The division of the last iteration."""
        return load_division(self.path / DIVISION, self.task)

    @property
    def mappings(self) -> pa.Table:
        """At most one target per source; see `divea.runs.tables.MAPPINGS_SCHEMA`."""
        return _read(self.path / MAPPINGS, MAPPINGS_SCHEMA, self.task.source.num_entities)

    @property
    def ranked(self) -> pa.Table:
        """Every ranked list; see `divea.runs.tables.RANKED_SCHEMA`."""
        return _read(self.path / RANKED, RANKED_SCHEMA, self.most_ranked)

    @property
    def most_ranked(self) -> int:
        """The most rows that the ranked lists can have."""
        return self.task.source.num_entities * self.manifest.settings.output.top


def open_finished(path: Path, *, check_large: bool = True) -> FinishedRun:
    """Open a run whose tables are written.

    Parameters
    ----------
    check_large
        Whether to compare the task, the division and the ranked lists with their checksums. That reads all
        of their bytes, which takes seconds at millions of entities. Without it, they are only checked for
        values that do not belong there, the division when it is first used.
    """
    manifest = Manifest.load(path)
    if not (path / MAPPINGS).is_file():
        raise InputError(f"is not finished; {continuing(path)} continues it", path=path)
    task = read_stored_task(path, manifest) if check_large else load_task(path / TASK)
    large = () if check_large else (RANKED, MAPPINGS, MAPPINGS_TSV, DIVISION)
    damaged = _damaged(path, [name for name in (*TABLES, DIVISION) if name not in large])
    if damaged is not None:
        repair = worded(command="the command that made the run", python="divea.align with the same arguments")
        raise InputError(f"is damaged; {repair} repairs it", path=path / damaged)
    run = FinishedRun(path, manifest, task)
    if check_large:
        # A damaged division must show now, and not in the middle of the work.
        assert run.division is not None
    return run


def continuing(path: Path) -> str:
    """The command or call that continues an unfinished run, for messages."""
    return worded(
        command=f"`divea align --out {path}`", python=f"divea.align with the same task and out={str(path)!r}"
    )


def _damaged(path: Path, names: Iterable[str]) -> str | None:
    """The first of these files that does not have the checksum of the journal."""
    entries = {entry.file: entry for entry in read_journal(path)}
    for name in names:
        if name not in entries or not is_valid_file(path, entries[name]):
            return name
    return None


@dataclass(frozen=True)
class RankedLists:
    """The ranked lists of a run, in entity ids, and the assigned pairs."""

    matches: Matches
    assigned: Links
    confidence: npt.NDArray[np.float64]
    """The confidence of each assigned pair; NaN if it was not calibrated."""
    score: npt.NDArray[np.float32]
    rank: npt.NDArray[np.int32]
    """The score of each assigned pair, and its rank in the list of its source."""

    def assigned_above(self, confidence: float) -> Links:
        """The assigned pairs with at least this confidence; all of them if it was not calibrated."""
        return Links.from_pairs(self.assigned.pairs[~(self.confidence < confidence)])


def read_ranked_lists(run: FinishedRun) -> RankedLists:
    """The ranked lists of a run; ids and ranks are checked."""
    rows = _read_rows(run)
    source, target, rank = rows.source, rows.target, rows.rank
    first = np.diff(source, prepend=-1) != 0
    sources = source[first]
    by_source = np.argsort(sources)
    # The rows of a list are consecutive, and are numbered from 1 without gaps.
    is_numbered = (rank[first] == 1).all() and (np.diff(rank)[~first[1:]] == 1).all()
    if (
        not ((source >= 0).all() and (target >= 0).all() and is_numbered)
        or len(np.unique(sources)) < len(sources)
        or (rank > run.manifest.settings.output.top).any()
    ):
        raise InputError(_FOREIGN, path=run.path / RANKED)
    row, place = np.cumsum(first, dtype=np.int32) - 1, rank - 1
    shape = (len(sources), int(rank.max(initial=0)))
    targets, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    targets[row, place], scores[row, place] = target, rows.score
    given = np.flatnonzero(rows.given)
    # Links are sorted by source: bring the other columns into the same order.
    order = np.argsort(source[given], kind="stable")
    given, confidence = given[order], rows.confidence_of_given[order]
    if not (np.diff(source[given]) > 0).all():
        raise InputError("assigns several targets to a source", path=run.path / RANKED)
    not_mutual = np.zeros(len(sources), dtype=bool)
    matches = Matches(sources[by_source], targets[by_source], scores[by_source], not_mutual)
    return RankedLists(
        matches,
        Links.from_pairs(np.stack([source[given], target[given]], axis=1)),
        confidence,
        rows.score[given],
        rank[given],
    )


@dataclass(frozen=True)
class _Rows:
    """The rows of the ranked lists, with ids in place of labels."""

    source: Ids
    target: Ids
    rank: npt.NDArray[np.int32]
    score: npt.NDArray[np.float32]
    given: npt.NDArray[np.bool_]
    confidence_of_given: npt.NDArray[np.float64]
    """The confidence of the rows that are assigned pairs."""


def _read_rows(run: FinishedRun) -> _Rows:
    """Read the ranked lists in batches: their labels would take many times the memory of their ids."""
    empty = [pa.RecordBatch.from_pylist([], schema=RANKED_SCHEMA)]
    parts: list[list[np.ndarray]] = [[] for _ in fields(_Rows)]
    rows = 0
    for batch in chain(empty, read_encoded_batches(run.path / RANKED, RANKED_SCHEMA)):
        if (rows := rows + len(batch)) > run.most_ranked:
            raise InputError(_TOO_MANY, path=run.path / RANKED)
        if any(batch[field.name].null_count for field in RANKED_SCHEMA if field.name != "confidence"):
            raise InputError(_FOREIGN, path=run.path / RANKED)
        given = batch["given"].to_numpy(zero_copy_only=False)
        confidence = batch["confidence"].to_numpy(zero_copy_only=False)
        ids = _ids(batch["source"], run.task.source), _ids(batch["target"], run.task.target)
        columns = *ids, batch["rank"].to_numpy(), batch["score"].to_numpy(), given, confidence[given]
        for part, column in zip(parts, columns, strict=True):
            part.append(column)
    return _Rows(*map(np.concatenate, parts))


def _read(path: Path, schema: pa.Schema, most_rows: int) -> pa.Table:
    """A table with these columns and at most this many rows; its size is checked before it is read."""
    table = read_whole_table(path, schema)
    if len(table) > most_rows:
        raise InputError(_TOO_MANY, path=path)
    return table


def _ids(labels: pa.Array, graph: KnowledgeGraph) -> Ids:
    """The id of each label; each distinct label is looked up once."""
    encoded = labels.dictionary_encode()
    return graph.find(encoded.dictionary)[encoded.indices.to_numpy(zero_copy_only=False)]
