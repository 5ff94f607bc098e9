"""Greedy one-to-one assignment by deferred acceptance.

Every source proposes to the targets of its list, best first, and every target keeps the best source that has
proposed to it so far. Both ends of a pair rank it by the same score and the same draw, so the result is the
greedy one: the best pair of all, then the best of the remaining ones, and so on. A list is read only as far
as its source gets, and draws are made only if there are ties.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from divea.resources.row_blocks import for_row_blocks
from divea.types import Ids, Matches

_ROWS = 1 << 12
"""Rows of a block."""

_DRAWS = 1 << 14
"""Draws that are made together."""

Rows = npt.NDArray[np.int64]
Numbering = tuple[Rows, npt.NDArray[np.integer[Any]]]
"""The number of each row's first draw, and how far the draw of each of its pairs is from that one."""


def assign_greedily(matches: Matches, random_seed: list[int], draws: Numbering | None = None) -> Ids:
    """The target assigned to each row, -1 for none.

    Parameters
    ----------
    random_seed
        The random seed of the draws: every listed pair has one, and the lower one wins if scores are equal.
    draws
        The number of each pair's draw; None numbers the listed pairs in the order of source ids and targets.

    Examples
    --------
    >>> scores = np.float32([[.9, .8], [.85, .7]])
    >>> both = Matches(np.array([0, 1]), np.array([[5, 6], [5, 6]]), scores, np.array([True, False]))
    >>> assign_greedily(both, [0]).tolist()
    [5, 6]
    """
    assigned = np.full(len(matches), -1, dtype=np.int32)
    if not matches.target.size:
        return assigned
    proposals = _Proposals(_Lists(matches, random_seed, draws))
    while proposals.propose():
        pass
    chosen = np.flatnonzero(proposals.holder >= 0)
    assigned[proposals.holder[chosen]] = chosen
    return assigned


class _Proposals:
    """The rows that still propose, and the row that each target keeps."""

    def __init__(self, lists: _Lists):
        self._lists = lists
        targets = int(lists.target.max()) + 1
        self._rows = np.arange(len(lists.target))
        self._place = np.zeros(len(lists.target), dtype=np.int64)
        self.holder = np.full(targets, -1, dtype=np.int64)
        self._held = np.full(targets, -np.inf, dtype=lists.score.dtype)
        """The score of the row that a target keeps."""
        self._mark = np.empty(targets, dtype=np.int64)
        self._lowest = np.empty(targets)
        """The lowest draw of the rows that tie for a target."""

    def propose(self) -> bool:
        """Let every row without a target propose to its next one; False if none is left."""
        rows = self._rows
        target, score = self._lists.at(rows, self._place[rows])
        is_listed = target >= 0
        if not is_listed.all():
            rows, target, score = rows[is_listed], target[is_listed], score[is_listed]
        is_kept = np.zeros(len(rows), dtype=bool)
        kept = self._kept(rows, target, score)
        is_kept[kept] = True
        dropped = self.holder[target[kept]]
        self.holder[target[kept]] = rows[kept]
        rows = np.concatenate([rows[~is_kept], dropped[dropped >= 0]])
        self._place[rows] += 1
        self._rows = rows[self._place[rows] < self._lists.width]
        return len(self._rows) > 0

    def _kept(self, rows: Rows, target: Ids, score: npt.NDArray[Any]) -> Rows:
        """The positions of the proposals that targets keep from now on."""
        before = self._held[target]
        np.maximum.at(self._held, target, score)
        # The score of a target that keeps no row is -inf, and so may be that of a proposal to it.
        best = np.flatnonzero(score == self._held[target])
        wanted = target[best]
        rival = np.where(before[best] == score[best], self.holder[wanted], -1)
        self._mark[wanted] = best
        is_tied = (self._mark[wanted] != best) | (rival >= 0)
        if not is_tied.any():
            return best
        # One of the proposals that tie for a target is not marked as such yet.
        self._mark[wanted[is_tied]] = -1
        is_tied = self._mark[wanted] < 0
        drawn = self._drawn(rows, target, best[is_tied], rival[is_tied])
        return np.concatenate([best[~is_tied], drawn])

    def _drawn(self, rows: Rows, target: Ids, tied: Rows, rival: Rows) -> Rows:
        """The positions of the proposals that win the draw, among those that tie for their targets.

        Parameters
        ----------
        rival
            For each of `tied`, the row that its target keeps, if that has the same score; otherwise -1.
        """
        is_rival = rival >= 0
        row = np.concatenate([rows[tied], rival[is_rival]])
        wanted = np.concatenate([target[tied], target[tied[is_rival]]])
        position = np.concatenate([tied, np.full(is_rival.sum(), -1)])
        draw = self._lists.draws_at(row, self._place[row])
        self._lowest[wanted] = np.inf
        np.minimum.at(self._lowest, wanted, draw)
        # Of rows with the same draw, which is all but impossible, the first one wins.
        lowest = np.flatnonzero(draw == self._lowest[wanted])
        lowest = lowest[np.argsort(row[lowest])][::-1]
        self._mark[wanted[lowest]] = lowest
        winner = position[lowest[self._mark[wanted[lowest]] == lowest]]
        return winner[winner >= 0]


