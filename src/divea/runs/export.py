"""Exports pairs of a finished run: with another threshold, with names, seeds and context."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.config.group import shown_value
from divea.errors import CalibrationError, InputError
from divea.features.names import naming_properties
from divea.formats import write_mappings
from divea.formats.mapping_files import mapping_suffix
from divea.formats.output import require_spreadsheet
from divea.graphs import KnowledgeGraph, Links
from divea.graphs.descriptions import describe_pairs
from divea.graphs.labels import LABEL
from divea.graphs.names import entity_names, name_predicates, readable
from divea.io import usable_path
from divea.loop.confidence import threshold_for
from divea.runs.expectation import figures_above
from divea.runs.finished import FinishedRun, RankedLists
from divea.runs.layout import CALIBRATION, MAPPINGS, is_result
from divea.runs.write import MOST_BELOW
from divea.types import Ids

MOST_CONTEXT = 100
"""The most neighbours of each end: a row must stay short enough to be read."""

WITH_NAMES = (".sssom.tsv", ".tsv", ".csv", ".parquet")
"""The suffixes of the formats that have a place for names and context."""


@dataclass(frozen=True)
class ExportOptions:
    """Which pairs are exported, and what is written with them."""

    precision: float | None = None
    """The expected precision of the pairs."""
    min_confidence: float | None = None
    """The confidence below which pairs are left out."""
    names: bool = False
    seeds: bool = False
    context: int | None = None
    """The most neighbours of each end that are written as text."""
    for_spreadsheet: bool = False

    def check(self) -> None:
        """Raise InputError if an option is out of its range, or if two exclude each other."""
        precision, least, context = self.precision, self.min_confidence, self.context
        if precision is not None and least is not None:
            raise InputError("precision and min_confidence exclude each other; give one of them")
        if precision is not None and not (_is_number(precision) and 0 < precision < 1):
            found = shown_value(precision)
            raise InputError(f"precision: expected a number above 0 and below 1; found {found}")
        if least is not None and not (_is_number(least) and 0 <= least <= 1):
            raise InputError(f"min_confidence: expected a number from 0 to 1; found {shown_value(least)}")
        if context is not None and (isinstance(context, bool) or context not in range(1, MOST_CONTEXT + 1)):
            found = shown_value(context)
            raise InputError(f"context: expected a whole number from 1 to {MOST_CONTEXT}; found {found}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Exported:
    """What was written."""

    table: pa.Table
    seeds: int
    """The number of seeds among the pairs; they are the last rows of the table."""
    figures: dict[str, Any] | None
    """The expected precision and recall of the pairs that are no seeds; None if there is no confidence."""
    notes: list[str]
    """A sentence for each thing that the user should know."""


@dataclass(frozen=True)
class _Pairs:
    """Pairs of ids, in order of source id, with their figures."""

    source: Ids
    target: Ids
    score: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int32]


def export_pairs(
    run: FinishedRun, lists: RankedLists, path: str | Path, options: ExportOptions | None = None
) -> Exported:
    """Write pairs of a run to a file; the suffix selects the format, as in `write_mappings`.

    Raises CalibrationError if a threshold is given and the run has no confidence, or if no threshold gives
    the precision.

    Parameters
    ----------
    lists
        The ranked lists of the run.
    """
    options = options or ExportOptions()
    options.check()
    path = usable_path(path)
    _check_output(path, run.path, options)
    threshold = _threshold(options, lists, run.path)
    pairs = _own_pairs(run) if threshold is None else _pairs_above(threshold, lists)
    table = _table(pairs, run, options)
    figures = None
    if np.isfinite(lists.confidence).any():
        # The pairs of the mappings are those above the run's own threshold.
        least = pairs.confidence.min(initial=np.inf) if threshold is None else threshold
        figures = figures_above(float(least), lists.confidence)
    notes = write_mappings(table, path, for_spreadsheet=options.for_spreadsheet)
    if options.for_spreadsheet:
        notes.append("this file is for people: read back, labels after an apostrophe would be others")
    if options.precision is not None:
        notes += _doubts(run.path)
    return Exported(table, len(table) - len(pairs.source), figures, notes)


def _check_output(path: Path, run: Path, options: ExportOptions) -> None:
    """Raise InputError if the file cannot hold what was asked for, or is a file of the run itself."""
    suffix = mapping_suffix(path)
    asked = [name for name, is_asked in (("names", options.names), ("context", options.context)) if is_asked]
    if asked and suffix not in WITH_NAMES:
        formats = f"{', '.join(WITH_NAMES[:-1])} or {WITH_NAMES[-1]}"
        raise InputError(f"a {suffix} file cannot hold {' and '.join(asked)}; use {formats}", path=path)
    if options.for_spreadsheet:
        require_spreadsheet(path, suffix)
    # Unlike Path.resolve, realpath accepts links that lead to themselves.
    place, folder = Path(os.path.realpath(path)), Path(os.path.realpath(run))
    if place.is_relative_to(folder) and is_result(place.relative_to(folder).as_posix()):
        raise InputError("is a file of the run; name another one", path=path)


def _threshold(options: ExportOptions, lists: RankedLists, run: Path) -> float | None:
    """The threshold that the options ask for; None for the run's own mappings."""
    if options.precision is None and options.min_confidence is None:
        return None
    known = lists.confidence[np.isfinite(lists.confidence)]
    if not len(known):
        raise CalibrationError(
            "the pairs of this run have no confidence; leave the precision and the confidence out to get all",
            path=run,
        )
    if options.precision is None:
        return options.min_confidence
    threshold = threshold_for(options.precision, known)
    if np.isinf(threshold):
        raise CalibrationError(
            f"no pairs have an expected precision of {options.precision}: the most confident one has "
            f"{known.max():.4f}",
            path=run,
        )
    return threshold


