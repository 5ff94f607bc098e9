"""Pseudo-seeds: matches of an iteration that are confident enough to learn from in the next one.

A pair becomes a pseudo-seed if each end is the other's best match, if its score is above a threshold, and
if no better-scored pair has the same target. Pseudo-seeds are therefore one-to-one. They are chosen again
in every iteration, so an early mistake does not last.
"""

from __future__ import annotations

import numpy as np

from divea.graphs import Links
from divea.matching import one_to_one
from divea.types import Matches


def choose_pseudo_seeds(matches: Matches, *, threshold: float, random_seed: int = 0) -> Links:
    """Choose one-to-one pairs from the matches of all subtasks.

    >>> both = np.array([True, True])
    >>> matches = Matches(np.array([0, 1]), np.array([[7], [7]]), np.float32([[.9], [.8]]), both)
    >>> choose_pseudo_seeds(matches, threshold=.5).pairs.tolist()
    [[0, 7]]
    """
    confident = matches.mutual & (matches.best >= 0)
    if confident.any():
        confident &= matches.score[:, 0] > threshold
    if not confident.any():
        return Links.from_pairs([])
    first = slice(0, 1)
    pairs = Matches(
        matches.source[confident],
        matches.target[confident, first],
        matches.score[confident, first],
        matches.mutual[confident],
    )
    assigned = one_to_one(pairs, random_seed=random_seed)
    kept = assigned >= 0
    return Links.from_pairs(np.stack([pairs.source[kept], assigned[kept]], axis=1))


def without_anchors(pseudo_seeds: Links, seeds: Links) -> Links:
    """Pseudo-seeds without an anchor at either end."""
    free = ~np.isin(pseudo_seeds.source, seeds.source) & ~np.isin(pseudo_seeds.target, seeds.target)
    return Links.from_pairs(pseudo_seeds.pairs[free])
