"""Work on arrays with one row per entity: in blocks that fit into a cache, on all cores.

numpy releases Python's lock in its inner loops, so threads that each take a block keep all cores busy.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from divea.resources.machine import cores


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
