"""Arrays of ids as sets: positions and membership in sorted arrays, masks over all entities, and ranges."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from divea.types import Ids


def positions(members: Ids | None, ids: Ids) -> Ids:
    """The position of each id in the sorted array `members`, which must contain all of them.

    `members` may be None for the array of all ids, in which the position of an id is the id itself.

    >>> positions(np.array([2, 5, 9]), np.array([9, 2])).tolist()
    [2, 0]
    """
    return ids if members is None else np.searchsorted(members, ids).astype(np.int32)


def contains(members: Ids | npt.NDArray[np.int64], ids: Ids | npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Whether each id, or number of a pair of ids, is in the sorted array `members`.

    >>> contains(np.array([2, 5, 9]), np.array([5, 6])).tolist()
    [True, False]
    """
    if len(members) == 0:
        return np.zeros(len(ids), dtype=bool)
    # An id above all members has no position, so it is compared with the last member.
    position = np.minimum(np.searchsorted(members, ids), len(members) - 1)
    found: npt.NDArray[np.bool_] = members[position] == ids
    return found


def marked(ids: Ids, size: int) -> npt.NDArray[np.bool_]:
    """A mask of `size` entities that is true at these ids.

    >>> marked(np.array([1]), 3).tolist()
    [False, True, False]
    """
    mask = np.zeros(size, dtype=bool)
    mask[ids] = True
    return mask


def ranges(first: npt.NDArray[np.integer], count: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
    """The numbers of several ranges, one range after the other.

    Parameters
    ----------
    first
        The first number of each range.
    count
        The length of each range; it may be 0.

    Examples
    --------
    >>> ranges(np.array([5, 8, 1]), np.array([2, 0, 3])).tolist()
    [5, 6, 1, 2, 3]
    """
    count = count.astype(np.int64)
    return np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())


def numbered(ids: Ids) -> tuple[Ids, Ids]:
    """The distinct ids in order, and the position of each id among them: faster than `np.unique`.

    >>> [array.tolist() for array in numbered(np.array([7, 3, 7], dtype=np.int32))]
    [[3, 7], [1, 0, 1]]
    """
    size = int(ids.max(initial=-1)) + 1
    distinct = np.flatnonzero(marked(ids, size)).astype(np.int32)
    place = np.empty(size, dtype=np.int32)
    place[distinct] = np.arange(len(distinct), dtype=np.int32)
    return distinct, place[ids]