def _own_pairs(run: FinishedRun) -> _Pairs:
    """The pairs of the run's mappings."""
    table = run.mappings
    source, target = run.task.source.find(table["source"]), run.task.target.find(table["target"])
    if (source < 0).any() or (target < 0).any():
        raise InputError("holds pairs that do not belong to the task", path=run.path / MAPPINGS)
    columns = (table[name].to_numpy() for name in ("score", "confidence", "rank"))
    return _Pairs(source, target, *columns)


def _pairs_above(threshold: float, lists: RankedLists) -> _Pairs:
    """The assigned pairs with at least this confidence."""
    kept = lists.confidence >= threshold
    assigned = lists.assigned
    return _Pairs(
        assigned.source[kept],
        assigned.target[kept],
        lists.score[kept],
        lists.confidence[kept],
        lists.rank[kept],
    )


def _table(pairs: _Pairs, run: FinishedRun, options: ExportOptions) -> pa.Table:
    """The pairs, followed by the seeds if asked for, with the columns that were asked for."""
    task, settings = run.task, run.manifest.settings
    seeds = task.seeds if options.seeds else Links.from_pairs([])
    found, known = len(pairs.source), len(seeds)
    source = np.concatenate([pairs.source, seeds.source])
    target = np.concatenate([pairs.target, seeds.target])
    is_unknown = np.isnan(pairs.confidence)
    confidence = pa.array(pairs.confidence, mask=is_unknown)
    columns = {
        "score": pa.concat_arrays([pa.array(pairs.score, pa.float32()), pa.nulls(known, pa.float32())]),
        "confidence": pa.concat_arrays([confidence, pa.array(np.ones(known))]),
        "rank": pa.concat_arrays([pa.array(pairs.rank, pa.int32()), pa.nulls(known, pa.int32())]),
    }
    further: dict[str, pa.Array] = {}
    if options.seeds:
        origin = pa.array(["found", "seed"], LABEL)
        further["origin"] = origin.take(pa.array(np.repeat([0, 1], [found, known])))
    labels = {}
    if options.names or options.context is not None:
        wanted = settings.features.names
        names = readable_names(task.source, wanted.source), readable_names(task.target, wanted.target)
        if options.names:
            labels = {
                "source_label": names[0].take(pa.array(source)),
                "target_label": names[1].take(pa.array(target)),
            }
        if options.context is not None:
            contexts = describe_pairs(task, source, target, names, options.context)
            further |= dict(zip(("source_context", "target_context"), contexts, strict=True))
    ends = {
        "source": task.source.entities.take(pa.array(source)),
        "target": task.target.entities.take(pa.array(target)),
    }
    return pa.table({**ends, **labels, **columns, **further})


def readable_names(graph: KnowledgeGraph, wanted: str | None = None) -> pa.Array:
    """A name for each entity, in one line of text.

    It is the value of a property that names things, one of those that the feature `names` reads, or else the
    end of the IRI.

    Parameters
    ----------
    wanted
        The property that the user said has the names.

    Examples
    --------
    >>> graph = KnowledgeGraph.from_triples([], ["http://x.example/New_York", "Oslo"])
    >>> sorted(readable_names(graph).to_pylist())
    ['New York', 'Oslo']
    """
    found = naming_properties(graph) if wanted is None else ()
    return readable(entity_names(graph, name_predicates(found, wanted)))


def _doubts(run: Path) -> list[str]:
    """A sentence if the run's own interval says that its expected precision is uncertain."""
    try:
        found = json.loads((run / CALIBRATION).read_bytes())
        expected, (low, high) = float(found["expected_precision"]), map(float, found["interval"])
        judged = int(found["judged_pairs"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []
    if expected - low <= MOST_BELOW:
        return []
    return [
        f"the precision is uncertain: the {judged} judged pairs of the run say only that the precision of "
        f"its mappings is between {low:.2f} and {high:.2f}"
    ]
