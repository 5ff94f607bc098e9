"""Merges matches: of all subtasks, of several iterations, and into at most one target for each source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

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
    # One row per source, all its lists side by side, ordered by a draw per target: then a pair's scores
    # stand next to each other, and equal means come in the order of the draw.
    rows, width = len(sources), sum(matches.target.shape[1] for matches in history)
    most = max((int(matches.target.max(initial=-1)) for matches in history), default=-1)
    draw = np.random.default_rng([seed, _SALT]).permutation(most + 2).astype(np.int32)
    draw[-1] = most + 2  # stands for no target
    target = np.full((rows, width), -1, dtype=np.int32)
    gain = np.zeros((rows, width))
    floor = np.zeros(rows)
    at = 0
    for matches in history:
        known = np.isin(matches.source, sources)
        row = np.searchsorted(sources, matches.source[known])
        listed, score = matches.target[known], matches.score[known].astype(np.float64)
        lowest = np.where(listed >= 0, score, np.inf).min(axis=1, initial=np.inf)
        lowest[~np.isfinite(lowest)] = 0
        floor[row] += lowest
        columns = slice(at, at + listed.shape[1])
        target[row, columns] = listed
        gain[row, columns] = np.where(listed >= 0, score - lowest[:, None], 0)
        at += listed.shape[1]
    order = np.argsort(draw[target], axis=1, kind="stable")
    target, gain = np.take_along_axis(target, order, 1), np.take_along_axis(gain, order, 1)
    total = gain.copy()
    for shift in range(1, len(history)):
        total[:, :-shift] += np.where(target[:, shift:] == target[:, :-shift], gain[:, shift:], 0)
    repeated = np.zeros(target.shape, dtype=bool)
    repeated[:, 1:] = target[:, 1:] == target[:, :-1]
    total[repeated | (target < 0) | np.isin(target, taken)] = -np.inf
    order = np.argsort(-total, axis=1, kind="stable")[:, :top]
    target, total = np.take_along_axis(target, order, 1), np.take_along_axis(total, order, 1)
    mean = ((total + floor[:, None]) / len(history)).astype(np.float32)
    target[np.isneginf(mean)] = -1
    return Matches(sources, target, mean, _mutual(target, mean, seed))


def _mutual(target: Ids, score: npt.NDArray[np.float32], seed: int) -> npt.NDArray[np.bool_]:
    """Rows that are the best of their first choice; of rows that tie for it, one by draw."""
    if not target.size:
        return np.zeros(len(target), dtype=bool)
    best = np.full(max(int(target.max()) + 1, 1), -np.inf, dtype=np.float32)
    listed = target >= 0
    np.maximum.at(best, target[listed], score[listed])
    first = target[:, 0]
    able = np.flatnonzero((first >= 0) & (score[:, 0] >= best[first]))
    able = np.random.default_rng([seed, _SALT, 1]).permutation(able)
    mutual = np.zeros(len(target), dtype=bool)
    mutual[able[np.unique(first[able], return_index=True)[1]]] = True
    return mutual


def assign(matches: Matches, *, globally: bool, seed: int = 0) -> Ids:
    """The target of each source, -1 for none: the best of its list, or the best that is left to it.

    `globally` takes the surest pair of all subtasks first, so that no target is given twice.
    """
    return one_to_one(matches, seed=seed) if globally else matches.best
