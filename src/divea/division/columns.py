"""Products of a sparse matrix with one dense column per part, a block of columns at a time.

Discovery and evidence both need one number for every entity and part. At two million entities
and 200 parts that is 1.6 GB an array; a block of columns keeps it under a stated budget.

A part also lives in a small region of a large graph. So a block of parts is done on the region that
matters to any of them. Where the region is most of the graph, as it is when all parts fit one block, the
whole graph is taken and the pass is exact.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.graphs.labels import Ids

# Said once per process by torch, to users who can do nothing about it.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")

MEMORY_BUDGET = 3 << 30
"""Bytes that the dense arrays of one block of columns may take together. Two blocks are done at a time, four
where both graphs are."""

FINE, COARSE = 8, 32
"""Columns of a block, on a region and on the whole graph: narrow blocks have small regions, wide ones the
faster product."""

ROWS = 1 << 15
"""Rows of a block where a matrix is gone through entry by entry."""

NEVER = -np.inf
_ARRAYS = 12  # dense arrays alive at once in the hungriest step, the evidence passes


def sparse_tensor(matrix: csr_array, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """A scipy matrix as a torch one; 32-bit indices halve the traffic of the product."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int32, copy=False)).to(device),
        torch.from_numpy(matrix.indices.astype(np.int32, copy=False)).to(device),
        torch.from_numpy(matrix.data).to(device, dtype),
        size=matrix.shape,
        check_invariants=False,
    )


def column_blocks(rows: int, columns: int, dtype: torch.dtype, widest: int = FINE) -> Iterator[range]:
    """Ranges of columns, as wide as the memory budget allows and no wider than `widest`.

    >>> list(column_blocks(1000, 20, torch.float32))
    [range(0, 8), range(8, 16), range(16, 20)]
    """
    width = max(1, min(widest, MEMORY_BUDGET // max(1, rows * dtype.itemsize * _ARRAYS)))
    for first in range(0, columns, width):
        yield range(first, min(first + width, columns))


def row_blocks(rows: int) -> Iterator[slice]:
    """Slices of rows, at least one, whose entries stay in the cache while several arrays are made of them."""
    for first in range(0, max(rows, 1), ROWS):
        yield slice(first, min(first + ROWS, rows))


def indicator(
    rows: int, ids: Ids, column_of: Ids, block: range, dtype: torch.dtype, device: str = "cpu"
) -> torch.Tensor:
    """Ones at (id, its column), for the columns of this block."""
    inside = (column_of >= block.start) & (column_of < block.stop)
    at = torch.from_numpy(ids[inside].astype(np.int64)).to(device)
    column = torch.from_numpy(column_of[inside].astype(np.int64) - block.start).to(device)
    ones = torch.zeros((rows, len(block)), dtype=dtype, device=device)
    ones[at, column] = 1
    return ones


def marks(rows: int, lists: Sequence[Ids], dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """One column per list, with ones at its ids."""
    lengths = [len(ids) for ids in lists]
    column_of = np.repeat(np.arange(len(lists), dtype=np.int32), lengths)
    ids = np.concatenate(lists) if lists else np.zeros(0, dtype=np.int32)
    return indicator(rows, ids, column_of, range(len(lists)), dtype, device)


def block_of_parts(blocks: Sequence[range]) -> Ids:
    """The block that each part belongs to; after the last part, the number after the last block."""
    lengths = [*(len(block) for block in blocks), 1]
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def region(matters: np.ndarray) -> Ids | None:
    """The rows of a region, or None where it is so large that the whole graph serves as well."""
    rows = np.flatnonzero(matters).astype(np.int32)
    return None if 2 * len(rows) > len(matters) else rows


def cut_out(matrix: csr_array, rows: Ids | None) -> csr_array:
    """The part of a square matrix between these rows."""
    if rows is None:
        return matrix
    place = np.full(matrix.shape[0], -1, dtype=np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    part = matrix[rows]
    columns = place.take(part.indices)
    return entries(part, columns >= 0, columns, len(rows))


def entries(matrix: csr_array, kept: np.ndarray, columns: Ids, width: int) -> csr_array:
    """Those entries of a matrix that are marked, each in another column."""
    ends = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(kept, dtype=np.int32)])
    arrays = matrix.data.compress(kept), columns.compress(kept), ends.take(matrix.indptr)
    return csr_array(arrays, shape=(matrix.shape[0], width))


def positions(rows: Ids | None, ids: Ids) -> Ids:
    """Where ids stand among the rows of a region (sorted, and holding them all)."""
    return ids if rows is None else np.searchsorted(rows, ids).astype(np.int32)


def contains(rows: Ids, ids: Ids) -> np.ndarray:
    """Which ids are among the rows (sorted); no mark for every entity is made."""
    if len(rows) == 0:
        return np.zeros(len(ids), dtype=bool)
    found: np.ndarray = rows[np.minimum(np.searchsorted(rows, ids), len(rows) - 1)] == ids
    return found


def tie_draw(count: int, seed: int, side: str) -> np.ndarray:
    """One seeded number per entity, to decide between equals.

    Ids are in the order of label hashes, so a draw by id does not depend on any file's order; the
    two sides draw differently, so that equal ranks on both are no hint.
    """
    return np.random.default_rng([seed, len(side), ord(side[0])]).random(count)


def best(scores: np.ndarray, count: int, draw: np.ndarray) -> np.ndarray:
    """Positions of the `count` highest scores, best first; equal scores are taken by the lower draw.

    A score of minus infinity means "never".

    >>> best(np.array([0.5, 0.5, 0.9, -np.inf]), 2, np.array([3.0, 1.0, 2.0, 0.0])).tolist()
    [2, 1]
    """
    able = np.flatnonzero(scores > NEVER)
    if 0 < count < len(able):
        values = scores[able]
        last = np.partition(values, len(values) - count)[len(values) - count]
        able = able[values >= last]
    return able[np.lexsort((draw[able], -scores[able]))][: max(count, 0)]


def by_part(scores: torch.Tensor) -> np.ndarray:
    """Scores as one contiguous row for each part; choosing is done on the host, whatever the device."""
    rows: np.ndarray = scores.T.contiguous().cpu().numpy()
    return rows
