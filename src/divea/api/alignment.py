"""The result of an alignment in Python: tables of pairs, what they are worth, and what can be done next."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from divea.api.call import Made, executor_settings, run_alignment, sheets_of
from divea.config import Settings
from divea.config.executor import ExecutorSettings
from divea.config.group import shown_value
from divea.curation.review import review
from divea.errors import InputError
from divea.evaluation import AlignmentMetrics, evaluate_alignment, read_gold, true_curve
from divea.evaluation.ranking import Protocol
from divea.explanations import Explanation, explain
from divea.formats import write_mappings
from divea.formats.make_task import links_of
from divea.formats.task_folders import folder_around
from divea.graphs import AlignmentTask, Links
from divea.io import usable_path
from divea.report import write_report
from divea.report.facts import THRESHOLDS, Curve
from divea.report.page import Step, Truth
from divea.resources.limits import Limits
from divea.runs.export import ExportOptions, export_pairs
from divea.runs.finished import RankedLists, open_finished, read_ranked_lists
from divea.runs.html import as_html
from divea.runs.refine import with_more

if TYPE_CHECKING:
    import pandas
    import polars


class Alignment:
    """The result of a run: tables of pairs, and how good they are where gold links are known.

    Parameters
    ----------
    run
        The run directory of a finished run.

    Examples
    --------
    >>> alignment = Alignment("run")  # doctest: +SKIP
    >>> alignment.to_pandas()  # doctest: +SKIP
    """

    def __init__(self, run: str | Path):
        self._run = open_finished(usable_path(run))
        self._temporary: list[TemporaryDirectory[str]] = []
        """The temporary folders of this run and of those that it refines; they are deleted with it."""

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._run.path

    @property
    def task(self) -> AlignmentTask:
        """The task that was aligned."""
        return self._run.task

    @property
    def settings(self) -> Settings:
        """The effective settings of the run."""
        return self._run.manifest.settings

    @cached_property
    def mappings(self) -> pa.Table:
        """At most one target per source, without seeds and without pairs below the confidence threshold.

        Columns: source, target, score, confidence, rank, margin, mutual, subtask, iteration.
        """
        return self._run.mappings

    @cached_property
    def ranked(self) -> pa.Table:
        """The best targets of every source.

        Columns: source, target, rank, score, confidence, subtask, given.
        """
        return self._run.ranked

    def to_pandas(self) -> pandas.DataFrame:
        """The mappings as a pandas DataFrame. Raises InputError if pandas is not installed."""
        _require("pandas", "to_pandas")
        return self.mappings.to_pandas()

    def to_polars(self) -> polars.DataFrame:
        """The mappings as a polars DataFrame. Raises InputError if polars is not installed."""
        return _require("polars", "to_polars").from_arrow(self.mappings)

    def evaluate(
        self,
        gold: Any,
        protocol: Protocol = "open",
        *,
        min_confidence: float | None = None,
        folder: str | Path | None = None,
    ) -> AlignmentMetrics:
        """Compare the alignment with gold links.

        Parameters
        ----------
        gold
            The links: a file, a table with the columns source and target, a dict, pairs of labels, or links
            in ids. Links that are seeds are left out.
        protocol
            "open" ranks all targets without a seed, "closed" only those of the gold links.
        min_confidence
            Evaluate all assigned pairs with at least this confidence instead of those in the mappings.
        folder
            The task folder whose own ids the gold file uses.

        Examples
        --------
        >>> alignment.evaluate("gold.tsv").h1  # doctest: +SKIP
        """
        if protocol not in ("open", "closed"):
            raise InputError(f"unknown protocol {protocol!r}; choose from open, closed")
        is_number = isinstance(min_confidence, int | float) and not isinstance(min_confidence, bool)
        if min_confidence is not None and not (is_number and 0 <= min_confidence <= 1):
            shown = shown_value(min_confidence)
            raise InputError(f"min_confidence: expected a number from 0 to 1; found {shown}")
        gold = self._gold(gold, folder)
        lists = self._ranked_lists
        if min_confidence is None:
            table = self.mappings
            pairs = Links.from_labels(table["source"], table["target"], self.task.source, self.task.target)
        else:
            pairs = lists.assigned_above(min_confidence)
        return evaluate_alignment(lists.matches, pairs, self._run.division, gold, protocol)

    def explain(self, source: str, target: str | None = None) -> Explanation:
        """Explain why two entities were matched, or were not.

        Parameters
        ----------
        source
            The label of an entity of the source graph, or its name if no other entity has it.
        target
            The label or name of an entity of the target graph; by default the one that the source was
            matched with or, if it has no match, its best candidate.

        Examples
        --------
        >>> print(alignment.explain("http://source.example/resource/E102"))  # doctest: +SKIP
        """
        return explain(self._run, source, target)

    def report(
        self,
        path: str | Path,
        gold: Any = None,
        *,
        folder: str | Path | None = None,
        on_step: Step | None = None,
    ) -> int:
        """Write a report: one HTML page that shows how sure the pairs are, what is missing, and why some
        pairs were matched. Returns its size in bytes.

        Parameters
        ----------
        path
            The file to write; its name ends in .html.
        gold
            Gold links, as in `evaluate`: the page then shows true precision and recall too.
        folder
            The task folder whose own ids the gold file uses.
        on_step
            Called with the number of explained pairs and their total, for a progress display.

        Examples
        --------
        >>> alignment.report("report.html")  # doctest: +SKIP
        """
        return write_report(self._run, path, None if gold is None else self._truth(gold, folder), on_step)

    def save(self, path: str | Path) -> None:
        """Write the mappings in the format that the name says: .tsv, .csv, .parquet, .sssom.tsv, .nt or
        .rdf. Formats other than the first three hold no more columns than `export` writes.

        Examples
        --------
        >>> alignment.save("mappings.sssom.tsv")  # doctest: +SKIP
        """
        write_mappings(self.mappings, usable_path(path))

    def export(
        self,
        path: str | Path,
        *,
        precision: float | None = None,
        min_confidence: float | None = None,
        names: bool = False,
        seeds: bool = False,
        context: int | None = None,
        for_spreadsheet: bool = False,
    ) -> pa.Table:
        """Write pairs to a file, with a threshold of your choice and more about each pair.

        Without a threshold, these are the pairs of the mappings. Returns the table that was written, with
        the columns source, target, score, confidence and rank, and the columns that the options add. A
        warning says what the format cannot hold, and whether the precision is uncertain.

        Parameters
        ----------
        path
            The file; its suffix selects the format, as in `save`.
        precision
            Write the most pairs of which this share is expected to be correct.
        min_confidence
            Write the pairs with at least this confidence.
        names
            Add readable names, in the columns source_label and target_label.
        seeds
            Add the seeds after the other pairs, with confidence 1; the column origin distinguishes them.
        context
            Add up to this many neighbours of each end as text, in source_context and target_context.
        for_spreadsheet
            Write a .tsv or .csv file that a spreadsheet can open safely.

        Examples
        --------
        >>> alignment.export("sure.sssom.tsv", precision=0.99, names=True)  # doctest: +SKIP
        """
        options = ExportOptions(precision, min_confidence, names, seeds, context, for_spreadsheet)
        exported = export_pairs(self._run, self._ranked_lists, path, options)
        for note in exported.notes:
            warnings.warn(note, stacklevel=2)
        return exported.table

    def _gold(self, gold: Any, folder: str | Path | None) -> Links:
        """Gold links from a file or an object; links that are seeds are left out."""
        if gold is None:
            raise InputError("gold: expected links; found None")
        if not isinstance(gold, str | Path):
            links = links_of(gold, self.task.source, self.task.target, where="gold")
            return links.without(self.task.seeds)
        gold = usable_path(gold)
        folder = None if folder is None else usable_path(folder)
        return read_gold(gold, self.task, folder or folder_around(gold) or self._task_folder)

    def _truth(self, gold: Any, folder: str | Path | None) -> Truth:
        """What gold links say, for the report."""
        links = self._gold(gold, folder)
        lists = self._ranked_lists
        curve = true_curve(lists.assigned, lists.confidence, links, THRESHOLDS)
        precision = [None if np.isnan(value) else float(value) for value in curve.precision]
        shown = Curve(curve.pairs.tolist(), precision, curve.recall.tolist())
        found = self.evaluate(links)
        pairs = found.pairs
        of_mappings = {
            "recall": pairs.recall,
            "precision by ends": pairs.end_precision,
            "strict precision": pairs.strict_precision,
        }
        counterparts = dict(links.pairs.tolist()), dict(links.pairs[:, ::-1].tolist())
        return Truth(shown, {**found.ranking(), **of_mappings}, len(links), *counterparts)

    def review(self, path: str | Path, pairs: int = 200, *, for_spreadsheet: bool = False) -> pa.Table:
        """Write the pairs that are worth a person's time as a sheet, the most valuable first.

        A person fills in the column verdict: accept, reject, or the label of the right target. The sheet
        then goes into `refine`, or into `align(task, reviewed=path)`. Returns the table that was written.

        Parameters
        ----------
        path
            The sheet: a .tsv, .csv or .sssom.tsv file.
        pairs
            The most pairs to write.
        for_spreadsheet
            Write a .tsv or .csv file that a spreadsheet can open safely.

        Examples
        --------
        >>> alignment.review("sheet.tsv", pairs=50)  # doctest: +SKIP
        """
        return review(self._run, self._ranked_lists, path, pairs, for_spreadsheet=for_spreadsheet)

    def refine(
        self,
        reviewed: str | Path | Sequence[str | Path] = (),
        *,
        seeds: Any = None,
        skip_unknown_seeds: bool = False,
        out: str | Path | None = None,
        executor: ExecutorSettings | str = "auto",
        workers: int | None = None,
        device: str = "auto",
        memory: int | str | None = None,
        gpu_memory: int | str | None = None,
        progress: bool | None = None,
    ) -> Alignment:
        """Align again with more seeds or with verdicts, and solve only what they change.

        The settings stay the same. Only the last iteration is repeated, in the subtasks that the new pairs
        concern. If there are many new pairs compared with the seeds, `align` finds more, because all its
        iterations learn from them.

        Parameters
        ----------
        reviewed
            A review sheet with verdicts, or several.
        seeds
            More seeds: a file, a table with the columns source and target, a dict, or pairs of labels.
        skip_unknown_seeds
            Leave out seeds of unknown entities.
        out
            The new run directory; without it, the run is in a temporary folder. Keep this run until the new
            one is finished, and as long as you want to refine the new one.
        executor, workers, device, memory, gpu_memory, progress
            As in `align`.

        Examples
        --------
        >>> alignment.review("sheet.tsv")  # doctest: +SKIP
        >>> better = alignment.refine("sheet.tsv", out="run2")  # doctest: +SKIP
        """
        sheets = sheets_of(reviewed)
        if seeds is None and not sheets:
            raise InputError("nothing to refine with: give sheets with verdicts, or seeds")
        path = self._run.path
        made = run_alignment(
            lambda: with_more(path, seeds, sheets, skip_unknown_seeds=skip_unknown_seeds),
            None,
            out=out,
            executor=executor_settings(executor, workers),
            limits=Limits.of(device, memory, gpu_memory),
            progress=progress,
            refines=path,
        )
        return alignment_of(made, refines=self)

    @property
    def _task_folder(self) -> Path | None:
        """The folder that the task was read from, if it still exists."""
        folder = self._run.manifest.folder
        return Path(folder) if folder is not None and Path(folder).is_dir() else None

    @cached_property
    def _ranked_lists(self) -> RankedLists:
        return read_ranked_lists(self._run)

    def __repr__(self) -> str:
        return f"Alignment({len(self.mappings)} pairs)"

    def _repr_html_(self) -> str:
        return as_html(self._run, self.mappings)


def _require(library: str, method: str) -> Any:
    """A library that divea does not depend on. Raises InputError if it is not installed."""
    try:
        return import_module(library)
    except ImportError as error:
        raise InputError(f"{method} needs {library}: pip install {library}") from error


def alignment_of(made: Made, *, refines: Alignment | None = None) -> Alignment:
    """The alignment of a run that was made here.

    Parameters
    ----------
    refines
        The alignment that the run refines: its files must last as long as the new one.
    """
    alignment = Alignment(made.run)
    own = [] if made.temporary is None else [made.temporary]
    alignment._temporary = own + ([] if refines is None else refines._temporary)
    return alignment
