"""Sparse products with one dense column per part, a block of columns at a time.

Discovery and evidence both need one number for every pair of entity and part. At two million entities and
200 parts that is 1.6 GB per array; working through blocks of columns keeps memory within a budget.

A part lives in a small region of a large graph, so a block of parts is computed on the region that concerns
any of them. Where that region is most of the graph, the whole graph is used and the result is exact; that is
always the case when all parts fit into one block.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.resources.budget import DIVISION_BLOCK_MEMORY
from divea.types import Ids

# torch warns once per process; users can do nothing about it.
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")

NARROW, WIDE = 8, 32
"""Columns of a block on a region and on the whole graph: narrow blocks have small regions, wide ones the
faster product."""

_ROWS = 1 << 15
"""Rows of a block where a matrix is read entry by entry."""

_DENSE_ARRAYS = 12
"""Dense arrays that exist at once in the step with the highest memory use, the evidence passes."""


def sparse_tensor(matrix: csr_array, dtype: torch.dtype, device: str = "cpu") -> torch.Tensor:
    """Convert a scipy matrix to torch; 32-bit indices halve the memory traffic of the product."""
    return torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr.astype(np.int32, copy=False)).to(device),
        torch.from_numpy(matrix.indices.astype(np.int32, copy=False)).to(device),
        torch.from_numpy(matrix.data).to(device, dtype),
        size=matrix.shape,
        check_invariants=False,
    )


def column_blocks(rows: int, columns: int, dtype: torch.dtype, widest: int = NARROW) -> Iterator[range]:
    """Ranges of columns, as wide as the memory budget allows and no wider than `widest`.

    >>> list(column_blocks(1000, 20, torch.float32))
    [range(0, 8), range(8, 16), range(16, 20)]
    """
    width = max(1, min(widest, DIVISION_BLOCK_MEMORY // max(1, rows * dtype.itemsize * _DENSE_ARRAYS)))
    for first in range(0, columns, width):
        yield range(first, min(first + width, columns))


def row_blocks(rows: int) -> Iterator[slice]:
    """Slices of rows, at least one, small enough that their entries stay in the cache."""
    for first in range(0, max(rows, 1), _ROWS):
        yield slice(first, min(first + _ROWS, rows))


def indicator(
    rows: int, ids: Ids, column_of: Ids, block: range, dtype: torch.dtype, device: str = "cpu"
) -> torch.Tensor:
    """A matrix with ones at (id, its column), for the columns of this block."""
    inside = (column_of >= block.start) & (column_of < block.stop)
    row = torch.from_numpy(ids[inside].astype(np.int64)).to(device)
    column = torch.from_numpy(column_of[inside].astype(np.int64) - block.start).to(device)
    ones = torch.zeros((rows, len(block)), dtype=dtype, device=device)
    ones[row, column] = 1
    return ones


def indicator_columns(
    rows: int, lists: Sequence[Ids], dtype: torch.dtype, device: str = "cpu"
) -> torch.Tensor:
    """A matrix with one column per list, and ones at the ids of the list."""
    lengths = [len(ids) for ids in lists]
    column_of = np.repeat(np.arange(len(lists), dtype=np.int32), lengths)
    ids = np.concatenate(lists) if lists else np.zeros(0, dtype=np.int32)
    return indicator(rows, ids, column_of, range(len(lists)), dtype, device)


def block_of_part(blocks: Sequence[range]) -> Ids:
    """The number of each part's block. One entry more, for entities of no part, follows the last part."""
    lengths = [*(len(block) for block in blocks), 1]
    return np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)


def region_rows(concerned: np.ndarray) -> Ids | None:
    """The rows of a region, or None if it is so large that the whole graph is no slower."""
    rows = np.flatnonzero(concerned).astype(np.int32)
    return None if 2 * len(rows) > len(concerned) else rows


def submatrix(matrix: csr_array, rows: Ids | None) -> csr_array:
    """The rows and columns of a square matrix that belong to these ids; None stands for all."""
    if rows is None:
        return matrix
    place = np.full(matrix.shape[0], -1, dtype=np.int32)
    place[rows] = np.arange(len(rows), dtype=np.int32)
    part = matrix[rows]
    columns = place.take(part.indices)
    return filtered(part, columns >= 0, columns, len(rows))


def filtered(matrix: csr_array, kept: np.ndarray, columns: Ids, width: int) -> csr_array:
    """The entries of a matrix that are marked as kept, each moved to a given column."""
    ends = np.concatenate([np.zeros(1, dtype=np.int32), np.cumsum(kept, dtype=np.int32)])
    arrays = matrix.data.compress(kept), columns.compress(kept), ends.take(matrix.indptr)
    return csr_array(arrays, shape=(matrix.shape[0], width))


def rows_by_part(scores: torch.Tensor) -> np.ndarray:
    """Scores as one contiguous row per part, on the host, where entities are chosen."""
    rows: np.ndarray = scores.T.contiguous().cpu().numpy()
    return rows
