"""Counterpart discovery: which target entities are likely counterparts of each part's unmatched entities.

An entity is a likely counterpart if it is near the target anchors of the part (Eq. 2, `locality`). From the
second iteration on, what a model learned is added as a similarity weight (Eqs. 3 to 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_array

from divea.division.blocks import rows_by_part
from divea.division.locality import LOCALITIES
from divea.division.parallel import in_parallel
from divea.division.selection import EXCLUDED, highest, tie_breakers
from divea.graphs import Links
from divea.graphs.ids import marked
from divea.types import Ids

MOST_LISTED = 3
"""The most targets of a source entity that features bring into its part."""


def counterpart_odds(adjacency: csr_array, seeds: Ids) -> np.ndarray:
    """How likely an entity is to have a counterpart, judged by its degree; at most 1.

    A degree that is rarer among the seeds than in the graph makes a counterpart that much less likely: in
    DBP15K, 18 % of the target entities have one neighbour, but only 1 in 300 of the seeds. Degrees are
    grouped into half octaves.

    >>> path = csr_array(np.eye(4, k=1) + np.eye(4, k=-1))
    >>> counterpart_odds(path, np.array([1, 2])).tolist()  # one of two seeds is expected at an end
    [0.5, 1.0, 1.0, 0.5]
    """
    octave = np.rint(2 * np.log2(np.maximum(np.diff(adjacency.indptr), 1))).astype(np.int64)
    entities = np.bincount(octave)
    expected = entities * len(seeds) / max(1, len(octave))
    seen = np.bincount(octave[seeds], minlength=len(entities))
    # Add-one smoothing: few seeds say little.
    odds: np.ndarray = np.minimum(1, (seen + 1) / (expected + 1)).astype(np.float32)[octave]
    return odds


def discover_candidates(
    adjacency: csr_array,
    links: Links,
    groups: Ids,
    counts: np.ndarray,
    *,
    taken: Ids,
    locality: str = "propagate",
    bonus: csr_array | None = None,
    beta: float = 1.0,
    listed: csr_array | None = None,
    random_seed: int = 0,
    device: str = "cpu",
    hop_matrix: csr_array | None = None,
    side: str = "target",
) -> Iterator[Ids]:
    """For every part, its best candidates, best first.

    Entities out of reach come last, in the order of a seeded draw.

    Parameters
    ----------
    adjacency
        Adjacency of the target graph.
    links
        The links that locality is measured from: the seeds, and pseudo-seeds if there are any.
    groups
        The part of every source entity.
    counts
        The number of candidates of every part.
    taken
        Target entities that are candidates of no part: the anchors.
    bonus, beta
        What is added to the locality of part and entity, and its factor (Eq. 5): the similarity weights of
        Eq. 4, or any other weights.
    listed
        The part of the bonus that comes from features. Its entities are considered however far away they are.
    hop_matrix
        The locality's `hop_matrix`; pass it to avoid computing it again.
    side
        "target" or "source": which graph this is, so that both break ties independently.
    """
    size = adjacency.shape[0]
    ties = tie_breakers(size, random_seed, side)
    is_free = ~marked(taken, size)
    measure = LOCALITIES[locality]
    matrix = measure.hop_matrix(adjacency) if hop_matrix is None else hop_matrix
    near = measure(matrix, links.target, groups[links.source], len(counts), device)
    # The paper's locality does not use odds.
    odds = counterpart_odds(adjacency, taken) if locality == "propagate" else np.ones(size, np.float32)

    def choose(piece: tuple[range, Ids | None]) -> list[Ids]:
        block, rows = piece
        weights = near.scores(block, rows)
        weights *= _tensor(odds, rows, device)[:, None]
        if rows is not None and listed is not None:
            far = np.setdiff1d(listed[block.start : block.stop].indices, rows).astype(np.int32)
            rows = np.concatenate([rows, far])
            weights = torch.cat([weights, weights.new_full((len(far), len(block)), EXCLUDED)])
        if bonus is not None:
            block_bonus = bonus[block.start : block.stop].toarray().T.astype(np.float32)
            weights = candidate_weights(weights, _tensor(block_bonus, rows, device), beta)
        ids = np.arange(size, dtype=np.int32) if rows is None else rows
        is_taken, own_ties = ~is_free[ids], ties[ids]
        chosen = []
        for part, scores in zip(block, rows_by_part(weights), strict=True):
            scores[is_taken] = EXCLUDED
            count = int(counts[part])
            best = ids[highest(scores, count, own_ties)]
            chosen.append(_filled_up(best, count, is_free, ties))
        return chosen

    for chosen in in_parallel(choose, near.regions()):
        yield from chosen


def listed_bonus(
    listed: csr_array, parts: Ids, count: int, unmatched: Ids, ties: npt.NDArray[np.float64]
) -> csr_array:
    """For each part, how well target entities fit its unmatched entities by features such as names.

    Only the `MOST_LISTED` best targets of a source count, so that a common name does not fill a part.

    Parameters
    ----------
    listed
        Scores of pairs, source x target.
    parts
        The part of every source entity, -1 for none.
    count
        The number of parts.
    ties
        The tie breakers of the target entities.

    Examples
    --------
    >>> listed = csr_array(np.array([[0.0, 0.5], [0.9, 0.0]], dtype=np.float32))
    >>> ids, ties = np.array([0, 1]), np.array([0.2, 0.1])
    >>> listed_bonus(listed, ids, 2, ids, ties).toarray().round(1).tolist()
    [[0.0, 0.5], [0.8999999761581421, 0.0]]
    """
    own = unmatched[parts[unmatched] >= 0]
    rows = listed[own]
    lengths = np.diff(rows.indptr)
    row = np.repeat(np.arange(len(own)), lengths)
    order = np.lexsort((ties[rows.indices], -rows.data, row))
    rank = np.arange(len(row)) - np.repeat(rows.indptr[:-1], lengths)
    best = order[rank < MOST_LISTED]
    ends = parts[own][row[best]], rows.indices[best]
    bonus = csr_array((rows.data[best], ends), shape=(count, listed.shape[1]))
    bonus.sum_duplicates()
    bonus.data = np.minimum(bonus.data, 1).astype(np.float32)
    return bonus


def candidate_weights(locality: torch.Tensor, bonus: torch.Tensor, beta: float) -> torch.Tensor:
    """The weight of candidates (Eq. 5): locality + beta x bonus; `locality` is overwritten.

    >>> candidate_weights(torch.tensor([0.5, -torch.inf]), torch.tensor([0.1, 0.1]), beta=2.0).tolist()
    [0.699999988079071, 0.20000000298023224]
    """
    added = beta * bonus
    # An entity out of reach is still a candidate if its bonus is positive.
    return locality.masked_fill_((locality == EXCLUDED) & (added > 0), 0.0).add_(added)


def _tensor(values: np.ndarray, rows: Ids | None, device: str) -> torch.Tensor:
    return torch.from_numpy(values if rows is None else values[rows]).to(device)


def _filled_up(near: Ids, count: int, is_free: np.ndarray, ties: np.ndarray) -> Ids:
    """The entities within reach, filled up to `count` with free ones out of reach, in random order."""
    if len(near) >= count:
        return near
    is_left = is_free.copy()
    is_left[near] = False
    far = np.flatnonzero(is_left).astype(np.int32)
    return np.concatenate([near, far[np.argsort(ties[far])][: count - len(near)]])


def similarity_weights(
    previous: csr_array, candidates: Sequence[Ids], top_sums: Sequence[np.ndarray], alpha: float = 0.9
) -> csr_array:
    """Similarity weights (Eq. 4) of every part's candidates, on top of those of earlier iterations.

    Parameters
    ----------
    previous
        Weights so far, part x entity. Entities that are no longer candidates keep theirs; entities that never
        were candidates have none, which counts as 0.
    top_sums
        For every part and candidate, the sum of its K highest similarities to the part's unmatched entities
        (Eq. 3).

    Examples
    --------
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
