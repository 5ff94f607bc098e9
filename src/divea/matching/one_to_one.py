"""One-to-one matching: every target is assigned at most once.

The greedy method is fast and deterministic up to ties; the Hungarian method of scipy is optimal.
"""

from __future__ import annotations

import numpy as np

from divea.errors import InputError
from divea.matching.greedy import Numbering, assign_greedily
from divea.types import Ids, Matches

_SALT = 0x1_70_1

_METHODS = ("greedy", "hungarian")


def one_to_one(
    matches: Matches, method: str = "greedy", *, random_seed: int = 0, draws: Numbering | None = None
) -> Ids:
    """The target assigned to each row of `matches`, -1 for none; no target is assigned twice.

    Only listed targets are assigned, so a source gets none if all targets on its list are taken. Ties are
    broken by a seeded draw per pair.

    Parameters
    ----------
    method
        "greedy" assigns the best pair, then the best of the remaining ones, and so on. "hungarian" matches
        as many sources as possible and, among such assignments, has the largest sum of scores.
    random_seed
        Decides between equal scores.
    draws
        The number of each row's first draw, and how far the draw of each of its pairs is from that one, if
        `matches` are only a part of the lists; greedy only. None numbers the listed pairs in the order of
        source ids and targets.

    Examples
    --------
    Both sources are nearest to target 5.

    >>> scores = np.float32([[.9, .8], [.85, -np.inf]])
    >>> contested = Matches(np.array([0, 1]), np.array([[5, 6], [5, -1]]), scores, np.array([True, False]))
    >>> one_to_one(contested).tolist(), one_to_one(contested, "hungarian").tolist()
    ([5, -1], [6, 5])
    """
    if method not in _METHODS:
        raise InputError(f"unknown one-to-one method {method!r}; choose from {', '.join(_METHODS)}")
    if method == "greedy":
        return assign_greedily(matches, [random_seed, _SALT], draws)
    return _assign_optimally(matches, [random_seed, _SALT])


def _assign_optimally(matches: Matches, random_seed: list[int]) -> Ids:
    """The target assigned to each row, -1 for none: an optimal sparse assignment (Jonker-Volgenant).

    Every source has an additional column of its own as a fallback, so that a complete assignment exists.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    rows, ranks = np.nonzero(matches.target >= 0)
    targets, scores = matches.target[rows, ranks], matches.score[rows, ranks].astype(np.float64)
    assigned = np.full(len(matches), -1, dtype=np.int32)
    if not len(rows):
        return assigned
    # Drawn in the order of source ids and targets, so that the order of rows does not matter.
    by_id = np.lexsort((targets, matches.source[rows]))
    tie_breakers = np.empty(len(rows))
    tie_breakers[by_id] = np.random.default_rng(random_seed).random(len(rows))
    sources, row = np.unique(rows, return_inverse=True)
    columns, column = np.unique(targets, return_inverse=True)
    # Costs are positive, and tie breakers are far below any difference of scores that matters. A fallback
    # costs more than any number of bad pairs, so as many sources as possible are matched.
    cost = scores.max() - scores + 1 + 1e-9 * tie_breakers
    fallback_cost = np.full(len(sources), cost.max() * (len(sources) + 1))
    fallback_column = len(columns) + np.arange(len(sources))
    ends = np.concatenate([row, np.arange(len(sources))]), np.concatenate([column, fallback_column])
    shape = (len(sources), len(columns) + len(sources))
    costs = csr_array((np.concatenate([cost, fallback_cost]), ends), shape=shape)
    matched_row, matched_column = min_weight_full_bipartite_matching(costs)
    column_of_row = np.full(len(sources), -1)
    column_of_row[matched_row] = matched_column
    chosen = np.flatnonzero(column_of_row[row] == column)
    assigned[rows[chosen]] = targets[chosen]
    return assigned
