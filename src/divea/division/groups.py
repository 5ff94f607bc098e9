"""Groups of unmatched source entities: one for each subtask, coherent and equally large."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from divea.division.partition import partition
from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import Ids


def group_source(
    task: AlignmentTask, parts: int, *, share: int | None = None, partitioner: str = "metis", seed: int = 0
) -> tuple[Ids, tuple[str, ...]]:
    """The group of every source entity, anchors too, and notes on groups that were divided further.

    Groups are balanced on what a subtask must hold: the unmatched entities. Where a group still
    has more of them than `share`, it is divided further. A group without any is no group; its
    anchors get -1.
    """
    weights = np.ones(task.source.num_entities, dtype=np.int64)
    weights[task.seeds.source] = 0
    parts = min(parts, max(1, int(weights.sum())))
    groups = partition(task.source.adjacency, parts, weights, method=partitioner, seed=seed)
    notes: tuple[str, ...] = ()
    if share is not None:
        before = parts
        groups = _divide_further(task, groups, weights, share, partitioner, seed)
        after = int(groups.max(initial=-1)) + 1
        if after > before:
            notes = (
                f"{before} groups were divided further into {after}: a group's unmatched entities "
                f"must not exceed their share of {share}",
            )
    return renumbered(groups, weights), notes


def _divide_further(
    task: AlignmentTask, groups: Ids, weights: np.ndarray, share: int, partitioner: str, seed: int
) -> Ids:
    groups = groups.copy()
    after = int(groups.max(initial=-1)) + 1
    for group in np.flatnonzero(np.bincount(groups, weights) > share):
        members = np.flatnonzero(groups == group)
        pieces = -(-int(weights[members].sum()) // share)
        inside = task.source.adjacency[members][:, members]
        piece = partition(inside, pieces, weights[members], method=partitioner, seed=seed)
        if np.bincount(piece, weights[members]).max() > share:
            # Too small or too loose a graph to be balanced by its edges: cut it into even lengths.
            ahead = np.cumsum(weights[members][np.argsort(piece, kind="stable")]) - 1
            piece[np.argsort(piece, kind="stable")] = np.maximum(ahead, 0) // share
        groups[members] = np.where(piece == 0, group, after + piece - 1)
        after += int(piece.max())
    return groups


def renumbered(groups: Ids, weights: np.ndarray) -> Ids:
    """Number the groups that hold an unmatched entity from 0 on."""
    holds = np.bincount(groups, weights) > 0 if len(groups) else np.zeros(0, dtype=bool)
    number = np.where(holds, np.cumsum(holds) - 1, -1).astype(np.int32)
    return number[groups] if len(groups) else groups


def members_of(groups: Ids, ids: Ids) -> list[Ids]:
    """The given source entities by group, each list sorted."""
    own = groups[ids]
    count = int(own.max(initial=-1)) + 1
    # Numbers of two bytes are sorted by radix.
    order = np.argsort(own.astype(np.int16) if count < 1 << 15 else own, kind="stable")
    bounds = np.searchsorted(own[order], np.arange(count + 1))
    return [ids[order[first:last]] for first, last in pairwise(bounds)]


def target_anchors(seeds: Links, num_source: int, contexts: list[Ids]) -> list[Ids]:
    """The matches of the anchors among each list of source entities."""
    match = np.full(num_source, -1, dtype=np.int32)
    match[seeds.source] = seeds.target
    return [match[context][match[context] >= 0] for context in contexts]


def seeds_by_part(task: AlignmentTask, parts: int) -> list[dict[str, float]]:
    """How the seeds spread over the groups: their number, and the share of entities near one."""
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
