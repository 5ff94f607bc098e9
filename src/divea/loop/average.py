"""Averages the ranked lists of several iterations.

All lists of a source stand side by side in one row, which is sorted twice: by target, to find the scores of
the same pair, and by mean score. Sorting plain integers is several times faster than sorting with an order
to apply elsewhere, so what is sorted carries its place in its lowest bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from divea.resources.row_blocks import for_row_blocks
from divea.types import Ids, Matches, Scores

_SALT = 0xA7E

_ROWS = 1 << 10
"""Rows of a block: its arrays stay in the cache of a core."""

_SIGN = np.uint64(1 << 63)
_NOTHING = np.uint64((1 << 64) - 1)

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


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
    highest_id = max((int(matches.target.max(initial=-1)) for matches in history), default=-1)
    width = sum(matches.target.shape[1] for matches in history)
    order = _Order.of(highest_id, width, taken, random_seed)
    lists = [_Lists.of(matches, sources) for matches in history]
    target = np.empty((len(sources), min(top, width)), dtype=np.int32)
    mean = np.empty(target.shape, dtype=np.float32)

    def fill(block: slice) -> None:
        target[block], mean[block] = _averaged(lists, block, order, top)

    for_row_blocks(fill, len(sources), _ROWS)
    return Matches(sources, target, mean, _mutual(target, mean, highest_id, random_seed))


@dataclass(frozen=True)
class _Lists:
    """The lists of an iteration, and the row of each source in them, -1 for none."""

    matches: Matches
    row: Places

    @classmethod
    def of(cls, matches: Matches, sources: Ids) -> _Lists:
        row = np.full(len(sources), -1, dtype=np.int64)
        known = np.flatnonzero(np.isin(matches.source, sources))
        row[np.searchsorted(sources, matches.source[known])] = known
        return cls(matches, row)

    def side_of(self, block: slice) -> tuple[npt.NDArray[np.int32], Scores]:
        """The targets and scores of a block of sources."""
        row = self.row[block]
        if len(row) and row[0] >= 0 and row[-1] - row[0] == len(row) - 1 and (np.diff(row) == 1).all():
            same = slice(int(row[0]), int(row[-1]) + 1)
            return self.matches.target[same], self.matches.score[same]
        if not len(self.matches):
            shape = len(row), self.matches.target.shape[1]
            return np.full(shape, -1, dtype=np.int32), np.full(shape, -np.inf, dtype=np.float32)
        target, score = self.matches.target[row], self.matches.score[row]
        target[row < 0], score[row < 0] = -1, -np.inf
        return target, score


@dataclass(frozen=True)
class _Order:
    """A random order of the targets, as numbers that leave their lowest bits to the place in a row."""

    number: npt.NDArray[Any]
    """By target. Targets that are left out and empty places (target -1) have the highest number."""
    bits: int

    @classmethod
    def of(cls, highest_id: int, width: int, taken: Ids, random_seed: int) -> _Order:
        rank = np.random.default_rng([random_seed, _SALT]).permutation(highest_id + 2)
        # An empty place is target -1, which indexes the last entry.
        rank[-1] = rank[taken[taken <= highest_id]] = highest_id + 2
        bits = width.bit_length()
        fits = (highest_id + 2).bit_length() + bits <= 32
        number: npt.NDArray[Any] = rank.astype(np.uint32 if fits else np.uint64)
        return cls(number << bits, bits)


def _averaged(
    lists: Sequence[_Lists], block: slice, order: _Order, top: int
) -> tuple[npt.NDArray[np.int32], Scores]:
    """The ranked lists of a block of sources: targets, and mean scores."""
    target, gain, floor = _side_by_side(lists, block)
    place, total, is_left_out = _totals(target, gain, len(lists), order)
    best, total = _largest(total, is_left_out, top, order.bits)
    mean = ((total + floor[:, None]) / len(lists)).astype(np.float32)
    chosen = target.take(place.take(best))
    chosen[np.isneginf(mean)] = -1
    return chosen, mean


def _side_by_side(lists: Sequence[_Lists], block: slice) -> tuple[npt.NDArray[np.int32], Numbers, Numbers]:
    """All lists of a source in one row: targets, scores above the list's lowest, and the sum of the
    lowest.
    """
    sides = [each.side_of(block) for each in lists]
    target = np.concatenate([target for target, _ in sides], axis=1)
    gain = np.empty(target.shape)
    floor = np.zeros(len(target))
    first = 0
    for listed, score in sides:
        is_full = listed.min(initial=0) >= 0
        lowest = (score if is_full else np.where(listed >= 0, score, np.inf)).min(axis=1, initial=np.inf)
        lowest = np.where(np.isfinite(lowest), lowest, 0).astype(np.float64)
        floor += lowest
        end = first + listed.shape[1]
        np.subtract(score, lowest[:, None], out=gain[:, first:end])
        first = end
    return target, gain, floor


def _totals(
    target: npt.NDArray[np.int32], gain: Numbers, lists: int, order: _Order
) -> tuple[Places, Numbers, npt.NDArray[np.bool_]]:
    """The places of each row in random order of their targets, and what each target gains in all lists.

    Places count from the first row on. The total stands at the first place of a target. Its other places
    are left out, and so are the places of targets that do not count.
    """
    key = order.number.take(target)
    key |= np.arange(target.shape[1], dtype=key.dtype)
    key.sort(axis=1)
    place = (key & key.dtype.type((1 << order.bits) - 1)).astype(np.int64)
    place += _first_places(target)
    gain = gain.take(place)
    total = gain.copy()
    is_left_out = key >= order.number[-1]
    for shift in range(1, lists):
        is_same = (key[:, shift:] ^ key[:, :-shift]) >> order.bits == 0
        # Masked bits, because zero times -inf is no number.
        total[:, :-shift] += (gain[:, shift:].view(np.uint64) & _mask(is_same)).view(np.float64)
        if shift == 1:
            is_left_out[:, 1:] |= is_same
    return place, total, is_left_out


def _largest(
    total: Numbers, is_left_out: npt.NDArray[np.bool_], top: int, bits: int
) -> tuple[Places, Numbers]:
    """The places of the largest numbers of each row, and these numbers, largest first, equal ones in order.

    The bits of a float that is not negative are an integer with the same order. Sums of a few 32-bit scores
    do not use the lowest bits of 64, which have room for the place. Rows for which this is not so are sorted
    in the common way.
    """
    low = np.uint64((1 << bits) - 1)
    number, nothing = total.view(np.uint64), _mask(is_left_out)
    unusual = np.flatnonzero((number & (low | _SIGN) & ~nothing).any(axis=1))
    key = ~(number | low) | np.arange(total.shape[1], dtype=np.uint64) | nothing
    key.sort(axis=1)
    key = key[:, :top]
    place = (key & low).astype(np.int64)
    largest: Numbers = (~(key | low)).view(np.float64)
    is_nothing = key == _NOTHING
    if is_nothing.any():
        place[is_nothing], largest[is_nothing] = 0, -np.inf
    if len(unusual):
        others = np.where(is_left_out[unusual], -np.inf, total[unusual])
        place[unusual] = np.argsort(-others, axis=1, kind="stable")[:, :top]
        largest[unusual] = np.take_along_axis(others, place[unusual], axis=1)
    return place + _first_places(total), largest


def _mask(chosen: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint64]:
    """All bits set where chosen, none elsewhere."""
    return np.negative(chosen.astype(np.uint64))


def _first_places(rows: npt.NDArray[Any]) -> Places:
    """The place of the first entry of each row, counted from the first row on, as a column."""
    return np.arange(len(rows))[:, None] * rows.shape[1]


def _mutual(
    target: npt.NDArray[np.int32], score: Scores, highest_id: int, random_seed: int
) -> npt.NDArray[np.bool_]:
    """Rows that are the best source of their first target; of rows that tie for a target, one at random."""
    mutual = np.zeros(len(target), dtype=bool)
    if not target.size:
        return mutual
    row = np.flatnonzero(target[:, 0] >= 0)
    first = target[row, 0]
    # The best score that a target has as a first one. No score is higher if it is not the first of any row,
    # and empty places (target -1) have the last entry.
    best_score = np.full(highest_id + 2, np.inf, dtype=np.float32)
    best_score[first] = -np.inf
    np.maximum.at(best_score, first, score[row, 0])
    is_beaten = np.zeros(highest_id + 2, dtype=bool)

    def compare(block: slice) -> None:
        listed = target[block]
        is_beaten[listed[score[block] > best_score.take(listed)]] = True

    for_row_blocks(compare, len(target), 8 * _ROWS)
    is_best = (score[row, 0] == best_score[first]) & ~is_beaten[first]
    row, first = row[is_best], first[is_best]
    shuffled = np.random.default_rng([random_seed, _SALT, 1]).permutation(len(row))[::-1]
    # The last of equal targets stays, which is the first one before the order was reversed.
    winner = np.empty(highest_id + 2, dtype=np.int64)
    winner[first[shuffled]] = row[shuffled]
    mutual[winner[first]] = True
    return mutual
