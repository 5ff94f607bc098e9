"""Merges matches: of all subtasks, of several iterations, and into at most one target for each source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from divea.graphs.labels import Ids
from divea.matching import Matches, one_to_one

_SALT = 0xA7E


def merge(found: Sequence[Matches]) -> tuple[Matches, Ids]:
    """All subtasks' matches as one, by source id, and the subtask that each row comes from.

    A source is unmatched in one subtask only, so lists do not mix; they may differ in length.
    """
    width = max((matches.target.shape[1] for matches in found), default=0)
    source = np.concatenate([matches.source for matches in found]) if found else np.zeros(0, np.int32)
    target = np.full((len(source), width), -1, dtype=np.int32)
    score = np.full((len(source), width), -np.inf, dtype=np.float32)
    mutual = np.zeros(len(source), dtype=bool)
    at = 0
    for matches in found:
        rows, columns = slice(at, at + len(matches)), slice(matches.target.shape[1])
        target[rows, columns], score[rows, columns] = matches.target, matches.score
        mutual[rows] = matches.mutual
        at += len(matches)
    subtask = np.repeat(np.arange(len(found), dtype=np.int32), [len(matches) for matches in found])
    order = np.argsort(source)
    return Matches(source[order], target[order], score[order], mutual[order]), subtask[order]


def average(history: Sequence[Matches], sources: Ids, taken: Ids, top: int, seed: int = 0) -> Matches:
    """The mean score of every pair over several iterations, as ranked lists of these sources.

    A pair that an iteration does not list scored no more there than the last one it lists, and is given
    that. Targets in `taken` are nobody's match: a seed that was held back may have come back. Equal means
    are ordered by a draw per pair.

    >>> first = Matches(np.array([0]), np.array([[5, 6]]), np.float32([[.8, .0]]), np.array([True]))
    >>> second = Matches(np.array([0]), np.array([[6, 7]]), np.float32([[.6, .0]]), np.array([True]))
    >>> average([first, second], np.array([0]), np.array([7]), top=2).target.tolist()
    [[5, 6]]
    """
    source, target, gain = [], [], []
    floor = np.zeros(int(sources.max(initial=-1)) + 1)
    for matches in history:
        known = np.isin(matches.source, sources)
        score = np.where(matches.target[known] >= 0, matches.score[known], np.inf)
        lowest = score.min(axis=1, initial=np.inf)
        lowest[~np.isfinite(lowest)] = 0
        floor[matches.source[known]] += lowest
        rows, places = np.nonzero((matches.target[known] >= 0) & ~np.isin(matches.target[known], taken))
        source.append(matches.source[known][rows])
        target.append(matches.target[known][rows, places])
        gain.append(score[rows, places].astype(np.float64) - lowest[rows])
    key = np.concatenate(source).astype(np.int64) << 32 | np.concatenate(target)
    pairs, at = np.unique(key, return_inverse=True)
    total = np.bincount(at, np.concatenate(gain), minlength=len(pairs))
    left, right = (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
    mean = (total + floor[left]) / len(history)
    draw = np.random.default_rng([seed, _SALT]).random(len(pairs))
    order = np.lexsort((draw, -mean, left))
    place = np.arange(len(order)) - np.searchsorted(left[order], left[order])
    order, place = order[place < top], place[place < top]
    row = np.searchsorted(sources, left[order])
    width = int(place.max(initial=-1)) + 1
    listed = np.full((len(sources), width), -1, dtype=np.int32)
    score = np.full((len(sources), width), -np.inf, dtype=np.float32)
    listed[row, place], score[row, place] = right[order], mean[order]
    best_of_target = order[np.lexsort((draw[order], -mean[order], right[order]))]
    best_of_target = best_of_target[np.unique(right[best_of_target], return_index=True)[1]]
    mutual = np.zeros(len(sources), dtype=bool)
    mutual[row[place == 0]] = np.isin(order[place == 0], best_of_target)
    return Matches(sources, listed, score, mutual)


def assign(matches: Matches, *, globally: bool, seed: int = 0) -> Ids:
    """The target of each source, -1 for none: the best of its list, or the best that is left to it.

    `globally` takes the surest pair of all subtasks first, so that no target is given twice.
    """
    return one_to_one(matches, seed=seed) if globally else matches.best
