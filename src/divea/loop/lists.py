"""The ranked lists of an iteration, in blocks.

The ranked lists are the largest data of a run. They stay in blocks of sources, usually files in the run
directory, and are processed in pieces, in threads, worker processes or on a cluster. What the loop needs of
all sources at once is small: the leaders of each list, and the best score of each target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from divea.archives import MappedMatches
from divea.graphs.ids import numbered
from divea.io import is_temporary
from divea.resources.row_blocks import in_threads
from divea.types import Ids, Matches, Scores

Rows = npt.NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")

_ROWS = 1 << 13
"""The most lists in a piece of work."""


class Mapper(Protocol):
    """Applies a function to items, in any process on any machine, and yields the results in order."""

    def __call__(self, function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]: ...


@dataclass(frozen=True)
class Blocks:
    """How ranked lists are processed, and where new lists are stored."""

    map: Mapper = in_threads
    folder: Path | None = None
    """Where to keep new lists, as temporary files; None keeps them in memory."""


IN_MEMORY = Blocks()


@dataclass(frozen=True, eq=False)
class Lists:
    """The ranked lists of all unmatched sources, in blocks. The row of a source is its rank by id among all
    of them.

    >>> first = Matches(np.array([7]), np.array([[3, 5]]), np.float32([[.9, .4]]), np.array([True]))
    >>> second = Matches(np.array([2]), np.array([[4]]), np.float32([[.8]]), np.array([True]))
    >>> lists = Lists.of([first, second])
    >>> lists.source.tolist(), lists.subtask_of_row.tolist(), lists.merged().target.tolist()
    ([2, 7], [1, 0], [[4, -1], [3, 5]])
    """

    blocks: tuple[Matches, ...]
    subtasks: Ids
    """The subtask of each block."""

    @classmethod
    def of(cls, found: Sequence[Matches]) -> Lists:
        """Make lists from the matches of each subtask. A source is unmatched in only one of them."""
        return cls(tuple(found), np.arange(len(found), dtype=np.int32))

    @cached_property
    def _starts(self) -> Rows:
        """The number of lists before each block, and the total."""
        return np.cumsum([0, *(len(block) for block in self.blocks)])

    @cached_property
    def _order(self) -> Rows:
        """For each row, the position of its list if all blocks are concatenated."""
        return np.argsort(_joined([block.source for block in self.blocks], np.int32))

    @cached_property
    def source(self) -> Ids:
        """The source of each row."""
        return _joined([block.source for block in self.blocks], np.int32)[self._order]

    @cached_property
    def rows(self) -> list[Rows]:
        """The row of each list, by block."""
        row = np.empty(len(self._order), dtype=np.int64)
        row[self._order] = np.arange(len(row))
        return np.split(row, self._starts[1:-1]) if self.blocks else []

    @cached_property
    def block_of_row(self) -> Ids:
        """The block of each row."""
        numbers = np.arange(len(self.blocks), dtype=np.int32)
        return np.repeat(numbers, np.diff(self._starts))[self._order]

    @cached_property
    def subtask_of_row(self) -> Ids:
        """The subtask of each row."""
        return self.subtasks[self.block_of_row]

    @cached_property
    def _row_of_source(self) -> Ids:
        """The row of each source id, -1 for ids without a list."""
        row = np.full(int(self.source.max(initial=-1)) + 1, -1, dtype=np.int32)
        row[self.source] = np.arange(len(self), dtype=np.int32)
        return row

    @property
    def width(self) -> int:
        """The most targets that a list has room for."""
        return max((block.target.shape[1] for block in self.blocks), default=0)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def pieces(self) -> list[tuple[int, slice]]:
        """The lists in pieces of limited size: the number of a block, and some of its lists."""
        return [
            (number, slice(first, min(first + _ROWS, len(block))))
            for number, block in enumerate(self.blocks)
            for first in range(0, len(block), _ROWS)
        ]

    def locate(self, sources: Ids) -> Located:
        """Where the lists of these sources are. Sources without a list are left out."""
        known = sources < len(self._row_of_source)
        row = np.full(len(sources), -1, dtype=np.int32)
        row[known] = self._row_of_source[sources[known]]
        position = np.flatnonzero(row >= 0)
        row = row[position]
        block = self.block_of_row[row]
        by_block = np.argsort(block, kind="stable")
        row, block = row[by_block], block[by_block]
        return Located(block, self._order[row] - self._starts[block], position[by_block])

    def between(self, first: int, last: int) -> list[tuple[Matches, slice]]:
        """The parts of the blocks that lie between two positions, if all blocks are concatenated."""
        start = int(np.searchsorted(self._starts, first, side="right")) - 1
        end = int(np.searchsorted(self._starts, last, side="left"))
        parts = zip(self.blocks[start:end], self._starts[start:end].tolist(), strict=True)
        return [
            (block, slice(max(first - before, 0), min(last - before, len(block))))
            for block, before in parts
            if len(block)
        ]

    def merged(self) -> Matches:
        """All lists in one array, by row; for evaluation, and where there are few lists."""
        lists, order = stacked([(block, slice(None)) for block in self.blocks]), self._order
        return Matches(lists.source[order], lists.target[order], lists.score[order], lists.mutual[order])

    def remove(self) -> None:
        """Remove the temporary files of averaged lists; afterwards no other process can open them."""
        for block in self.blocks:
            if isinstance(block, MappedMatches) and is_temporary(block.path.name):
                block.path.unlink(missing_ok=True)


NO_LISTS = Lists.of([])


@dataclass(frozen=True, eq=False)
class Located:
    """Where the lists of some sources are, ordered by block. Arrays have an entry per source with a list."""

    block: Ids
    """The number of the block."""
    row: Rows
    """The row in the block."""
    position: Rows
    """The position of the source among those that were looked up."""

    def by_block(self) -> Iterator[tuple[int, Rows, Rows]]:
        """For each block, its number, the rows in it, and the positions of their sources."""
        numbers, first = np.unique(self.block, return_index=True)
        bounds = [*first.tolist(), len(self.block)]
        for number, start, end in zip(numbers.tolist(), bounds[:-1], bounds[1:], strict=True):
            yield number, self.row[start:end], self.position[start:end]


def stacked(parts: Sequence[tuple[Matches, slice]]) -> Matches:
    """Parts of blocks, concatenated. Narrower parts are padded with empty places."""
    lists = [
        Matches(block.source[at], block.target[at], block.score[at], block.mutual[at]) for block, at in parts
    ]
    rows = sum(len(part) for part in lists)
    width = max((part.target.shape[1] for part in lists), default=0)
    target = np.full((rows, width), -1, dtype=np.int32)
    score = np.full((rows, width), -np.inf, dtype=np.float32)
    first = 0
    for part in lists:
        own = slice(first, first + len(part)), slice(part.target.shape[1])
        target[own], score[own] = part.target, part.score
        first += len(part)
    source = _joined([part.source for part in lists], np.int32)
    return Matches(source, target, score, _joined([part.mutual for part in lists], np.bool_))


@dataclass(frozen=True, eq=False)
class Ranking:
    """Lists, and a summary that saves reading them again. Arrays have an entry per row or per target."""

    lists: Lists
    best: Ids
    """The first target, -1 for none."""
    leaders: Scores
    """The first two scores, as two columns; -inf for none."""
    mutual: npt.NDArray[np.bool_]
    listed: Ids
    """The number of targets."""
    is_ahead: npt.NDArray[np.bool_]
    """Whether the first target has a higher score than every other target of the list."""
    best_score: Scores
    """For each target, the best score that any list gives it; -inf if none has it."""
    is_contested: npt.NDArray[np.bool_]
    """For each target, whether several lists give it its best score."""

    @property
    def first_pairs(self) -> Matches:
        """Lists of the first targets alone."""
        return Matches(self.lists.source, self.best[:, None], self.leaders[:, :1], self.mutual)

    def __len__(self) -> int:
        return len(self.lists)


def rank(lists: Lists, blocks: Blocks = IN_MEMORY, draw: Callable[[int], Rows] | None = None) -> Ranking:
    """Read all lists once and summarise them.

    Parameters
    ----------
    draw
        Returns a random order of a number of rows. With it, a list is mutual if no other list has a better
        score for its first target; of several such lists, the first in this order is. Without it, `mutual`
        is taken from the lists.

    Examples
    --------
    >>> scores = np.float32([[.9], [.8]])
    >>> rivals = Matches(np.array([0, 1]), np.array([[5], [5]]), scores, np.array([True, True]))
    >>> rank(Lists.of([rivals]), draw=np.arange).mutual.tolist()
    [True, False]
    """
    count = len(lists)
    best, listed = np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
    leaders = np.full((count, 2), -np.inf, dtype=np.float32)
    mutual, is_ahead = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    pieces = lists.pieces()
    work = [(lists.blocks[number], rows) for number, rows in pieces]
    found = list(blocks.map(_leaders, work))
    targets = max((int(piece.target[-1]) + 1 for piece in found if len(piece.target)), default=0)
    best_score = np.full(targets, -np.inf, dtype=np.float32)
    is_contested = np.zeros(targets, dtype=bool)
    for (number, own), piece in zip(pieces, found, strict=True):
        rows = lists.rows[number][own]
        best[rows], leaders[rows], listed[rows] = piece.best, piece.leaders, piece.listed
        mutual[rows], is_ahead[rows] = piece.mutual, piece.is_ahead
        before, score = best_score[piece.target], piece.best_score
        # A best score of -inf always counts as contested; all it costs is that a list is read again.
        is_contested[piece.target] |= score == before
        better = np.flatnonzero(score > before)
        ahead = piece.target[better]
        is_contested[ahead], best_score[ahead] = piece.is_contested[better], score[better]
    if draw is not None:
        mutual = _mutual(best, leaders[:, 0], best_score, draw)
    return Ranking(lists, best, leaders, mutual, listed, is_ahead, best_score, is_contested)


@dataclass(frozen=True, eq=False)
class _Leaders:
    """The summary of a piece of the lists, and of the targets in them."""

    best: Ids
    leaders: Scores
    mutual: npt.NDArray[np.bool_]
    listed: Ids
    is_ahead: npt.NDArray[np.bool_]
    target: Ids
    """All targets of these lists, in order."""
    best_score: Scores
    is_contested: npt.NDArray[np.bool_]


def _leaders(piece: tuple[Matches, slice]) -> _Leaders:
    matches, rows = piece
    target, score = matches.target[rows], matches.score[rows]
    count, width = target.shape
    is_listed = target >= 0
    leaders = np.full((count, 2), -np.inf, dtype=np.float32)
    leaders[:, : min(width, 2)] = score[:, :2]
    best = target[:, 0].copy() if width else np.full(count, -1, dtype=np.int32)
    is_ahead = best >= 0
    if width > 1:
        others = np.where(is_listed[:, 1:], score[:, 1:], -np.inf).max(axis=1)
        is_ahead &= (leaders[:, 0] > others) | ~is_listed[:, 1:].any(axis=1)
    ids, values = target[is_listed], score[is_listed]
    distinct, place = numbered(ids)
    best_score = np.full(len(distinct), -np.inf, dtype=np.float32)
    np.maximum.at(best_score, place, values)
    holders = np.bincount(place[values == best_score[place]], minlength=len(distinct))
    listed = is_listed.sum(axis=1, dtype=np.int32)
    return _Leaders(best, leaders, matches.mutual[rows], listed, is_ahead, distinct, best_score, holders > 1)


def _mutual(
    best: Ids, score: Scores, best_score: Scores, draw: Callable[[int], Rows]
) -> npt.NDArray[np.bool_]:
    """Whether each row is the best source of its first target; of rows that tie, a random one is."""
    mutual = np.zeros(len(best), dtype=bool)
    row = np.flatnonzero(best >= 0)
    row = row[score[row] == best_score[best[row]]]
    # The last row written for a target wins, so the order is reversed to let the first row win.
    shuffled = row[draw(len(row))[::-1]]
    winner = np.empty(len(best_score), dtype=np.int64)
    winner[best[shuffled]] = shuffled
    mutual[winner[best[row]]] = True
    return mutual


def _joined(arrays: Iterable[npt.NDArray[Any]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype=dtype), *arrays])
