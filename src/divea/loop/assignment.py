"""Assigns at most one target to each source, and at most one source to each target.

The pair with the highest score of all lists is assigned first, then the best of the remaining pairs, and so
on. A pair whose ends are each other's best is therefore always assigned, and most pairs are of this kind. The
lists of the other sources are read again without the targets that are taken. Little is left of these lists,
and `matching.one_to_one` assigns the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from divea.graphs.ids import ranges
from divea.loop.lists import IN_MEMORY, Blocks, Ranking, Rows
from divea.matching import one_to_one
from divea.types import Ids, Matches, Scores


@dataclass(frozen=True)
class Assignment:
    """The assigned pairs, in order of source id, and what the ranked lists say about them."""

    source: Ids
    target: Ids
    row: Rows
    """The row of the source in the lists."""
    rank: Rows
    """The place of the target in the source's list, from 0."""
    score: Scores
    rival: Scores
    """The best score of another target in the list; -inf if there is none."""
    mutual: npt.NDArray[np.bool_]
    """Whether each end is the other's best match."""

    def by_row(self, rows: int) -> Ids:
        """The target assigned to each row, -1 for none."""
        assigned = np.full(rows, -1, dtype=np.int32)
        assigned[self.row] = self.target
        return assigned

    def take(self, chosen: npt.NDArray[np.bool_]) -> Assignment:
        """Some of the pairs."""
        names = ("source", "target", "row", "rank", "score", "rival", "mutual")
        return Assignment(*(getattr(self, name)[chosen] for name in names))

    def __len__(self) -> int:
        return len(self.source)


def assign(
    ranking: Ranking, blocks: Blocks = IN_MEMORY, *, one_to_one: bool, random_seed: int = 0
) -> Assignment:
    """Assign targets to sources.

    With `one_to_one`, no target is assigned twice; otherwise every source gets the first target of its list.

    Examples
    --------
    >>> from divea.loop.lists import Lists, rank
    >>> scores = np.float32([[.9, .8], [.85, .7]])
    >>> lists = Matches(np.array([0, 1]), np.array([[5, 6], [5, 6]]), scores, np.array([True, False]))
    >>> assign(rank(Lists.of([lists])), one_to_one=True).target.tolist()
    [5, 6]
    """
    if not one_to_one:
        row = np.flatnonzero(ranking.best >= 0)
        return _assignment(ranking, row, ranking.best[row], np.zeros(len(row), dtype=np.int64))
    row = np.flatnonzero(ranking.is_ahead)
    first = ranking.best[row]
    is_certain = (ranking.leaders[row, 0] == ranking.best_score[first]) & ~ranking.is_contested[first]
    row, first = row[is_certain], first[is_certain]
    other_row, other, place, score = _assign_rest(ranking, row, first, blocks, random_seed)
    row = np.concatenate([row, other_row])
    order = np.argsort(row)
    return _assignment(
        ranking,
        row[order],
        np.concatenate([first, other])[order],
        np.concatenate([np.zeros(len(first), dtype=np.int64), place])[order],
        np.concatenate([ranking.leaders[row[: len(first)], 0], score])[order],
    )


def _assignment(
    ranking: Ranking, row: Rows, target: Ids, place: Rows, score: Scores | None = None
) -> Assignment:
    leaders = ranking.leaders[row]
    rival = np.where(place == 0, leaders[:, 1], leaders[:, 0])
    mutual = ranking.mutual[row] & (place == 0)
    score = leaders[:, 0] if score is None else score
    return Assignment(ranking.lists.source[row], target, row, place, score, rival, mutual)


def _assign_rest(
    ranking: Ranking, assigned: Rows, targets: Ids, blocks: Blocks, random_seed: int
) -> tuple[Rows, Ids, Rows, Scores]:
    """The pairs of the remaining rows and targets: row, target, place in the list, and score."""
    lists = ranking.lists
    is_open = ranking.listed > 0
    is_open[assigned] = False
    is_taken = np.zeros(len(ranking.best_score), dtype=bool)
    is_taken[targets] = True
    pieces, rows = [], []
    for number, own in lists.pieces():
        row = lists.rows[number][own]
        chosen = np.flatnonzero(is_open[row])
        if len(chosen):
            pieces.append((lists.blocks[number], own.start + chosen))
            rows.append(row[chosen])
    row = np.concatenate([np.zeros(0, dtype=np.int64), *rows])
    rest = _Rest.empty(len(row), lists.width)
    work = partial(_rest, is_taken=is_taken, dtype=rest.place.dtype)
    rest.fill(blocks.map(work, pieces))
    # Every listed pair has a draw of its own, numbered by source id and then by target id.
    before = np.cumsum(ranking.listed, dtype=np.int64) - ranking.listed
    draws = before[row], rest.number
    matches = Matches(lists.source[row], rest.target, rest.score, np.zeros(len(row), dtype=bool))
    found = one_to_one(matches, random_seed=random_seed, draws=draws)
    is_found = rest.target == found[:, None]
    is_found &= (found >= 0)[:, None]
    at, column = np.nonzero(is_found)
    return row[at], found[at], rest.place[at, column].astype(np.int64), rest.score[at, column]


@dataclass(frozen=True, eq=False)
class _Rest:
    """What is left of some lists; empty places hold -1 and -inf."""

    target: npt.NDArray[np.int32]
    score: Scores
    place: npt.NDArray[np.integer[Any]]
    """The place of each target in the whole list."""
    number: npt.NDArray[np.integer[Any]]
    """The place that each target would have if the whole list were ordered by target id."""

    @classmethod
    def empty(cls, rows: int, width: int) -> _Rest:
        """Room for so many lists. It may be the largest array here, so places are as small as possible."""
        dtype = np.min_scalar_type(-1 - width)
        return cls(
            np.full((rows, width), -1, dtype=np.int32),
            np.full((rows, width), -np.inf, dtype=np.float32),
            np.full((rows, width), -1, dtype=dtype),
            np.full((rows, width), -1, dtype=dtype),
        )

    def fill(self, rests: Iterable[_Rest]) -> None:
        """Put other rests into the rows, one after the other."""
        first = 0
        for rest in rests:
            own = slice(first, first + len(rest.target)), slice(rest.target.shape[1])
            self.target[own], self.score[own] = rest.target, rest.score
            self.place[own], self.number[own] = rest.place, rest.number
            first += len(rest.target)


def _rest(piece: tuple[Matches, Rows], *, is_taken: npt.NDArray[np.bool_], dtype: np.dtype[Any]) -> _Rest:
    """Some lists of a block without the targets that are taken."""
    matches, rows = piece
    target, score = matches.target[rows], matches.score[rows]
    is_left = (target >= 0) & ~is_taken[target]
    left = is_left.sum(axis=1)
    row, place = np.nonzero(is_left)
    column = ranges(np.zeros_like(left), left)
    shape = len(rows), int(left.max(initial=0))

    def compact(values: npt.NDArray[Any], empty: float) -> npt.NDArray[Any]:
        found = np.full(shape, empty, dtype=values.dtype)
        found[row, column] = values
        return found

    by_id = np.argsort(target, axis=1)
    number = np.empty(target.shape, dtype=dtype)
    np.put_along_axis(number, by_id, np.arange(target.shape[1], dtype=dtype)[None], axis=1)
    # Empty places have target -1 and sort first, so they must not be counted.
    number -= (target < 0).sum(axis=1, dtype=dtype)[:, None]
    return _Rest(
        compact(target[row, place], -1),
        compact(score[row, place], -np.inf),
        compact(place.astype(dtype), -1),
        compact(number[row, place], -1),
    )
