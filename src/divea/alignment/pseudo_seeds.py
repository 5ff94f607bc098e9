"""Pseudo-seeds: the matches of an iteration that are sure enough to learn from in the next one.

The policy: a pair becomes a pseudo-seed if each end is the other's best within its subtask, if its score
is above a threshold, and if no surer pair of another subtask has the same target. So they are one-to-one.
They are chosen anew in every iteration, so an early mistake does not last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divea.graphs import Links
from divea.matching import Matches, one_to_one


def choose_pseudo_seeds(found: Sequence[Matches], *, threshold: float, seed: int = 0) -> Links:
    """One-to-one pairs out of the matches of all subtasks.

    >>> mutual = np.array([True])
    >>> first = Matches(np.array([0]), np.array([[7]]), np.float32([[.9]]), mutual)
    >>> second = Matches(np.array([1]), np.array([[7]]), np.float32([[.8]]), mutual)
    >>> choose_pseudo_seeds([first, second], threshold=.5).pairs.tolist()
    [[0, 7]]
    """
    source, target, score = [], [], []
    for matches in found:
        if not matches.target.shape[1]:
            continue
        sure = matches.mutual & (matches.best >= 0) & (matches.score[:, 0] > threshold)
        source.append(matches.source[sure])
        target.append(matches.best[sure])
        score.append(matches.score[sure, 0])
    if not source:
        return Links.from_pairs([])
    sources = np.concatenate(source)
    pairs = Matches(
        sources,
        np.concatenate(target)[:, None],
        np.concatenate(score)[:, None],
        np.ones(len(sources), dtype=bool),
    )
    assigned = one_to_one(pairs, seed=seed)
    kept = assigned >= 0
    return Links.from_pairs(np.stack([sources[kept], assigned[kept]], axis=1))


def without_anchors(pseudo_seeds: Links, seeds: Links) -> Links:
    """Pseudo-seeds none of whose ends is an anchor: seeds that were held back come back as seeds."""
    free = ~np.isin(pseudo_seeds.source, seeds.source) & ~np.isin(pseudo_seeds.target, seeds.target)
    return Links.from_pairs(pseudo_seeds.pairs[free])
