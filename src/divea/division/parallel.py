"""Runs independent pieces of work in two threads.

numpy, scipy, torch and Arrow release Python's lock in their inner loops, so two threads keep two cores busy
with work that none of these libraries parallelises itself: slicing, selecting, formatting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

THREADS = 2


def in_parallel(work: Callable[[Piece], Result], pieces: Iterable[Piece]) -> Iterator[Result]:
    """The result of every piece, in the order of the pieces whatever the threads do.

    >>> list(in_parallel(abs, [-2, 1, -3]))
    [2, 1, 3]
    """
    if THREADS == 1:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        yield from pool.map(work, pieces)
