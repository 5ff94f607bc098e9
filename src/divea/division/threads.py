"""Pieces of work that do not depend on each other, done two at a time.

numpy, scipy, torch and Arrow release Python's lock in their inner loops, so two threads keep two cores
busy with what none of them does in parallel by itself: cutting out, choosing, formatting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

AT_ONCE = 2


def side_by_side(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """The result of every piece, in their order: what comes out does not depend on the threads.

    >>> list(side_by_side(abs, [-2, 1, -3]))
    [2, 1, 3]
    """
    if AT_ONCE == 1:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(work, pieces)
