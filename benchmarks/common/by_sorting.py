"""Averaging and one-to-one assignment by sorting whole arrays: what divea did up to commit 24f7c10.

They are kept to compare with: `divea.loop.average` and `divea.matching.greedy` give the same lists and pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from divea.types import Ids, Matches, Scores

_SALT_OF_AVERAGES, _SALT_OF_PAIRS = 0xA7E, 0x1_70_1


def average(history: Sequence[Matches], sources: Ids, taken: Ids, top: int, random_seed: int = 0) -> Matches:
    """The mean score of every pair over several iterations, as ranked lists of the given sources.

    A pair that an iteration does not list gets the lowest score of the source's list there, which is the
    most it can have scored. Equal means are ordered by a draw per target.
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
    rank = (
        np.random.default_rng([random_seed, _SALT_OF_AVERAGES]).permutation(highest_id + 2).astype(np.int32)
    )
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
    row = np.random.default_rng([random_seed, _SALT_OF_AVERAGES, 1]).permutation(row)
    mutual = np.zeros(len(target), dtype=bool)
    mutual[row[np.unique(first[row], return_index=True)[1]]] = True
    return mutual


def one_to_one(matches: Matches, random_seed: int = 0) -> Ids:
    """The greedy assignment of `divea.matching.one_to_one`."""
    rows, ranks = np.nonzero(matches.target >= 0)
    targets, scores = matches.target[rows, ranks], matches.score[rows, ranks]
    assigned = np.full(len(matches), -1, dtype=np.int32)
    if len(rows):
        by_id = np.lexsort((targets, matches.source[rows]))
        tie_breakers = np.empty(len(rows))
        tie_breakers[by_id] = np.random.default_rng([random_seed, _SALT_OF_PAIRS]).random(len(rows))
        chosen = _greedy(rows, targets, scores.astype(np.float64), tie_breakers)
        assigned[rows[chosen]] = targets[chosen]
    return assigned


def _greedy(
    rows: np.ndarray, targets: np.ndarray, scores: np.ndarray, tie_breakers: np.ndarray
) -> np.ndarray:
    """The positions of the pairs that a greedy assignment chooses.

    Pairs that are best for both of their ends are chosen at once, and this is repeated until no pair is
    left.
    """
    order = np.lexsort((tie_breakers, -scores))
    pairs = np.arange(len(order))
    rows, targets = rows[order], targets[order]
    is_taken_row = np.zeros(rows.max() + 1, dtype=bool)
    is_taken_target = np.zeros(targets.max() + 1, dtype=bool)
    chosen: list[npt.NDArray[np.int64]] = []
    while len(pairs):
        # Pairs are ordered best first, so the first occurrence of an end is its best pair.
        best_of_row = pairs[np.unique(rows[pairs], return_index=True)[1]]
        best_of_target = pairs[np.unique(targets[pairs], return_index=True)[1]]
        mutual = np.intersect1d(best_of_row, best_of_target, assume_unique=True)
        chosen.append(mutual)
        is_taken_row[rows[mutual]] = True
        is_taken_target[targets[mutual]] = True
        pairs = pairs[~is_taken_row[rows[pairs]] & ~is_taken_target[targets[pairs]]]
    return order[np.concatenate(chosen)]
