"""Opens what a run gave. It may have been made elsewhere: everything is checked before it is used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from divea.division import Division, load_division
from divea.errors import InputError
from divea.graphs import AlignmentTask, KnowledgeGraph, Links, load_task
from divea.graphs.labels import Ids
from divea.matching import Matches
from divea.run.checksums import file_checksum, task_checksums
from divea.run.directory import DIVISION, MAPPINGS, RANKED, TASK
from divea.run.journal import read_journal
from divea.run.manifest import Manifest
from divea.run.tables import MAPPINGS as MAPPINGS_COLUMNS
from divea.run.tables import RANKED as RANKED_COLUMNS


@dataclass(frozen=True)
class FinishedRun:
    """A run that has its tables."""

    path: Path
    manifest: Manifest
    task: AlignmentTask
    division: Division

    @property
    def mappings(self) -> pa.Table:
        """One target at most for each source; see `divea.run.tables.MAPPINGS`."""
        return _read(self.path / MAPPINGS, MAPPINGS_COLUMNS)

    @property
    def ranked(self) -> pa.Table:
        """Every ranked list; see `divea.run.tables.RANKED`."""
        return _read(self.path / RANKED, RANKED_COLUMNS)


def open_finished(path: Path) -> FinishedRun:
    """Open a run whose tables are written."""
    manifest = Manifest.load(path)
    if not (path / MAPPINGS).is_file():
        raise InputError(f"is not finished; `divea align --out {path}` goes on with it", path=path)
    task = load_task(path / TASK)
    damaged = _damaged(path)
    if task_checksums(task) != manifest.task:
        damaged = TASK
    if damaged is not None:
        raise InputError("is damaged; the command that made the run mends it", path=path / damaged)
    return FinishedRun(path, manifest, task, load_division(path / DIVISION, task))


def _damaged(path: Path) -> str | None:
    """A file that is not what the journal says."""
    checksums = {entry.file: entry.checksum for entry in read_journal(path)}
    for name in (MAPPINGS, RANKED, DIVISION):
        if name not in checksums or file_checksum(path / name) != checksums[name]:
            return name
    return None


@dataclass(frozen=True)
class Lists:
    """The ranked lists of a run in ids, and which pair each source was given."""

    matches: Matches
    given: Links
    confidence: npt.NDArray[np.float64]
    """Of each given pair; NaN where it was not calibrated."""

    def given_above(self, confidence: float) -> Links:
        """Pairs that are at least so sure; all where confidence was not calibrated."""
        return Links.from_pairs(self.given.pairs[~(self.confidence < confidence)])


def read_lists(run: FinishedRun) -> Lists:
    """The lists of a run; ids and places are checked."""
    table = run.ranked
    source, target = _ids(table["source"], run.task.source), _ids(table["target"], run.task.target)
    rank = table["rank"].to_numpy()
    first = np.diff(source, prepend=-1) != 0
    # Lists stand one after the other, each from 1 on without a gap.
    place = np.arange(len(rank)) - np.maximum.accumulate(np.where(first, np.arange(len(rank)), 0))
    sources = source[first]
    sound = (source >= 0).all() and (target >= 0).all() and np.array_equal(rank, place + 1)
    if not sound or len(np.unique(sources)) < len(sources) or (rank > run.manifest.settings.top).any():
        raise InputError("holds lists that are none of this task", path=run.path / RANKED)
    row = np.cumsum(first) - 1
    shape = (len(sources), int(rank.max(initial=0)))
    targets, scores = np.full(shape, -1, np.int32), np.full(shape, -np.inf, np.float32)
    targets[row, place], scores[row, place] = target, table["score"].to_numpy()
    given = table["given"].to_numpy()
    confidence = table["confidence"].to_numpy()[given]
    pairs = np.stack([source[given], target[given]], axis=1)
    # Links are sorted by source, so the confidences are too.
    confidence = confidence[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    matches = Matches(sources, targets, scores, np.zeros(len(sources), dtype=bool))
    return Lists(matches, Links.from_pairs(pairs), confidence)


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path, memory_map=False)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be opened: {error}", path=path) from error
    if table.schema != schema:
        raise InputError("has other columns than a run of this release writes", path=path)
    return table


def _ids(column: pa.ChunkedArray, graph: KnowledgeGraph) -> Ids:
    """Ids of labels; each distinct label is looked up once."""
    found = []
    for chunk in column.chunks:
        encoded = chunk.dictionary_encode()
        ids = graph.find(encoded.dictionary)
        found.append(ids[encoded.indices.to_numpy(zero_copy_only=False)])
    return np.concatenate([np.zeros(0, dtype=np.int32), *found])