class _Lists:
    """The listed pairs of every row, in the order in which it proposes."""

    def __init__(self, matches: Matches, random_seed: list[int], draws: Numbering | None):
        self._source, self._random_seed, self._numbering = matches.source, random_seed, draws
        self.target = np.ascontiguousarray(matches.target)
        self.score = np.ascontiguousarray(matches.score)
        self.width = self.target.shape[1]
        self._order = _SomeRows(self.target.shape, np.int16 if self.width < 1 << 15 else np.int32)
        """The places of a row in the order of proposals, for rows that do not propose in list order."""
        is_unsorted = np.zeros(len(matches), dtype=bool)

        def check(block: slice) -> None:
            score, target = self.score[block], self.target[block]
            is_wrong = (score[:, 1:] > score[:, :-1]) | ((target[:, 1:] >= 0) & (target[:, :-1] < 0))
            is_unsorted[block] = is_wrong.any(axis=1)

        for_row_blocks(check, len(matches), _ROWS)
        self._put_in_order(np.flatnonzero(is_unsorted))

    def at(self, rows: Rows, turn: Rows) -> tuple[Ids, npt.NDArray[Any]]:
        """The target and the score of the proposal that each row makes in its given turn; -1 for none."""
        place = self._flat(rows, turn)
        score = self.score.take(place)
        # A row that proposes in list order must be put in order by draws if the next score is the same.
        later = np.flatnonzero((turn + 1 < self.width) & ~self._order.has(rows))
        following = place[later] + 1
        is_tied = (self.score.take(following) == score[later]) & (self.target.take(following) >= 0)
        if is_tied.any():
            tied = later[is_tied]
            self._put_in_order(rows[tied])
            place[tied] = self._flat(rows[tied], turn[tied])
        return self.target.take(place), score

    def _flat(self, rows: Rows, turn: Rows) -> Rows:
        """The place of a proposal in the flattened lists."""
        return rows * self.width + np.where(self._order.has(rows), self._order.at(rows, turn), turn)

    def _put_in_order(self, rows: Rows) -> None:
        """Order the pairs of some rows by score, equal ones by their draws."""
        if not len(rows):
            return
        self._order.add(rows)

        def order(block: slice) -> None:
            own = rows[block]
            target = self.target[own]
            # nan sorts after everything else, so empty places come last.
            descending = np.where(target >= 0, -self.score[own], np.nan)
            self._order.put(own, np.lexsort((draws.of(own), descending)))

        draws = self._draws
        draws.make(rows)  # before there are threads
        for_row_blocks(order, len(rows), _ROWS)

    def draws_at(self, rows: Rows, turn: Rows) -> npt.NDArray[np.float64]:
        """The draws of the proposals that rows make in their given turns."""
        self._draws.make(rows)
        return self._draws.at(rows, self._flat(rows, turn) - rows * self.width)

    @cached_property
    def _draws(self) -> _Draws:
        return _Draws(self._numbering or _numbered(self._source, self.target), self._random_seed)


