"""The rivals' divisions: CPS of LargeEA, SBP and I-SBP of LIME.

CPS partitions the source with METIS. In the target, heavy edges tie the anchors of each source part
together, and edges between anchors of different parts are removed, so that a partition of the target keeps
a part's anchors together. Each source part is then paired with the target part that holds most of its
anchors. There is no size limit. Two faults of the public code are not reproduced: it maps anchors through
all links, test links included, and it breaks ties by file order. Here only seeds are known, and ties are
broken by a seeded draw.

SBP does this source first and target first. Every source-first part takes in the target-first part that
shares most of its source anchors, and so holds more counterparts, in a larger subtask. I-SBP does it again
in each iteration, with the pseudo-seeds as further anchors. In LIME an entity may be matched in several
subtasks. Here, as in every strategy, it is unmatched in one subtask, that of its source-first part, and
context in the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.sparse import coo_array, csr_array

from divea.config import DivisionSettings
from divea.division.partition import partition
from divea.division.selection import tie_breakers
from divea.division.strategy import Strategy
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask, Links
from divea.graphs.ids import marked
from divea.types import Ids

TIE_WEIGHT = 1000
"""Weight of an edge between anchors of one part."""


@dataclass(frozen=True)
class CPS(Strategy):
    """Divides a task into `parts` pairs of source and target parts."""

    parts: int
    random_seed: int = 0

    @classmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> CPS:
        return cls(parts, random_seed)

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """Divide the task; nothing is learned from an earlier iteration.

        Pairs that features are sure of before the first iteration are seeds, as in LargeEA.
        """
        seeds = task.seeds
        if feedback is not None:
            if feedback.previous is None:
                seeds = seeds.union(feedback.pseudo_seeds)
            elif feedback.previous.covers_unmatched_of(task):
                return feedback.previous
        source, target = partition_along(
            task.source.adjacency, task.target.adjacency, seeds, self.parts, self.random_seed
        )
        partner = most_shared(source[seeds.source], target[seeds.target], self.parts, self.random_seed)
        sides = [
            (np.flatnonzero(source == part), np.flatnonzero(target == partner[part]))
            for part in range(self.parts)
        ]
        return as_division(task, source, sides)


def partition_along(
    first: csr_array, second: csr_array, anchors: Links, parts: int, random_seed: int
) -> tuple[Ids, Ids]:
    """Partition one graph freely, and the other along the anchors; `anchors.source` lie in the first."""
    # Each graph borrows the other's edges between anchors, for the partition only.
    lent_first = _edges_between_anchors(second, anchors.target, anchors.source, first.shape[0])
    lent_second = _edges_between_anchors(first, anchors.source, anchors.target, second.shape[0])
    left = _unweighted(first + lent_first)
    part = partition(left, parts, np.ones(left.shape[0], dtype=np.int64), random_seed=random_seed)
    right = _tied(_unweighted(second + lent_second), anchors.target, part[anchors.source], random_seed)
    return part, partition(right, parts, np.ones(right.shape[0], dtype=np.int64), random_seed=random_seed)


def _edges_between_anchors(graph: csr_array, its_anchors: Ids, their_anchors: Ids, size: int) -> csr_array:
    """The edges between anchors, moved to the matching entities of the other graph."""
    match = np.full(graph.shape[0], -1, dtype=np.int32)
    match[its_anchors] = their_anchors
    edges = graph.tocoo()
    row, column = match[edges.row], match[edges.col]
    both = (row >= 0) & (column >= 0)
    return coo_array((edges.data[both], (row[both], column[both])), shape=(size, size)).tocsr()


def _unweighted(graph: csr_array) -> csr_array:
    """The graph with weight 1 for every edge, as in LargeEA."""
    graph = graph.tocsr().copy()
    graph.data[:] = 1
    return graph


def _tied(graph: csr_array, anchors: Ids, part: Ids, random_seed: int) -> csr_array:
    """The graph with heavy edges between the anchors of a part, and none between those of different parts."""
    part_of = np.full(graph.shape[0], -1, dtype=np.int32)
    part_of[anchors] = part
    edges = graph.tocoo()
    left, right = part_of[edges.row], part_of[edges.col]
    apart = (left >= 0) & (right >= 0) & (left != right)
    weights = np.where((left >= 0) & (left == right), TIE_WEIGHT, 1)[~apart]
    # One anchor of each part, drawn at random, is tied to all the others.
    order = np.lexsort((tie_breakers(graph.shape[0], random_seed, "target")[anchors], part))
    start = np.unique(part[order], return_index=True)[1]
    centre = np.repeat(anchors[order][start], np.diff([*start, len(order)])) if len(order) else anchors
    spokes = anchors[order] != centre
    ends, centres = anchors[order][spokes], centre[spokes]
    rows = np.concatenate([edges.row[~apart], ends, centres])
    columns = np.concatenate([edges.col[~apart], centres, ends])
    values = np.concatenate([weights, np.full(2 * len(ends), TIE_WEIGHT)])
    return coo_array((values, (rows, columns)), shape=graph.shape).tocsr()


def most_shared(first: Ids, second: Ids, parts: int, random_seed: int) -> Ids:
    """For each part of the first partition, the part of the second that holds most of the same anchors."""
    shared = np.zeros((parts, parts))
    np.add.at(shared, (first, second), 1)
    # Ties, such as parts without anchors, are broken at random.
    shared += np.random.default_rng([random_seed, 4]).random(shared.shape) / 2
    return np.argmax(shared, axis=1).astype(np.int32)


def as_division(task: AlignmentTask, groups: Ids, sides: list[tuple[np.ndarray, np.ndarray]]) -> Division:
    """Subtasks from the (source, target) entities of every part.

    A subtask matches the unmatched entities of its own group, and only with targets that are no anchors.
    """
    is_anchor = marked(task.seeds.source, task.source.num_entities)
    is_taken = marked(task.seeds.target, task.target.num_entities)
    subtasks: list[Subtask] = []
    number = np.full(len(sides), -1, dtype=np.int32)
    for part, (source, target) in enumerate(sides):
        unmatched = np.flatnonzero((groups == part) & ~is_anchor)
        if len(unmatched):
            number[part] = len(subtasks)
            subtasks.append(
                Subtask.of(
                    len(subtasks),
                    task,
                    source_entities=source,
                    target_entities=target,
                    unmatched=unmatched,
                    candidates=target[~is_taken[target]],
                )
            )
    return Division(tuple(subtasks), number[groups])


@dataclass(frozen=True)
class SBP(Strategy):
    """Divides a task into `parts` subtasks, by the seeds alone."""

    uses_pseudo_seeds: ClassVar[bool] = False

    parts: int
    random_seed: int = 0

    @classmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> Self:
        return cls(parts, random_seed)

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """Divide the task, with pseudo-seeds as further anchors in I-SBP."""
        links = task.seeds
        if feedback is not None:
            if self.uses_pseudo_seeds or feedback.previous is None:
                links = links.union(feedback.pseudo_seeds)
            elif feedback.previous.covers_unmatched_of(task):
                return feedback.previous
        parts, random_seed = self.parts, self.random_seed
        graphs = task.source.adjacency, task.target.adjacency
        source, target = partition_along(*graphs, links, parts, random_seed)
        partner = most_shared(source[links.source], target[links.target], parts, random_seed)
        reverse = Links(links.target, links.source)
        target_first, source_second = partition_along(*graphs[::-1], reverse, parts, random_seed)
        second_partner = most_shared(
            source_second[links.source], target_first[links.target], parts, random_seed
        )
        joined = most_shared(source[links.source], source_second[links.source], parts, random_seed)
        sides = [
            (
                np.flatnonzero((source == part) | (source_second == joined[part])),
                np.flatnonzero((target == partner[part]) | (target_first == second_partner[joined[part]])),
            )
            for part in range(parts)
        ]
        return as_division(task, source, sides)


@dataclass(frozen=True)
class ISBP(SBP):
    """SBP that divides again in every iteration."""

    uses_pseudo_seeds = True
