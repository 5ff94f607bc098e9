"""Pseudo-seeds: the matches of an iteration that are sure enough to learn from in the next one.

The policy: a pair becomes a pseudo-seed if each end is the other's best, if its score is above a
threshold, and if no surer pair has the same target. So they are one-to-one. They are chosen anew in every
iteration, so an early mistake does not last.
"""

from __future__ import annotations

import numpy as np

from divea.graphs import Links
from divea.matching import Matches, one_to_one


def choose_pseudo_seeds(matches: Matches, *, threshold: float | None, seed: int = 0) -> Links:
    """One-to-one pairs out of the matches of all subtasks.

    >>> both = np.array([True, True])
    >>> found = Matches(np.array([0, 1]), np.array([[7], [7]]), np.float32([[.9], [.8]]), both)
    >>> choose_pseudo_seeds(found, threshold=.5).pairs.tolist()
    [[0, 7]]
    """
    sure = matches.mutual & (matches.best >= 0)
    if threshold is not None and sure.any():
        sure &= matches.score[:, 0] > threshold
    if not sure.any():
        return Links.from_pairs([])
    first = slice(0, 1)
    pairs = Matches(
        matches.source[sure], matches.target[sure, first], matches.score[sure, first], matches.mutual[sure]
    )
    assigned = one_to_one(pairs, seed=seed)
    kept = assigned >= 0
    return Links.from_pairs(np.stack([pairs.source[kept], assigned[kept]], axis=1))


def without_anchors(pseudo_seeds: Links, seeds: Links) -> Links:
    """Pseudo-seeds none of whose ends is an anchor: seeds that were held back come back as seeds."""
    free = ~np.isin(pseudo_seeds.source, seeds.source) & ~np.isin(pseudo_seeds.target, seeds.target)
    return Links.from_pairs(pseudo_seeds.pairs[free])
