"""Counterpart discovery: which target entities may be the matches of each part's unmatched ones.

Whoever is near the target anchors of a part is a likely counterpart of its members (`locality`). What
a model learned in an earlier iteration is added on top (Eqs. 3-5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import NEVER, best, by_part, tie_draw
from divea.division.locality import measure
from divea.division.threads import side_by_side
from divea.graphs import Links
from divea.graphs.labels import Ids


def likelihood(adjacency: csr_array, seeds: Ids) -> np.ndarray:
    """How likely entities are to have a counterpart at all, by their degree; 1 is as likely as any.

    Where entities of some degree are rarer among the seeds than in the graph, they are so much less
    likely: in DBP15K, 18 % of the target entities have one neighbour, but 1 in 300 of the seeds'.
    Degrees are told apart by half octaves.

    >>> path = csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    >>> likelihood(path, np.array([1, 2])).tolist()  # the ends are expected once among two seeds
    [0.5, 1.0, 1.0, 0.5]
    """
    kind = np.rint(2 * np.log2(np.maximum(np.diff(adjacency.indptr), 1))).astype(np.int64)
    total = np.bincount(kind)
    expected = total * len(seeds) / max(1, len(kind))
    seen = np.bincount(kind[seeds], minlength=len(total))
    # One more of each, so that few seeds say little.
    odds: np.ndarray = np.minimum(1, (seen + 1) / (expected + 1)).astype(np.float32)[kind]
    return odds


def discover(
    adjacency: csr_array,
    anchors: Links,
    groups: Ids,
    counts: np.ndarray,
    *,
    taken: Ids,
    locality: str = "propagate",
    similarity: csr_array | None = None,
    beta: float = 1.0,
    seed: int = 0,
    device: str = "cpu",
    passing: csr_array | None = None,
    side: str = "target",
) -> Iterator[Ids]:
    """For every part, its `counts[part]` best candidates, best first.

    `anchors` are the links that nearness is measured from (the seeds, and pseudo-seeds if there
    are any), `groups` is the part of every source entity, and `taken` the target entities that
    are no candidate for anybody: those of the seeds. `similarity` holds Eq. 4 for part and
    entity. Entities out of reach come last, in the order of a seeded draw, which also decides
    between equals. `passing` is what the locality makes of the adjacency, for who discovers twice.
    `side` says whose graph it is: equal ids of the two graphs are to draw differently.
    """
    size = adjacency.shape[0]
    draw = tie_draw(size, seed, side)
    free = np.ones(size, dtype=bool)
    free[taken] = False
    passing = measure(locality).passing(adjacency) if passing is None else passing
    near = measure(locality)(passing, anchors.target, groups[anchors.source], len(counts), device)
    # The paper's measure knows no such thing.
    likely = likelihood(adjacency, taken) if locality == "propagate" else np.ones(size, dtype=np.float32)

    def choose(piece: tuple[range, Ids | None]) -> list[Ids]:
        block, rows = piece
        scores = near.scores(block, rows)
        odds = torch.from_numpy(likely if rows is None else likely[rows]).to(device)
        scores *= odds[:, None]
        if similarity is not None:
            learned = similarity[block.start : block.stop].toarray().T.astype(np.float32)
            weight = beta * torch.from_numpy(learned if rows is None else learned[rows]).to(device)
            # Out of reach is no bar to an entity that something else speaks for.
            scores = scores.masked_fill_((scores == NEVER) & (weight > 0), 0.0).add_(weight)
        ids = np.arange(size, dtype=np.int32) if rows is None else rows
        barred, ties = ~free[ids], draw[ids]
        chosen = []
        for part, own in zip(block, by_part(scores), strict=True):
            own[barred] = NEVER
            picked = ids[best(own, int(counts[part]), ties)]
            chosen.append(_filled(picked, int(counts[part]), free, draw))
        return chosen

    for chosen in side_by_side(choose, near.regions()):
        yield from chosen


def _filled(near: Ids, count: int, free: np.ndarray, draw: np.ndarray) -> Ids:
    """As many as were asked for: entities out of reach come last, by draw."""
    if len(near) >= count:
        return near
    rest = free.copy()
    rest[near] = False
    beyond = np.flatnonzero(rest).astype(np.int32)
    return np.concatenate([near, beyond[np.argsort(draw[beyond])][: count - len(near)]])


def similarity_weights(
    previous: csr_array, candidates: Sequence[Ids], top_sums: Sequence[np.ndarray], alpha: float = 0.9
) -> csr_array:
    """Eq. 4: every part's candidates weighted by what a model found, over the weights of before.

    `top_sums[part][i]` is the sum of the K highest similarities of the part's candidate i to its
    unmatched entities (Eq. 3). Entities never selected have no weight, which counts as 0; those that
    are no candidates any more keep their latest.

    >>> weights = similarity_weights(csr_array((1, 3)), [np.array([0, 2])], [np.array([5.0, 1.0])])
    >>> weights.toarray().astype(float).round(2).tolist()
    [[0.1, 0.0, -0.9]]
    """
    columns, values = [], []
    for part, (chosen, sums) in enumerate(zip(candidates, top_sums, strict=True)):
        low, high = (float(sums.min()), float(sums.max())) if len(sums) else (0.0, 0.0)
        fresh = (sums - low) / (high - low) - alpha if high > low else np.full(len(sums), -alpha)
        row = slice(previous.indptr[part], previous.indptr[part + 1])
        kept = ~np.isin(previous.indices[row], chosen)
        columns.append(np.concatenate([previous.indices[row][kept], chosen]))
        values.append(np.concatenate([previous.data[row][kept], fresh]).astype(np.float32))
    starts = np.cumsum([0, *(len(row) for row in columns)])
    weights = csr_array((np.concatenate(values), np.concatenate(columns), starts), shape=previous.shape)
    weights.sort_indices()
    return weights
