"""Groups of unmatched source entities, one per part: coherent and of equal size."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from divea.division.partition import partition
from divea.graphs import AlignmentTask, Links
from divea.types import Ids


def group_source(
    task: AlignmentTask,
    parts: int,
    *,
    largest: int | None = None,
    partitioner: str = "metis",
    random_seed: int = 0,
) -> tuple[Ids, tuple[str, ...]]:
    """The part of every source entity, anchors included, and notes on groups that were divided further.

    Groups are balanced on unmatched entities, which a subtask must hold. A group with more than `largest` of
    them is divided further. A group without any is dropped: its anchors get part -1.
    """
    weights = np.ones(task.source.num_entities, dtype=np.int64)
    weights[task.seeds.source] = 0
    parts = min(parts, max(1, int(weights.sum())))
    groups = partition(task.source.adjacency, parts, weights, method=partitioner, random_seed=random_seed)
    notes: tuple[str, ...] = ()
    if largest is not None:
        groups = _divide_large_groups(task, groups, weights, largest, partitioner, random_seed)
        after = int(groups.max(initial=-1)) + 1
        if after > parts:
            notes = (
                f"{parts} groups were divided further into {after}: a group may hold at most {largest} "
                "unmatched entities",
            )
    return renumbered(groups, weights), notes


def _divide_large_groups(
    task: AlignmentTask, groups: Ids, weights: np.ndarray, largest: int, partitioner: str, random_seed: int
) -> Ids:
    groups = groups.copy()
    count = int(groups.max(initial=-1)) + 1
    for group in np.flatnonzero(np.bincount(groups, weights) > largest):
        members = np.flatnonzero(groups == group)
        pieces = -(-int(weights[members].sum()) // largest)
        inside = task.source.adjacency[members][:, members]
        piece = partition(inside, pieces, weights[members], method=partitioner, random_seed=random_seed)
        if np.bincount(piece, weights[members]).max() > largest:
            # The graph is too small, or has too few edges, to be balanced: cut it into equal pieces.
            order = np.argsort(piece, kind="stable")
            ahead = np.cumsum(weights[members][order]) - 1
            piece[order] = np.maximum(ahead, 0) // largest
        groups[members] = np.where(piece == 0, group, count + piece - 1)
        count += int(piece.max())
    return groups


def renumbered(groups: Ids, weights: np.ndarray) -> Ids:
    """Number the groups that hold an unmatched entity, from 0; the others become -1."""
    if not len(groups):
        return groups
    is_used = np.bincount(groups, weights) > 0
    number = np.where(is_used, np.cumsum(is_used) - 1, -1).astype(np.int32)
    return number[groups]


def members_of(groups: Ids, ids: Ids) -> list[Ids]:
    """The given source entities by part, each list sorted."""
    own = groups[ids]
    count = int(own.max(initial=-1)) + 1
    # numpy sorts two-byte integers by radix.
    order = np.argsort(own.astype(np.int16) if count < 1 << 15 else own, kind="stable")
    bounds = np.searchsorted(own[order], np.arange(count + 1))
    return [ids[order[first:last]] for first, last in pairwise(bounds)]


def target_anchors(seeds: Links, num_source: int, contexts: list[Ids]) -> list[Ids]:
    """For each list of source entities, the target ends of the anchors in it."""
    target_of = np.full(num_source, -1, dtype=np.int32)
    target_of[seeds.source] = seeds.target
    return [target_of[context][target_of[context] >= 0] for context in contexts]


def seeds_by_part(task: AlignmentTask, parts: int) -> list[dict[str, float]]:
    """How the seeds spread over the parts: their number, and the share of entities within a hop of a seed."""
    groups, _ = group_source(task, parts)
    anchored = np.zeros(task.source.num_entities, dtype=np.float32)
    anchored[task.seeds.source] = 1
    near = (anchored > 0) | (task.source.adjacency @ anchored > 0)
    return [
        {
            "entities": len(members),
            "seeds": int(anchored[members].sum()),
            "near": float(near[members].mean()),
        }
        for members in members_of(groups, np.flatnonzero(groups >= 0).astype(np.int32))
    ]
