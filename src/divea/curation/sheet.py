"""The table of a review sheet: pairs with names, context and other candidates, for a person to judge."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.config.group import shown_value
from divea.errors import InputError
from divea.graphs import AlignmentTask, Links
from divea.graphs.descriptions import describe_entities, describe_pairs
from divea.graphs.labels import LABEL
from divea.runs.export import readable_names
from divea.runs.layout import is_result
from divea.types import Ids, Matches

OTHERS = 3
"""The most other candidates in a row."""

NEIGHBOURS = 5
"""The most neighbours of each end that a row describes."""

MOST_ROWS = 100_000


def check_request(name: str, count: int, path: Path, run: Path | None) -> None:
    """Raise InputError if a sheet cannot have this many rows, or if its file is a file of the run itself."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST_ROWS:
        found = shown_value(count)
        raise InputError(f"{name}: expected a whole number from 1 to {MOST_ROWS}; found {found}")
    if run is None:
        return
    # Unlike Path.resolve, realpath accepts links that lead to themselves.
    place, folder = Path(os.path.realpath(path)), Path(os.path.realpath(run))
    if place.is_relative_to(folder) and is_result(place.relative_to(folder).as_posix()):
        raise InputError("is a file of the run; name another one", path=path)


def sheet_table(
    task: AlignmentTask,
    source: Ids,
    target: Ids,
    *,
    names: tuple[str | None, str | None] = (None, None),
    matched: Links | None = None,
    confidence: npt.NDArray[np.float64] | None = None,
    lists: Matches | None = None,
) -> pa.Table:
    """A table for `divea.formats.sheets.write_sheet`, one row for each source entity.

    Parameters
    ----------
    source, target
        The ends of each row; a target of -1 is left empty.
    names
        The properties that the user said have the names of both graphs.
    matched
        Pairs that are taken to match, beside the seeds: neighbours that match come first in the contexts.
    confidence
        The confidence of each row; NaN if it is not known.
    lists
        Ranked lists with the other candidates of each source; None for none.
    """
    readable = tuple(
        readable_names(graph, wanted) for graph, wanted in zip((task.source, task.target), names, strict=True)
    )
    known = task.seeds if matched is None else task.seeds.union(matched)
    columns: dict[str, pa.Array] = {
        "verdict": pa.nulls(len(source), LABEL),
        "source_label": _taken(readable[0], source),
        "target_label": _taken(readable[1], target),
    }
    if confidence is not None:
        columns["confidence"] = pa.array(np.round(confidence, 4), mask=np.isnan(confidence))
    columns |= _contexts(task, source, target, (readable[0], readable[1]), known)
    columns |= {
        "source": _taken(task.source.entities, source),
        "target": _taken(task.target.entities, target),
    }
    for number, other in enumerate(_others(source, target, lists), start=1):
        columns[f"other_{number}_label"] = _taken(readable[1], other)
        columns[f"other_{number}"] = _taken(task.target.entities, other)
    return pa.table(columns)


def _contexts(
    task: AlignmentTask, source: Ids, target: Ids, names: tuple[pa.Array, pa.Array], known: Links
) -> dict[str, pa.Array]:
    has_target = target >= 0
    if not has_target.any():
        return {"source_context": describe_entities(task.source, source, names[0], NEIGHBOURS)}
    # Rows without a target are described with an arbitrary target, whose context is then removed.
    ends = source, np.where(has_target, target, 0).astype(np.int32)
    left, right = describe_pairs(task, *ends, names, NEIGHBOURS, known)
    return {
        "source_context": left,
        "target_context": _taken(right, np.where(has_target, np.arange(len(right)), -1)),
    }


def _others(source: Ids, target: Ids, lists: Matches | None) -> list[Ids]:
    """The other candidates of each row, best first: one array for each place, -1 for none."""
    if lists is None or not lists.target.shape[1]:
        return []
    # Lists are sorted by source.
    listed = lists.target[np.searchsorted(lists.source, source), : OTHERS + 1]
    # Stable: candidates stay in their order, and the target of the row goes to the end.
    order = np.argsort((listed == target[:, None]) | (listed < 0), axis=1, kind="stable")
    others = np.take_along_axis(listed, order, 1)
    others[np.take_along_axis(listed == target[:, None], order, 1)] = -1
    return list(others[:, :OTHERS].T)


def _taken(values: pa.Array, ids: npt.NDArray[np.integer]) -> pa.Array:
    """The values at these positions; null at -1."""
    return values.take(pa.array(ids, mask=np.asarray(ids) < 0))
