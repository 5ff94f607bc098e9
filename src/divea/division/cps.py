"""CPS, the division of LargeEA: cut the source, then cut the target along the same anchors.

The source is cut by METIS. In the target, the anchors of each source part are tied together by
heavy edges and edges between the anchors of different parts are removed, so that cutting the target
keeps a part's anchors together. Each source part is then paired with the target part that holds most
of its anchors. Sizes are what comes out.

Left out is what made the public code a poor rival or leaked: it maps anchors through all links, the
test links too, and ties are broken by file order. Here only seeds are known, and ties are drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from divea.division.columns import tie_draw
from divea.division.partition import partition
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import Ids

TIE = 1000
"""Weight of an edge between anchors of one part."""


@dataclass(frozen=True)
class CPS:
    """Divides a task into `parts` pairs of source and target parts."""

    parts: int
    seed: int = 0

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The subtasks; nothing is learned from an earlier iteration."""
        if feedback is not None and feedback.previous.matches_the_same(task):
            return feedback.previous
        source, target = cut_along(
            task.source.adjacency, task.target.adjacency, task.seeds, self.parts, self.seed
        )
        partner = most_shared(source[task.seeds.source], target[task.seeds.target], self.parts, self.seed)
        sides = [
            (np.flatnonzero(source == part), np.flatnonzero(target == partner[part]))
            for part in range(self.parts)
        ]
        return as_division(task, source, sides)


def cut_along(first: csr_array, second: csr_array, anchors: Links, parts: int, seed: int) -> tuple[Ids, Ids]:
    """Cut one graph freely, and the other one along the anchors; `anchors.source` lie in the first."""
    # Each graph borrows the other's edges between anchors, which counts for the cut only.
    lent_first = _lend(second, anchors.target, anchors.source, first.shape[0])
    lent_second = _lend(first, anchors.source, anchors.target, second.shape[0])
    left = _simple(first + lent_first)
    part = partition(left, parts, np.ones(left.shape[0], dtype=np.int64), seed=seed)
    right = _tied(_simple(second + lent_second), anchors.target, part[anchors.source], seed)
    return part, partition(right, parts, np.ones(right.shape[0], dtype=np.int64), seed=seed)


def _lend(graph: csr_array, its_anchors: Ids, their_anchors: Ids, size: int) -> csr_array:
    """The edges between anchors, moved to the matching entities of the other graph."""
    match = np.full(graph.shape[0], -1, dtype=np.int32)
    match[its_anchors] = their_anchors
    edges = graph.tocoo()
    row, column = match[edges.row], match[edges.col]
    both = (row >= 0) & (column >= 0)
    return coo_array((edges.data[both], (row[both], column[both])), shape=(size, size)).tocsr()


def _simple(graph: csr_array) -> csr_array:
    """Every edge once, as LargeEA counts them."""
    graph = graph.tocsr().copy()
    graph.data[:] = 1
    return graph


def _tied(graph: csr_array, anchors: Ids, part: Ids, seed: int) -> csr_array:
    """Heavy edges within the anchors of a part, none between those of different parts."""
    of = np.full(graph.shape[0], -1, dtype=np.int32)
    of[anchors] = part
    edges = graph.tocoo()
    left, right = of[edges.row], of[edges.col]
    apart = (left >= 0) & (right >= 0) & (left != right)
    weights = np.where((left >= 0) & (left == right), TIE, 1)[~apart]
    # One anchor of each part, by draw, is tied to all the others.
    order = np.lexsort((tie_draw(graph.shape[0], seed, "target")[anchors], part))
    start = np.unique(part[order], return_index=True)[1]
    centre = np.repeat(anchors[order][start], np.diff([*start, len(order)])) if len(order) else anchors
    spokes = anchors[order] != centre
    ends, centres = anchors[order][spokes], centre[spokes]
    rows = np.concatenate([edges.row[~apart], ends, centres])
    columns = np.concatenate([edges.col[~apart], centres, ends])
    values = np.concatenate([weights, np.full(2 * len(ends), TIE)])
    return coo_array((values, (rows, columns)), shape=graph.shape).tocsr()


def most_shared(first: Ids, second: Ids, parts: int, seed: int) -> Ids:
    """For each part of the first cut, the part of the second that holds most of the same anchors."""
    shared = np.zeros((parts, parts))
    np.add.at(shared, (first, second), 1)
    # Equal counts, such as a part without anchors, are decided by draw.
    shared += np.random.default_rng([seed, 4]).random(shared.shape) / 2
    return np.argmax(shared, axis=1).astype(np.int32)


def as_division(task: AlignmentTask, groups: Ids, sides: list[tuple[np.ndarray, np.ndarray]]) -> Division:
    """Subtasks from (source, target) entities; a part matches its own group, and only with non-anchors."""
    is_anchor = np.zeros(task.source.num_entities, dtype=bool)
    is_anchor[task.seeds.source] = True
    is_taken = np.zeros(task.target.num_entities, dtype=bool)
    is_taken[task.seeds.target] = True
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
