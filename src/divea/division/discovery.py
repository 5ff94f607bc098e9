"""Counterpart discovery: which target entities may be the matches of each part's unmatched ones.

Locality: whoever is near the target anchors of a part is a likely counterpart of its members.
`bfs` is the paper's measure of nearness (Eq. 2), `propagate` ours; both give a score for every
target entity and part, a block of parts at a time. What a model learned in an earlier iteration
is added on top (Eqs. 3-5).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from scipy.sparse import csr_array, diags_array

from divea.division.columns import best, column_blocks, indicator, sparse_tensor, tie_draw
from divea.errors import InputError
from divea.graphs import Links
from divea.graphs.labels import Ids

STEPS = 8
"""Hops that membership travels in `propagate`; DBP15K coverage is flat from about 6 on."""

NEVER = -torch.inf


def propagate(adjacency: csr_array, anchors: Ids, parts: Ids, device: str = "cpu") -> Callable[[range], torch.Tensor]:
    """A part's share of the membership that reaches an entity from the anchors, 0 to 1.

    Every anchor holds its part; every other entity takes the weighted mean of its neighbours'
    membership, hubs damped by the root of their degree because they stand near everything. The
    share, and not the amount, is the score: an entity far from all anchors still goes to the part
    that it is nearest to.
    """
    matrix = sparse_tensor(_mean_of_neighbours(adjacency), torch.float32, device)
    rows = adjacency.shape[0]
    fixed = torch.from_numpy(anchors.astype(np.int64)).to(device)

    def spread(marks: torch.Tensor) -> torch.Tensor:
        held, state = marks[fixed], marks
        for _ in range(STEPS):
            state = matrix @ state
            state[fixed] = held
        return state

    # Spreading is linear, so what arrives from all the parts together takes one column.
    anywhere = np.zeros(len(anchors), dtype=np.int32)
    total = spread(indicator(rows, anchors, anywhere, range(1), torch.float32, device))

    def scores(block: range) -> torch.Tensor:
        arrived = spread(indicator(rows, anchors, parts, block, torch.float32, device))
        share = arrived.div_(total)
        return share.masked_fill_(~(share > 0), NEVER)

    return scores


def _mean_of_neighbours(adjacency: csr_array) -> csr_array:
    # Ten triples between two entities are more than one, but not ten times more.
    weights = adjacency.astype(np.float32)
    weights.data = 1 + np.log(weights.data)
    strength = np.maximum(weights.sum(axis=1), 1e-9)
    weights = (weights @ diags_array(strength**-0.5)).tocsr()
    received = np.maximum(weights.sum(axis=1), 1e-9)
    return (diags_array(1 / received) @ weights).tocsr().astype(np.float32)


def bfs(adjacency: csr_array, anchors: Ids, parts: Ids, device: str = "cpu") -> Callable[[range], torch.Tensor]:
    """Minus the number of hops from the nearest anchor of the part (the paper's W_loc)."""
    links = adjacency.astype(np.float32)
    links.data[:] = 1
    matrix = sparse_tensor(links, torch.float32, device)
    rows = adjacency.shape[0]

    def scores(block: range) -> torch.Tensor:
        reached = indicator(rows, anchors, parts, block, torch.float32, device)
        distance = torch.full_like(reached, NEVER).masked_fill_(reached > 0, 0.0)
        hop = 0
        while True:
            hop += 1
            fresh = ((matrix @ reached) > 0) & (distance == NEVER)
            if not bool(fresh.any()):
                return distance
            distance.masked_fill_(fresh, -float(hop))
            reached = fresh.to(torch.float32)

    return scores


LOCALITY = {"propagate": propagate, "bfs": bfs}


def discover(
    adjacency: csr_array,
    anchors: Links,
    groups: Ids,
    counts: Ids,
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
    rows = adjacency.shape[0]
    scores_of = LOCALITY[locality](adjacency, anchors.target, groups[anchors.source], device)
    draw = torch.from_numpy(tie_draw(rows, seed, "target")).to(device)
    never = torch.from_numpy(taken.astype(np.int64)).to(device)
    for block in column_blocks(rows, len(counts), torch.float32):
        scores = scores_of(block)
        if similarity is not None:
            learned = similarity[block.start : block.stop].toarray().T.astype(np.float32)
            scores += beta * torch.from_numpy(learned).to(device)
        for column, part in enumerate(block):
            yield _candidates(scores[:, column].contiguous(), int(counts[part]), never, draw)


def _candidates(scores: torch.Tensor, count: int, never: torch.Tensor, draw: torch.Tensor) -> Ids:
    reachable = scores > NEVER
    scores[never] = NEVER
    chosen = best(scores, count, draw)
    if len(chosen) < count:
        beyond = torch.where(reachable, NEVER, 0.0)
        beyond[never] = NEVER
        chosen = torch.cat([chosen, best(beyond, count - len(chosen), draw)])
    return chosen.cpu().numpy().astype(np.int32)


def similarity_weights(
    previous: csr_array, part: int, candidates: Ids, top_sums: np.ndarray, alpha: float = 0.9
) -> csr_array:
    """Eq. 4: a part's candidates weighted by what a model found, over the weights of before.

    `top_sums[i]` is the sum of the K highest similarities of candidate i to the part's unmatched
    entities (Eq. 3). Entities never selected keep 0, the others their latest weight.

    >>> weights = similarity_weights(csr_array((1, 3)), 0, np.array([0, 2]), np.array([5.0, 1.0]))
    >>> weights.toarray().round(2).tolist()
    [[0.1, 0.0, -0.9]]
    """
    row = previous[[part]].toarray().ravel()
    low, high = (float(top_sums.min()), float(top_sums.max())) if len(top_sums) else (0.0, 0.0)
    row[candidates] = (top_sums - low) / (high - low) - alpha if high > low else -alpha
    changed = previous.tolil()
    changed[part, :] = row
    return changed.tocsr()
