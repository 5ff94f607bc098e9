"""Work on arrays with one row per entity: in blocks that fit into a cache, on all cores.

numpy releases Python's lock in its inner loops, so threads that each take a block keep all cores busy.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from divea.resources.machine import cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def for_row_blocks(work: Callable[[slice], object], rows: int, size: int) -> None:
    """Call `work` with every block of rows. The order of the calls is not fixed, and some overlap.

    Parameters
    ----------
    size
        The rows of a block.

    Examples
    --------
    >>> import numpy as np
    >>> squares = np.zeros(5)
    >>> def work(block: slice) -> None:
    ...     squares[block] = np.arange(5)[block] ** 2
    >>> for_row_blocks(work, 5, size=2)
    >>> squares.tolist()
    [0.0, 1.0, 4.0, 9.0, 16.0]
    """
    blocks = [slice(first, min(first + size, rows)) for first in range(0, rows, size)]
    threads = min(cores(), len(blocks))
    if threads < 2:
        for block in blocks:
            work(block)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, blocks):
            pass


def in_threads(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """The result of each item, in order; items are processed in threads, one for each core.

    At most twice as many results as there are threads wait for the caller.

    >>> list(in_threads(abs, [-2, 1, -3]))
    [2, 1, 3]
    """
    threads = min(cores(), len(items))
    if threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        started: deque[Future[Result]] = deque()
        try:
            for item in items:
                started.append(pool.submit(function, item))
                if len(started) > 2 * threads:
                    yield started.popleft().result()
            while started:
                yield started.popleft().result()
        finally:
            for waiting in started:
                waiting.cancel()
