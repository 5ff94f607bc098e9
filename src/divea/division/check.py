"""The contract of a division, as a check that every strategy passes and a user's own can call."""

from __future__ import annotations

import numpy as np

from divea.division.resolver import Strategy
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask
from divea.graphs.labels import Ids


def check_division(
    strategy: Strategy, task: AlignmentTask, *, size: int | None = None, feedback: Feedback | None = None
) -> Division:
    """Divide a task and raise AssertionError where the result breaks the contract.

    Every unmatched source entity is in exactly one subtask; entities are sorted and distinct;
    seeds are exactly those of the task with both ends inside; no anchor is unmatched or a
    candidate; with `size`, no subtask is larger. And the same call gives the same subtasks again.

    >>> from divea.division import Whole
    >>> from divea.graphs.synth import SynthConfig, synthesise
    >>> check_division(Whole(), synthesise(SynthConfig(entities=50)).task).subtasks[0].size
    100
    """
    division = strategy.divide(task, feedback)
    for subtask in division.subtasks:
        _check_subtask(subtask, task)
        if size is not None:
            _require(subtask.size <= size, subtask, f"holds {subtask.size} entities, more than {size}")
    matched_here = [subtask.unmatched for subtask in division.subtasks]
    together = np.sort(np.concatenate(matched_here)) if matched_here else np.zeros(0, dtype=np.int32)
    if not np.array_equal(together, task.unmatched_source):
        raise AssertionError("the unmatched source entities are not in exactly one subtask each")
    for index, subtask in enumerate(division.subtasks):
        _require(subtask.index == index, subtask, f"stands at {index}")
        own = division.groups[subtask.unmatched]
        _require(bool((own == index).all()), subtask, "has unmatched entities of another group")
    if strategy.divide(task, feedback).subtasks != division.subtasks:
        raise AssertionError("the same call gave other subtasks")
    return division


def _check_subtask(subtask: Subtask, task: AlignmentTask) -> None:
    for side, ids, graph in (
        ("source", subtask.source_entities, task.source),
        ("target", subtask.target_entities, task.target),
    ):
        _require(bool((np.diff(ids) > 0).all()), subtask, f"its {side} entities are not sorted and distinct")
        known = len(ids) == 0 or (ids[0] >= 0 and ids[-1] < graph.num_entities)
        _require(bool(known), subtask, f"names {side} entities that do not exist")
    _require(_inside(subtask.unmatched, subtask.source_entities), subtask, "lacks some of its unmatched")
    _require(_inside(subtask.candidates, subtask.target_entities), subtask, "lacks some of its candidates")
    taken = np.isin(subtask.candidates, task.seeds.target).any()
    _require(not taken, subtask, "offers an anchor as a candidate")
    inside = np.isin(task.seeds.source, subtask.source_entities) & np.isin(
        task.seeds.target, subtask.target_entities
    )
    expected = task.seeds.pairs[inside]
    _require(np.array_equal(subtask.seeds.pairs, expected), subtask, "its seeds are not those inside")


def _inside(ids: Ids, whole: Ids) -> bool:
    return bool(np.isin(ids, whole).all())


def _require(holds: bool, subtask: Subtask, complaint: str) -> None:
    if not holds:
        raise AssertionError(f"subtask {subtask.index}: {complaint}")
