"""Averages the ranked lists of several iterations.

All lists of a source stand side by side in one row, which is sorted twice: by target, to bring the scores of
a pair together, and by mean score. Sorting plain integers is several times faster than an argsort, so each
sort key carries the position of its entry in its lowest bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from divea.archives import map_matches, write_matches
from divea.errors import InputError
from divea.io import temporary_path
from divea.loop.lists import IN_MEMORY, Blocks, Lists, Located, Ranking, rank
from divea.types import Ids, Matches, Scores

_SALT = 0xA7E

_ROWS = 1 << 10
"""Rows that are averaged at a time: few enough for their arrays to stay in the cache of a core."""

_SIGN = np.uint64(1 << 63)
_NOTHING = np.uint64((1 << 64) - 1)

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


def average(
    history: Sequence[Lists], taken: Ids, top: int, random_seed: int = 0, blocks: Blocks = IN_MEMORY
) -> Ranking:
    """The mean score of every pair over several iterations, as ranked lists of the latest one's sources.

    A pair that an iteration does not list gets the lowest score of the source's list in that iteration,
    because it cannot have scored more. Equal means are ordered by a random draw per target.

    Parameters
    ----------
    history
        The lists of each iteration. A source may be missing from some iterations.
    taken
        Targets to leave out: those that have become anchors since an earlier iteration.

    Examples
    --------
    >>> first = Matches(np.array([0]), np.array([[5, 6]]), np.float32([[.8, .0]]), np.array([True]))
    >>> second = Matches(np.array([0]), np.array([[6, 7]]), np.float32([[.6, .0]]), np.array([True]))
    >>> both = average([Lists.of([first]), Lists.of([second])], np.array([7]), top=2)
    >>> both.lists.merged().target.tolist()
    [[5, 6]]
    """
    latest = history[-1]
    highest_id = max((id for lists in history for id in blocks.map(_highest_id, lists.blocks)), default=-1)
    width = sum(lists.width for lists in history)
    order = _Order.of(highest_id, width, taken, random_seed)
    # Lists that are files are opened once by each process, because the function is sent to it only once.
    sides = [_Side(lists.blocks, lists.width) for lists in history]
    columns = min(top, width)
    work = partial(_averaged_piece, sides=sides, order=order, columns=columns, folder=blocks.folder)
    pieces = _Pieces(history)
    found = tuple(blocks.map(work, pieces))
    subtasks = latest.subtasks[[block for block, _ in pieces.parts]]
    draw = np.random.default_rng([random_seed, _SALT, 1])
    return rank(Lists(found, subtasks), blocks, draw.permutation)


def _highest_id(matches: Matches) -> int:
    return int(matches.target.max(initial=-1))


@dataclass(frozen=True, eq=False)
class _Side:
    """The lists of an iteration, without the arrays that only look them up."""

    blocks: tuple[Matches, ...]
    width: int

    def at(self, places: Located, count: int) -> tuple[npt.NDArray[np.int32], Scores]:
        """The targets and scores of `count` sources, whose lists are at these places."""
        target = np.full((count, self.width), -1, dtype=np.int32)
        score = np.full((count, self.width), -np.inf, dtype=np.float32)
        for number, rows, positions in places.by_block():
            block = self.blocks[number]
            columns = slice(block.target.shape[1])
            target[positions, columns] = block.target.take(rows, axis=0)
            score[positions, columns] = block.score.take(rows, axis=0)
        return target, score


@dataclass(frozen=True, eq=False)
class _Piece:
    """Some sources, and where their lists are in each iteration."""

    source: Ids
    places: list[Located]


class _Pieces(Sequence[_Piece]):
    """The pieces of the latest iteration; each is made when it is asked for, while others are averaged."""

    def __init__(self, history: Sequence[Lists]):
        self._history = history
        self.parts = history[-1].pieces()

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, number: Any) -> Any:
        block, rows = self.parts[number]
        source = np.array(self._history[-1].blocks[block].source[rows])
        return _Piece(source, [lists.locate(source) for lists in self._history])


def _averaged_piece(
    piece: _Piece, *, sides: Sequence[_Side], order: _Order, columns: int, folder: Path | None
) -> Matches:
    """The averaged lists of some sources; if a folder is given, they are written to a file in it."""
    count = len(piece.source)
    target = np.full((count, columns), -1, dtype=np.int32)
    mean = np.full((count, columns), -np.inf, dtype=np.float32)
    lists = [side.at(places, count) for side, places in zip(sides, piece.places, strict=True)]
    for rows in _slices(count):
        own = [(listed[rows], scores[rows]) for listed, scores in lists]
        chosen, means = _averaged(own, order, columns)
        target[rows, : chosen.shape[1]], mean[rows, : means.shape[1]] = chosen, means
    # Mutual matches can only be found once all lists are averaged.
    averaged = Matches(piece.source, target, mean, np.zeros(count, dtype=bool))
    if folder is None:
        return averaged
    path = temporary_path(folder / "lists.npz")
    try:
        write_matches(averaged, path)
    except (OSError, InputError):
        # A node may see the run directory and not be allowed to write to it.
        path.unlink(missing_ok=True)
        return averaged
    return map_matches(path)


def _slices(rows: int) -> Iterator[slice]:
    for first in range(0, rows, _ROWS):
        yield slice(first, min(first + _ROWS, rows))


@dataclass(frozen=True)
class _Order:
    """A random order of the targets, as numbers whose lowest bits are free for the position in a row."""

    number: npt.NDArray[Any]
    """One per target. Targets that are left out and empty places (target -1) have the highest number."""
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
    sides: Sequence[tuple[npt.NDArray[np.int32], Scores]], order: _Order, top: int
) -> tuple[npt.NDArray[np.int32], Scores]:
    """The ranked lists of some sources: targets, and mean scores."""
    target, gain, floor = _side_by_side(sides)
    place, total, is_left_out = _totals(target, gain, len(sides), order)
    best, total = _largest(total, is_left_out, top, order.bits)
    mean = ((total + floor[:, None]) / len(sides)).astype(np.float32)
    chosen = target.take(place.take(best))
    chosen[np.isneginf(mean)] = -1
    return chosen, mean


def _side_by_side(
    sides: Sequence[tuple[npt.NDArray[np.int32], Scores]],
) -> tuple[npt.NDArray[np.int32], Numbers, Numbers]:
    """All lists of a source in one row: the targets, each score minus the lowest of its list, and the sum of
    these lowest scores.
    """
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
    """The entries of each row in the random order of their targets, and the total gain of each target.

    Entries are positions in the flattened array. The total of a target stands at its first entry. Its other
    entries are left out, and so are the entries of targets that do not count.
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
        # Bits are masked, because zero times -inf is NaN.
        total[:, :-shift] += (gain[:, shift:].view(np.uint64) & _mask(is_same)).view(np.float64)
        if shift == 1:
            is_left_out[:, 1:] |= is_same
    return place, total, is_left_out


def _largest(
    total: Numbers, is_left_out: npt.NDArray[np.bool_], top: int, bits: int
) -> tuple[Places, Numbers]:
    """The largest numbers of each row and their positions, largest first; equal numbers keep their order.

    The bits of a non-negative float, read as an integer, have the same order. Sums of a few 32-bit scores
    leave the lowest bits of a 64-bit float unused, so the position fits there. Rows for which this does not
    hold are sorted in the usual way.
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
    """All bits are set where chosen, none elsewhere."""
    return np.negative(chosen.astype(np.uint64))


def _first_places(rows: npt.NDArray[Any]) -> Places:
    """The position of each row's first entry in the flattened array, as a column."""
    return np.arange(len(rows))[:, None] * rows.shape[1]
