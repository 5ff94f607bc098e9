"""`divea.align` in Python: a task in, an `Alignment` out; the same code as `divea align`."""

from __future__ import annotations

import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from divea.division.plan import parse_memory
from divea.errors import InputError
from divea.evaluation import AlignmentMetrics, evaluate_alignment, read_gold
from divea.evaluation.ranking import Protocol
from divea.formats import mapping_table, read_task, write_mappings
from divea.formats.sniff import suffix_of
from divea.formats.task_folders import folder_around
from divea.graphs import AlignmentTask, Links
from divea.graphs.builder import as_one_array
from divea.run.align import align_in
from divea.run.finished import Lists, open_finished, read_lists
from divea.run.prepare import Limits
from divea.run.staff import Staff


class Alignment:
    """The result of a run: tables of entities, and how good they are where gold is known."""

    def __init__(self, run: str | Path):
        self._run = open_finished(Path(run))
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._run.path

    @property
    def task(self) -> AlignmentTask:
        """The task that was aligned."""
        return self._run.task

    @cached_property
    def mappings(self) -> pa.Table:
        """One target at most for each source: source, target, score, confidence, rank, margin, mutual,
        subtask, iteration. Pairs less sure than the setting `min_confidence` are left out."""
        return self._run.mappings

    @cached_property
    def ranked(self) -> pa.Table:
        """The best targets of every source: source, target, rank, score, confidence, subtask, given."""
        return self._run.ranked

    def evaluate(
        self,
        gold: str | Path | Links,
        protocol: Protocol = "open",
        *,
        min_confidence: float | None = None,
        folder: str | Path | None = None,
    ) -> AlignmentMetrics:
        """Compare with gold links, in ids or in a file; `folder` explains ids of a file that are its own."""
        if protocol not in ("open", "closed"):
            raise InputError(f"unknown protocol {protocol!r}; choose from open, closed")
        if not isinstance(gold, Links):
            gold = read_gold(gold, self.task, folder or folder_around(gold) or self._task_folder)
        lists = self._lists
        if min_confidence is None:
            table = self.mappings
            given = Links.from_labels(table["source"], table["target"], self.task.source, self.task.target)
        else:
            given = lists.given_above(min_confidence)
        return evaluate_alignment(lists.matches, given, self._run.division, gold, protocol)

    def save(self, path: str | Path) -> None:
        """Write the mappings as the name says: .tsv, .csv, .parquet, .sssom.tsv, .nt or .rdf."""
        table = self.mappings
        if suffix_of(Path(path)) in (".nt", ".rdf") or ".sssom." in Path(path).name.lower():
            score, confidence = (
                as_one_array(table[name].cast(pa.float64())) for name in ("score", "confidence")
            )
            table = mapping_table(table["source"], table["target"], score, confidence)
        write_mappings(table, path)

    @property
    def _task_folder(self) -> Path | None:
        """The folder that the task was read from, if it is still there."""
        folder = self._run.manifest.folder
        return Path(folder) if folder is not None and Path(folder).is_dir() else None

    @cached_property
    def _lists(self) -> Lists:
        return read_lists(self._run)

    def __repr__(self) -> str:
        return f"Alignment({len(self.mappings)} pairs)"


def align(
    task: AlignmentTask | str | Path,
    *,
    out: str | Path | None = None,
    executor: str = "inline",
    workers: int | None = None,
    address: str | None = None,
    device: str = "auto",
    memory: int | str | None = None,
    gpu_memory: int | str | None = None,
    **settings: Any,
) -> Alignment:
    """Align a task; `settings` are those of `divea.Settings`, as subtasks=5, size=7792, model="rrea".

    `out` is a run directory: call again with the same, and what was done is not done again. Without it a
    temporary one is used, which goes when the alignment does.
    """
    folder = None if isinstance(task, AlignmentTask) else str(Path(task).absolute())

    def read() -> AlignmentTask:
        return task if isinstance(task, AlignmentTask) else read_task(task)

    temporary = tempfile.TemporaryDirectory(prefix="divea-") if out is None else None
    run = Path(temporary.name) / "run" if temporary is not None else Path(out or "")
    limits = Limits(device, _bytes(memory), _bytes(gpu_memory))
    unsolved = align_in(run, read, settings, limits, Staff(executor, workers, address), None, folder)
    if unsolved:
        raise RuntimeError(f"{len(unsolved)} subtasks could not be solved; the first:\n{unsolved[0].log}")
    alignment = Alignment(run)
    alignment._temporary = temporary
    return alignment


def _bytes(size: int | str | None) -> int | None:
    return parse_memory(size) if isinstance(size, str) else size
