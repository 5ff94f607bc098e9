"""The contract of a division strategy as an executable check, for the built-in ones and for plug-ins."""

from __future__ import annotations

import numpy as np

from divea.division.strategy import Strategy
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask
from divea.types import Ids


def check_division(
    strategy: Strategy, task: AlignmentTask, *, size: int | None = None, feedback: Feedback | None = None
) -> Division:
    """Divide a task, and raise AssertionError if the result breaks the contract.

    Every unmatched source entity is in exactly one subtask. Entities are sorted and distinct. Seeds are
    exactly those of the task with both ends inside. No anchor is unmatched or a candidate. No subtask is
    larger than `size`. The same call gives the same subtasks again.

    >>> from divea.division import Whole
    >>> from divea.graphs.planted import planted_pair
    >>> check_division(Whole(), planted_pair().task).subtasks[0].size
    160
    """
    division = strategy.divide(task, feedback)
    for subtask in division.subtasks:
        _check_subtask(subtask, task)
        if size is not None:
            _require(subtask.size <= size, subtask, f"holds {subtask.size} entities, more than {size}")
    matched_here = [subtask.unmatched for subtask in division.subtasks]
    together = np.sort(np.concatenate(matched_here)) if matched_here else np.zeros(0, dtype=np.int32)
    if not np.array_equal(together, task.unmatched_source):
        raise AssertionError("not every unmatched source entity is in exactly one subtask")
    for index, subtask in enumerate(division.subtasks):
        _require(subtask.index == index, subtask, f"is at position {index}")
        own = division.groups[subtask.unmatched]
        _require(bool((own == index).all()), subtask, "has unmatched entities of another part")
    if strategy.divide(task, feedback).subtasks != division.subtasks:
        raise AssertionError("the same call gave different subtasks")
    return division


def _check_subtask(subtask: Subtask, task: AlignmentTask) -> None:
    for side, ids, graph in (
        ("source", subtask.source_entities, task.source),
        ("target", subtask.target_entities, task.target),
    ):
        _require(bool((np.diff(ids) > 0).all()), subtask, f"its {side} entities are not sorted and distinct")
        known = len(ids) == 0 or (ids[0] >= 0 and ids[-1] < graph.num_entities)
        _require(bool(known), subtask, f"has {side} entities that do not exist")
    _require(
        _inside(subtask.unmatched, subtask.source_entities),
        subtask,
        "does not hold all of its unmatched entities",
    )
    _require(
        _inside(subtask.candidates, subtask.target_entities), subtask, "does not hold all of its candidates"
    )
    taken = np.isin(subtask.candidates, task.seeds.target).any()
    _require(not taken, subtask, "has an anchor among its candidates")
    inside = np.isin(task.seeds.source, subtask.source_entities) & np.isin(
        task.seeds.target, subtask.target_entities
    )
    expected = task.seeds.pairs[inside]
    _require(
        np.array_equal(subtask.seeds.pairs, expected),
        subtask,
        "its seeds are not those with both ends inside",
    )


def _inside(ids: Ids, whole: Ids) -> bool:
    return bool(np.isin(ids, whole).all())


def _require(holds: bool, subtask: Subtask, complaint: str) -> None:
    if not holds:
        raise AssertionError(f"subtask {subtask.index}: {complaint}")
