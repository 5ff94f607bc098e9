"""SBP and I-SBP, the divisions of LIME: CPS from both sides, laid over each other.

The graphs are cut source first and target first. Every source-first part takes in the target-first
part that shares most of its source anchors, and so holds more counterparts, in a larger subtask.
I-SBP does it again in each iteration with the pseudo-seeds as further anchors.

In LIME an entity may be matched in several subtasks. Here, as in every strategy, it is unmatched in
one subtask, that of its source-first part, and context in the others; `divea evaluate-division`
prints both counts of coverage.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divea.division.cps import as_division, cut_along, most_shared
from divea.division.subtask import Division, Feedback
from divea.graphs import AlignmentTask, Links


@dataclass(frozen=True)
class SBP:
    """Divides a task into `parts` subtasks; `iterative` makes it I-SBP."""

    parts: int
    seed: int = 0
    iterative: bool = False

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The subtasks, with pseudo-seeds as anchors too where it is iterative."""
        if feedback is not None and not self.iterative and feedback.previous.matches_the_same(task):
            return feedback.previous
        links = task.seeds
        if self.iterative and feedback is not None:
            links = links.union(feedback.pseudo_seeds)
        parts, seed = self.parts, self.seed
        forward = task.source.adjacency, task.target.adjacency
        source, target = cut_along(*forward, links, parts, seed)
        partner = most_shared(source[links.source], target[links.target], parts, seed)
        turned = Links(links.target, links.source)
        back_target, back_source = cut_along(*forward[::-1], turned, parts, seed)
        back_partner = most_shared(back_source[links.source], back_target[links.target], parts, seed)
        joined = most_shared(source[links.source], back_source[links.source], parts, seed)
        sides = [
            (
                np.flatnonzero((source == part) | (back_source == joined[part])),
                np.flatnonzero((target == partner[part]) | (back_target == back_partner[joined[part]])),
            )
            for part in range(parts)
        ]
        return as_division(task, source, sides)
