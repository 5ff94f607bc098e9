"""One-to-one matching: no target twice. Greedy, and optimal by the Hungarian method of scipy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from divea.errors import InputError
from divea.types import Ids, Matches

_SALT = 0x1_70_1


def one_to_one(matches: Matches, method: str = "greedy", *, random_seed: int = 0) -> Ids:
    """The target assigned to each row of `matches`, -1 for none; no target is assigned twice.

    `greedy` takes the best pair, then the best of what is left, and so on. `hungarian` takes the
    assignment that matches as many as it can and among those has the largest sum of scores. Both
    choose among the listed targets only: a source all of whose targets are taken stays without.

    >>> scores = np.float32([[.9, .8], [.85, -np.inf]])
    >>> contested = Matches(np.array([0, 1]), np.array([[5, 6], [5, -1]]), scores, np.array([True, False]))
    >>> one_to_one(contested).tolist(), one_to_one(contested, "hungarian").tolist()
    ([5, -1], [6, 5])
    """
    if method not in _METHODS:
        raise InputError(f"unknown one-to-one method {method!r}; choose from {', '.join(_METHODS)}")
    rows, places = np.nonzero(matches.target >= 0)
    targets, scores = matches.target[rows, places], matches.score[rows, places]
    assigned = np.full(len(matches), -1, dtype=np.int32)
    if len(rows):
        # Equal scores are ordered by a draw per pair, laid out by source id and not by row.
        by_id = np.lexsort((targets, matches.source[rows]))
        draw = np.empty(len(rows))
        draw[by_id] = np.random.default_rng([random_seed, _SALT]).random(len(rows))
        chosen = _METHODS[method](rows, targets, scores.astype(np.float64), draw)
        assigned[rows[chosen]] = targets[chosen]
    return assigned


def _greedy(rows: np.ndarray, targets: np.ndarray, scores: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """Pairs that are best for both ends can be taken at once; repeat until none is left."""
    order = np.lexsort((draw, -scores))
    pairs = np.arange(len(order))
    rows, targets = rows[order], targets[order]
    taken_row = np.zeros(rows.max() + 1, dtype=bool)
    taken_target = np.zeros(targets.max() + 1, dtype=bool)
    chosen: list[npt.NDArray[np.int64]] = []
    while len(pairs):
        # Pairs stand best first, so an end's first occurrence is its best pair.
        best_of_row = pairs[np.unique(rows[pairs], return_index=True)[1]]
        best_of_target = pairs[np.unique(targets[pairs], return_index=True)[1]]
        agreed = np.intersect1d(best_of_row, best_of_target, assume_unique=True)
        chosen.append(agreed)
        taken_row[rows[agreed]] = True
        taken_target[targets[agreed]] = True
        pairs = pairs[~taken_row[rows[pairs]] & ~taken_target[targets[pairs]]]
    return order[np.concatenate(chosen)]


def _hungarian(rows: np.ndarray, targets: np.ndarray, scores: np.ndarray, draw: np.ndarray) -> np.ndarray:
    """Sparse assignment (Jonker-Volgenant) in which every source may fall back on a place of its own."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    sources, row = np.unique(rows, return_inverse=True)
    columns, column = np.unique(targets, return_inverse=True)
    # Costs are positive; the draw is far below any difference of float32 scores. One fallback
    # costs more than any number of bad pairs, so as many sources as possible are matched.
    cost = scores.max() - scores + 1 + 1e-9 * draw
    fallback = np.full(len(sources), cost.max() * (len(sources) + 1))
    own = len(columns) + np.arange(len(sources))
    shape = (len(sources), len(columns) + len(sources))
    ends = np.concatenate([row, np.arange(len(sources))]), np.concatenate([column, own])
    graph = csr_array((np.concatenate([cost, fallback]), ends), shape=shape)
    matched_row, matched_column = min_weight_full_bipartite_matching(graph)
    partner = np.full(len(sources), -1)
    partner[matched_row] = matched_column
    return np.flatnonzero(partner[row] == column)


_METHODS = {"greedy": _greedy, "hungarian": _hungarian}
