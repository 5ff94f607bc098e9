"""Chooses the highest-scored entities; ties are broken by a seeded draw, never by id or file order."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

EXCLUDED = -np.inf
"""Score of an entity that must not be chosen."""


def tie_breakers(count: int, random_seed: int, side: str) -> npt.NDArray[np.float64]:
    """One seeded random number per entity; of two entities with equal scores the lower number wins.

    Ids follow label hashes, so a draw by id does not depend on the order of any file. The two sides
    (`"source"`, `"target"`) draw differently: otherwise entities of equal id would be favoured together.
    """
    return np.random.default_rng([random_seed, len(side), ord(side[0])]).random(count)


def highest(scores: np.ndarray, count: int, ties: np.ndarray) -> npt.NDArray[np.intp]:
    """Positions of the `count` highest scores, best first, without excluded ones.

    >>> highest(np.array([0.5, 0.5, 0.9, -np.inf]), 2, ties=np.array([3.0, 1.0, 2.0, 0.0])).tolist()
    [2, 1]
    """
    allowed = np.flatnonzero(scores > EXCLUDED)
    if 0 < count < len(allowed):
        # Only scores that reach the count-th highest need to be sorted.
        values = scores[allowed]
        lowest_kept = np.partition(values, len(values) - count)[len(values) - count]
        allowed = allowed[values >= lowest_kept]
    return allowed[np.lexsort((ties[allowed], -scores[allowed]))][: max(count, 0)]


def highest_with_few_anchors(
    scores: np.ndarray, count: int, is_anchor: np.ndarray, anchor_limit: int, ties: np.ndarray
) -> npt.NDArray[np.intp]:
    """Positions of the `count` highest scores, with at most `anchor_limit` anchors among them."""
    chosen = highest(scores, count, ties)
    anchors = chosen[is_anchor[chosen]]
    if len(anchors) <= anchor_limit:
        return chosen
    surplus = is_anchor.copy()
    surplus[anchors[:anchor_limit]] = False
    return highest(np.where(surplus, EXCLUDED, scores), count, ties)
