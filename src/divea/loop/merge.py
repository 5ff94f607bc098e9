"""Merges matches: of all subtasks, of several iterations, and into at most one target per source."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from divea.matching.one_to_one import one_to_one as assign_one_to_one
from divea.types import Ids, Matches, Scores

_SALT = 0xA7E


def merge(found: Sequence[Matches]) -> tuple[Matches, Ids]:
    """The matches of all subtasks as one, by source id, and the subtask that each row comes from.

    A source is unmatched in one subtask only, so lists never mix; they may differ in length.
    """
    width = max((matches.target.shape[1] for matches in found), default=0)
    source = np.concatenate([matches.source for matches in found]) if found else np.zeros(0, np.int32)
    target = np.full((len(source), width), -1, dtype=np.int32)
    score = np.full((len(source), width), -np.inf, dtype=np.float32)
    mutual = np.zeros(len(source), dtype=bool)
    first = 0
    for matches in found:
        rows, columns = slice(first, first + len(matches)), slice(matches.target.shape[1])
        target[rows, columns], score[rows, columns] = matches.target, matches.score
        mutual[rows] = matches.mutual
        first += len(matches)
    subtask = np.repeat(np.arange(len(found), dtype=np.int32), [len(matches) for matches in found])
    order = np.argsort(source)
    return Matches(source[order], target[order], score[order], mutual[order]), subtask[order]


def average(history: Sequence[Matches], sources: Ids, taken: Ids, top: int, random_seed: int = 0) -> Matches:
    """The mean score of every pair over several iterations, as ranked lists of the given sources.

    A pair that an iteration does not list gets the lowest score of the source's list there, which is the
    most it can have scored. Equal means are ordered by a draw per target.

    Parameters
    ----------
    sources
        Sorted ids. Sources that an iteration does not know have no scores there.
    taken
        Targets to leave out: anchors that earlier iterations did not know as such.

    Examples
    --------
    >>> first = Matches(np.array([0]), np.array([[5, 6]]), np.float32([[.8, .0]]), np.array([True]))
    >>> second = Matches(np.array([0]), np.array([[6, 7]]), np.float32([[.6, .0]]), np.array([True]))
    >>> average([first, second], np.array([0]), np.array([7]), top=2).target.tolist()
    [[5, 6]]
    """
    target, gain, floor = _side_by_side(history, sources)
    highest_id = max((int(matches.target.max(initial=-1)) for matches in history), default=-1)
    target, gain = _in_random_order(target, gain, highest_id, random_seed)
    total = _sum_of_equal_targets(target, gain, len(history))
    total[(target < 0) | np.isin(target, taken)] = -np.inf
    best = np.argsort(-total, axis=1, kind="stable")[:, :top]
    target, total = np.take_along_axis(target, best, 1), np.take_along_axis(total, best, 1)
    mean = ((total + floor[:, None]) / len(history)).astype(np.float32)
    target[np.isneginf(mean)] = -1
    return Matches(sources, target, mean, _mutual(target, mean, random_seed))


def _side_by_side(
    history: Sequence[Matches], sources: Ids
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """All lists of a source in one row: targets, scores above the list's lowest, and the sum of the
    lowest.
    """
    width = sum(matches.target.shape[1] for matches in history)
    target = np.full((len(sources), width), -1, dtype=np.int32)
    gain = np.zeros((len(sources), width))
    floor = np.zeros(len(sources))
    first = 0
    for matches in history:
        is_known = np.isin(matches.source, sources)
        row = np.searchsorted(sources, matches.source[is_known])
        listed, score = matches.target[is_known], matches.score[is_known].astype(np.float64)
        lowest = np.where(listed >= 0, score, np.inf).min(axis=1, initial=np.inf)
        lowest[~np.isfinite(lowest)] = 0
        floor[row] += lowest
        columns = slice(first, first + listed.shape[1])
        target[row, columns] = listed
        gain[row, columns] = np.where(listed >= 0, score - lowest[:, None], 0)
        first += listed.shape[1]
    return target, gain, floor


def _in_random_order(
    target: npt.NDArray[np.int32], gain: npt.NDArray[np.float64], highest_id: int, random_seed: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
    """Order each row by a random rank per target, empty places last.

    Afterwards all scores of a pair stand next to each other, and a stable sort leaves equal means in random
    order.
    """
    rank = np.random.default_rng([random_seed, _SALT]).permutation(highest_id + 2).astype(np.int32)
    # An empty place is target -1, which indexes the last entry: give that the highest rank.
    rank[-1] = highest_id + 2
    order = np.argsort(rank[target], axis=1, kind="stable")
    return np.take_along_axis(target, order, 1), np.take_along_axis(gain, order, 1)


def _sum_of_equal_targets(
    target: npt.NDArray[np.int32], gain: npt.NDArray[np.float64], most_equal: int
) -> npt.NDArray[np.float64]:
    """The sum over each run of equal targets, at the run's first place; -inf at its other places."""
    total = gain.copy()
    for shift in range(1, most_equal):
        same = target[:, shift:] == target[:, :-shift]
        total[:, :-shift] += np.where(same, gain[:, shift:], 0)
    is_repeated = np.zeros(target.shape, dtype=bool)
    is_repeated[:, 1:] = target[:, 1:] == target[:, :-1]
    total[is_repeated] = -np.inf
    return total


def _mutual(target: npt.NDArray[np.int32], score: Scores, random_seed: int) -> npt.NDArray[np.bool_]:
    """Rows that are the best source of their first target; of rows that tie for a target, one at random."""
    if not target.size:
        return np.zeros(len(target), dtype=bool)
    best_score = np.full(max(int(target.max()) + 1, 1), -np.inf, dtype=np.float32)
    is_listed = target >= 0
    np.maximum.at(best_score, target[is_listed], score[is_listed])
    first = target[:, 0]
    row = np.flatnonzero((first >= 0) & (score[:, 0] >= best_score[first]))
    row = np.random.default_rng([random_seed, _SALT, 1]).permutation(row)
    mutual = np.zeros(len(target), dtype=bool)
    mutual[row[np.unique(first[row], return_index=True)[1]]] = True
    return mutual


def assign(matches: Matches, *, one_to_one: bool, random_seed: int = 0) -> Ids:
    """The target assigned to each source, -1 for none.

    With `one_to_one`, the best-scored pair of all subtasks is taken first and no target is assigned twice;
    otherwise every source gets the first of its list.
    """
    return assign_one_to_one(matches, random_seed=random_seed) if one_to_one else matches.best
