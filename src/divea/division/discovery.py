"""Counterpart discovery: which target entities may be the matches of each part's unmatched ones.

Locality: whoever is near the target anchors of a part is a likely counterpart of its members.
`bfs` is the paper's measure of nearness (Eq. 2), `propagate` ours; both give a score for every
target entity and part, a block of parts at a time. What a model learned in an earlier iteration
is added on top (Eqs. 3-5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import (
    COARSE,
    NEVER,
    best,
    block_of_parts,
    by_part,
    column_blocks,
    cut_out,
    indicator,
    region,
    sparse_tensor,
    tie_draw,
)
from divea.errors import InputError
from divea.graphs import Links
from divea.graphs.labels import Ids

STEPS = 6
"""Hops that membership travels in `propagate`; more gain little (benchmarks/propagation.py)."""

HUB_DAMPING = 0.5
"""An entity's membership counts by its degree to the power of minus this."""

LEAST = 0.1
"""An entity to which a block of parts matters less than this is out of the block's reach."""

Scores = Iterator[tuple[range, Ids | None, torch.Tensor]]
"""Block by block: the parts, the entities (None for all), and the scores: entities x parts."""


def propagate(adjacency: csr_array, anchors: Ids, parts: Ids, count: int, device: str = "cpu") -> Scores:
    """A part's share of the membership that reaches an entity from the anchors, 0 to 1.

    Every anchor holds its part; every other entity takes the weighted mean of its neighbours'
    membership, hubs damped by the root of their degree because they stand near everything. The
    share, and not the amount, is the score: an entity far from all anchors still goes to the part
    that it is nearest to.
    """
    matrix = _mean_of_neighbours(adjacency)
    size = adjacency.shape[0]
    whole = sparse_tensor(matrix, torch.float32, device)
    # Spreading is linear, so what arrives from all the parts together takes one column.
    total = _spread(whole, anchors, np.zeros(len(anchors), dtype=np.int32), range(1))
    blocks = list(column_blocks(size, count, torch.float32))
    coarse = block_of_parts(blocks)[parts]
    for group in column_blocks(size, len(blocks), torch.float32, COARSE):
        # Shares of whole blocks; with one block it is 1 wherever anything arrives.
        block_shares = _spread(whole, anchors, coarse, group).div_(total)
        for column, number in enumerate(group):
            rows = region((block_shares[:, column] >= LEAST).cpu().numpy())
            if rows is None:
                arrived = _spread(whole, anchors, parts, blocks[number])
            else:
                place = np.full(size, -1, dtype=np.int32)
                place[rows] = np.arange(len(rows), dtype=np.int32)
                inside = place[anchors] >= 0
                small = sparse_tensor(cut_out(matrix, rows), torch.float32, device)
                arrived = _spread(small, place[anchors[inside]], parts[inside], blocks[number])
            here = slice(None) if rows is None else torch.from_numpy(rows.astype(np.int64)).to(device)
            share = arrived.div_(total[here])
            yield blocks[number], rows, share.masked_fill_(~(share > 0), NEVER)


def _spread(matrix: torch.Tensor, anchors: Ids, column_of: Ids, block: range) -> torch.Tensor:
    device = str(matrix.device)
    state = indicator(matrix.shape[0], anchors, column_of, block, matrix.dtype, device)
    fixed = torch.from_numpy(anchors.astype(np.int64)).to(device)
    held = state[fixed]
    for _ in range(STEPS):
        state = matrix @ state
        state[fixed] = held
    return state


def _mean_of_neighbours(adjacency: csr_array) -> csr_array:
    # Ten triples between two entities are more than one, but not ten times more.
    logarithm = np.log(np.arange(1, adjacency.data.max(initial=1) + 1))
    weights = (1 + logarithm).astype(np.float32)[adjacency.data - 1]
    mean = csr_array((weights, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    ones = np.ones(adjacency.shape[0])
    weights *= (np.maximum(mean @ ones, 1e-9) ** -HUB_DAMPING).astype(np.float32)[adjacency.indices]
    received = np.maximum(mean @ ones, 1e-9).astype(np.float32)
    weights /= np.repeat(received, np.diff(adjacency.indptr))
    return mean


def bfs(adjacency: csr_array, anchors: Ids, parts: Ids, count: int, device: str = "cpu") -> Scores:
    """Minus the number of hops from the nearest anchor of the part (the paper's W_loc)."""
    matrix = sparse_tensor(adjacency, torch.float32, device)
    for block in column_blocks(adjacency.shape[0], count, torch.float32):
        reached = indicator(adjacency.shape[0], anchors, parts, block, torch.float32, device)
        distance = torch.full_like(reached, NEVER).masked_fill_(reached > 0, 0.0)
        hop = 0
        while bool(reached.any()):
            hop += 1
            fresh = ((matrix @ reached) > 0) & (distance == NEVER)
            distance.masked_fill_(fresh, -float(hop))
            reached = fresh.to(torch.float32)
        yield block, None, distance


LOCALITY = {"propagate": propagate, "bfs": bfs}


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
) -> Iterator[Ids]:
    """For every part, its `counts[part]` best candidates, best first.

    `anchors` are the links that nearness is measured from (the seeds, and pseudo-seeds if there
    are any), `groups` is the part of every source entity, and `taken` the target entities that
    are no candidate for anybody: those of the seeds. `similarity` holds Eq. 4 for part and
    entity. Entities out of reach come last, in the order of a seeded draw, which also decides
    between equals.
    """
    if locality not in LOCALITY:
        raise InputError(f"unknown locality {locality!r}; choose from {', '.join(LOCALITY)}")
    size = adjacency.shape[0]
    draw = tie_draw(size, seed, "target")
    free = np.ones(size, dtype=bool)
    free[taken] = False
    blocks = LOCALITY[locality](adjacency, anchors.target, groups[anchors.source], len(counts), device)
    # The paper's measure knows no such thing.
    likely = likelihood(adjacency, taken) if locality == "propagate" else np.ones(size, dtype=np.float32)
    for block, rows, scores in blocks:
        odds = torch.from_numpy(likely if rows is None else likely[rows]).to(device)
        scores *= odds[:, None]
        if similarity is not None:
            learned = similarity[block.start : block.stop].toarray().T.astype(np.float32)
            weight = beta * torch.from_numpy(learned if rows is None else learned[rows]).to(device)
            # Out of reach is no bar to an entity that something else speaks for.
            scores = scores.masked_fill_((scores == NEVER) & (weight > 0), 0.0).add_(weight)
        ids = np.arange(size, dtype=np.int32) if rows is None else rows
        barred, ties = ~free[ids], draw[ids]
        for part, own in zip(block, by_part(scores), strict=True):
            own[barred] = NEVER
            near = ids[best(own, int(counts[part]), ties)]
            yield _filled(near, int(counts[part]), free, draw)


def _filled(near: Ids, count: int, free: np.ndarray, draw: np.ndarray) -> Ids:
    """As many as were asked for: entities out of reach come last, by draw."""
    if len(near) == count:
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
