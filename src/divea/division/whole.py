"""No division: the whole task as one subtask, so that users see what dividing costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask


@dataclass(frozen=True)
class Whole:
    """One subtask with everything in it."""

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The task itself; nothing is learned from an earlier iteration."""
        subtask = Subtask.of(
            0,
            task,
            source_entities=np.arange(task.source.num_entities, dtype=np.int32),
            target_entities=np.arange(task.target.num_entities, dtype=np.int32),
            unmatched=task.unmatched_source,
            candidates=task.unmatched_target,
        )
        return Division((subtask,), np.zeros(task.source.num_entities, dtype=np.int32))