class _SomeRows:
    """An array for some rows of the lists, usually few, that are added when they are needed.

    It has room for all rows. The system provides memory for those alone that are written.
    """

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike):
        self._place = np.full(shape[0], -1, dtype=np.int32)
        """Where a row of the lists is in `_values`, -1 for nowhere."""
        self._values = np.empty(shape, dtype)
        self._count = 0

    def has(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Whether each row was added."""
        return self._place[rows] >= 0

    def add(self, rows: Rows) -> None:
        """Add distinct rows, whose values are to be put next."""
        self._place[rows] = np.arange(self._count, self._count + len(rows))
        self._count += len(rows)

    def put(self, rows: Rows, values: npt.NDArray[Any]) -> None:
        """Set the values of rows that were added."""
        self._values[self._place[rows]] = values

    def of(self, rows: Rows) -> npt.NDArray[Any]:
        """The values of rows that were added."""
        return self._values[self._place[rows]]

    def at(self, rows: Rows, column: Rows) -> npt.NDArray[Any]:
        """One value of each row; any value for rows that were not added."""
        found: npt.NDArray[Any] = self._values[self._place[rows], column]
        return found


class _Draws:
    """The draws of the rows that need any."""

    def __init__(self, numbering: Numbering, random_seed: list[int]):
        self._first, self._offset = numbering
        self._random_seed = random_seed
        self._made = _SomeRows(self._offset.shape, np.float64)

    def make(self, rows: Rows) -> None:
        """Make the draws of some rows, unless they are made already."""
        new = np.unique(rows[~self._made.has(rows)])
        if not len(new):
            return
        # Draws come in chunks, and the numbers of a row are consecutive: in this order, a chunk is needed by
        # few blocks of rows, whatever the order of the rows.
        new = new[np.argsort(self._first[new])]
        self._made.add(new)

        def fill(block: slice) -> None:
            own = new[block]
            numbers = self._first[own][:, None] + self._offset[own]
            self._made.put(own, _draws_with(numbers, self._random_seed))

        for_row_blocks(fill, len(new), _ROWS)

    def of(self, rows: Rows) -> npt.NDArray[np.float64]:
        """All draws of each row; they must be made."""
        return self._made.of(rows)

    def at(self, rows: Rows, column: Rows) -> npt.NDArray[np.float64]:
        """The draw of each row in a column; they must be made."""
        return self._made.at(rows, column)


def _numbered(source: Ids, target: npt.NDArray[np.int32]) -> Numbering:
    """The numbers of the listed pairs in the order of source ids and targets, whatever the order of rows."""
    listed = (target >= 0).sum(axis=1)
    by_source = np.argsort(source, kind="stable")
    first = np.empty(len(listed), dtype=np.int64)
    first[by_source] = np.cumsum(listed[by_source]) - listed[by_source]
    # Empty places have target -1 and sort first, so they must not be counted.
    place = np.arange(target.shape[1], dtype=np.int32) - (target.shape[1] - listed)[:, None].astype(np.int32)
    offset = np.empty(target.shape, dtype=np.int32)
    np.put_along_axis(offset, np.argsort(target, axis=1), place, axis=1)
    return first, offset


def _draws_with(numbers: Rows, random_seed: list[int]) -> npt.NDArray[np.float64]:
    """The draws with these numbers, as `np.random.default_rng(random_seed).random(most)` has them.

    Draws are made in chunks, and only in chunks that hold one of the numbers. Places without a pair, whose
    number may be negative, get any draw.
    """
    wanted = np.maximum(numbers, 0).ravel()
    chunk = wanted // _DRAWS
    order = np.argsort(chunk, kind="stable")
    chunks, first = np.unique(chunk[order], return_index=True)
    found = np.empty(len(wanted))
    for number, members in zip(chunks.tolist(), np.split(order, first[1:]), strict=True):
        bits = np.random.PCG64(random_seed).advance(number * _DRAWS)
        found[members] = np.random.Generator(bits).random(_DRAWS)[wanted[members] - number * _DRAWS]
    return found.reshape(numbers.shape)
