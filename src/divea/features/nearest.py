"""The nearest rows of two sparse matrices, found by an inverted index and never by comparing all pairs.

If all columns together take too many products, candidates are found by the rarest columns of each row, and
only these are compared in full. The similarities are then exact, but a nearest row may be missing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from divea.resources.machine import cores

MOST_PRODUCTS = 1 << 33
"""The most products in one direction for which the search is exact. The names of 150,000 to 200,000 entities
of each graph take this many, and about two minutes on two cores."""

PRODUCTS_PER_ROW = 10_000
"""The most products by which a row finds its candidates, if the search is not exact."""

MORE_CANDIDATES = 20
"""Candidates of each row that are compared in full beyond the number that is kept."""

_ROWS_AT_A_TIME = 1 << 16
_OTHERS_AT_A_TIME = 1 << 19
"""Other rows in one index: a larger index does not fit into the cache, and smaller ones need more sorting."""
_PAIRS_AT_A_TIME = 1 << 15


def nearest_rows(source: csr_array, target: csr_array, count: int, threads: int | None = None) -> csr_array:
    """The similarity of each source row to its nearest target rows; all other entries are 0.

    Parameters
    ----------
    source, target
        Rows of length one with the same columns.
    count
        The number of nearest rows to keep.
    threads
        All cores by default. The result does not depend on it.

    Examples
    --------
    >>> rows = csr_array(np.eye(3, dtype=np.float32))
    >>> nearest_rows(rows, rows[[2, 0, 1]], 1).indices.tolist()
    [1, 2, 0]
    """
    return _largest_products(source, target, count, threads or cores())


def nearest_of_both(
    source: csr_array,
    target: csr_array,
    count: int,
    keys: tuple[csr_array, csr_array] | None = None,
    threads: int | None = None,
) -> csr_array:
    """The similarities of each row of either side to its nearest rows of the other side.

    Parameters
    ----------
    source, target
        Rows of length one with the same columns.
    count
        The number of nearest rows to keep for each row.
    keys
        Other rows for the same things, to search by if the rows themselves take too many products.
    threads
        All cores by default. The result does not depend on it.
    """
    threads = threads or cores()
    if is_searched_exactly(source, target):
        forward = nearest_rows(source, target, count, threads)
        backward = nearest_rows(target, source, count, threads)
    else:
        pairs = _compared(source, target, _candidates(source, target, count, keys, threads), threads)
        forward, backward = _largest(pairs, count), _largest(pairs.T.tocsr(), count)
    nearest = csr_array(forward.maximum(backward.T.tocsr()))
    nearest.sort_indices()
    return nearest


def is_searched_exactly(source: csr_array, target: csr_array) -> bool:
    """Whether all columns together take few enough products for an exact search."""
    here, there = (np.bincount(rows.indices, minlength=rows.shape[1]) for rows in (source, target))
    return float(here.astype(np.float64) @ there) <= MOST_PRODUCTS


def _largest_products(rows: csr_array, others: csr_array, count: int, threads: int) -> csr_array:
    """The `count` largest products of each row with other rows."""
    from scipy.sparse import csr_matrix
    from sparse_dot_topn import sp_matmul_topn, zip_sp_matmul_topn

    # The library supports sparse matrices only, not sparse arrays.
    indexes = [
        csr_matrix(others[first : first + _OTHERS_AT_A_TIME].T.tocsr())
        for first in range(0, others.shape[0], _OTHERS_AT_A_TIME)
    ]
    found = [csr_array((0, others.shape[0]), dtype=np.float32)]
    for first in range(0, rows.shape[0] if indexes else 0, _ROWS_AT_A_TIME):
        some = csr_matrix(rows[first : first + _ROWS_AT_A_TIME])
        blocks = [sp_matmul_topn(some, index, count, n_threads=threads) for index in indexes]
        found.append(csr_array(blocks[0] if len(blocks) == 1 else zip_sp_matmul_topn(count, blocks)))
    nearest = csr_array(vstack(found, format="csr"))
    nearest.resize(rows.shape[0], others.shape[0])
    nearest.sort_indices()
    return nearest


def _candidates(
    source: csr_array,
    target: csr_array,
    count: int,
    keys: tuple[csr_array, csr_array] | None,
    threads: int,
) -> csr_array:
    """The pairs to compare: those with the largest products of rare columns, and identical rows."""
    here, there = _from_rare_to_common(*(keys or (source, target)))
    most = count + MORE_CANDIDATES
    pairs = _largest_products(_rarest(there, here), here, most, threads).T.tocsr()
    pairs = csr_array(pairs.maximum(_largest_products(_rarest(here, there), there, most, threads)))
    for same in (_identical(source, target, count), _identical(target, source, count).T.tocsr()):
        pairs = csr_array(pairs.maximum(same))
    return pairs


def _from_rare_to_common(source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
    """The columns that both sides have and that a row can afford, in order of cost."""
    source, target = _shared_columns(source, target)
    here, there = _sizes_of_columns(source), _sizes_of_columns(target)
    order = np.argsort(np.maximum(here, there), kind="stable")
    order = order[np.minimum(here, there)[order] <= PRODUCTS_PER_ROW]
    source, target = _with_columns(source, order), _with_columns(target, order)
    source.sort_indices()
    target.sort_indices()
    return source, target


def _shared_columns(source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
    """Both sides without the columns that one of them does not have."""
    is_shared = np.ones(source.shape[1], dtype=bool)
    for rows in (source, target):
        has_column = np.zeros(source.shape[1], dtype=bool)
        has_column[rows.indices] = True
        is_shared &= has_column
    shared = np.flatnonzero(is_shared)
    return _with_columns(source, shared), _with_columns(target, shared)


def _sizes_of_columns(rows: csr_array) -> npt.NDArray[np.int64]:
    return np.bincount(rows.indices, minlength=rows.shape[1])


def _with_columns(rows: csr_array, columns: npt.NDArray[np.int64]) -> csr_array:
    """The rows with some of their columns, in the order given; entries stay where they are."""
    number = np.full(rows.shape[1], -1, dtype=np.int32)
    number[columns] = np.arange(len(columns), dtype=np.int32)
    indices = number[rows.indices]
    return _with_entries(rows, indices, indices >= 0, len(columns))


def _with_entries(
    rows: csr_array, indices: npt.NDArray[np.int32], is_kept: npt.NDArray[np.bool_], columns: int
) -> csr_array:
    """The rows with some of their entries, and with these columns for them."""
    ends = np.concatenate([[0], np.cumsum(is_kept)])[rows.indptr].astype(np.int32)
    return csr_array((rows.data[is_kept], indices[is_kept], ends), shape=(rows.shape[0], columns))


def _rarest(rows: csr_array, others: csr_array) -> csr_array:
    """The rows with only their first columns: as many as they can afford."""
    cost = np.cumsum(_sizes_of_columns(others)[rows.indices])
    before = np.concatenate([[0], cost])[rows.indptr[:-1]]
    is_affordable = cost - np.repeat(before, np.diff(rows.indptr)) <= PRODUCTS_PER_ROW
    return _with_entries(rows, rows.indices, is_affordable, rows.shape[1])


def _identical(source: csr_array, target: csr_array, count: int) -> csr_array:
    """The first `count` target rows with the same columns as each source row; rows of zeros have none."""
    here, there = _row_hashes(source), _row_hashes(target)
    order = np.argsort(there, kind="stable").astype(np.int32)
    first, last = (np.searchsorted(there[order], here, side) for side in ("left", "right"))
    sizes = np.where(np.diff(source.indptr) > 0, np.minimum(last - first, count), 0)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    place = np.arange(ends[-1]) + np.repeat(first - ends[:-1], sizes)
    ones = np.ones(len(place), dtype=np.float32)
    found = csr_array((ones, order[place], ends.astype(np.int32)), shape=(source.shape[0], target.shape[0]))
    found.sort_indices()
    return found


def _row_hashes(rows: csr_array) -> npt.NDArray[np.uint64]:
    """A hash of the columns of each row."""
    hashes = np.zeros(rows.shape[0], dtype=np.uint64)
    for first in range(0, rows.shape[0], _ROWS_AT_A_TIME):
        some = rows[first : first + _ROWS_AT_A_TIME]
        mixed = (some.indices.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
        mixed ^= mixed >> np.uint64(32)
        is_filled = np.diff(some.indptr) > 0
        if is_filled.any():
            sums = np.add.reduceat(mixed, some.indptr[:-1][is_filled])
            hashes[first : first + _ROWS_AT_A_TIME][is_filled] = sums
    return hashes


def _compared(source: csr_array, target: csr_array, pairs: csr_array, threads: int) -> csr_array:
    """The same pairs with the similarity of their complete rows."""
    similarity = np.empty(pairs.nnz, dtype=np.float32)

    def compare(first: int) -> None:
        place = np.arange(first, min(first + _PAIRS_AT_A_TIME, pairs.nnz))
        row = np.searchsorted(pairs.indptr, place, side="right") - 1
        products = source[row].multiply(target[pairs.indices[place]])
        similarity[place] = np.asarray(products.sum(axis=1)).ravel()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(compare, range(0, pairs.nnz, _PAIRS_AT_A_TIME)))
    return csr_array((similarity, pairs.indices, pairs.indptr), shape=pairs.shape)


def _largest(pairs: csr_array, count: int) -> csr_array:
    """The `count` largest entries of each row."""
    from scipy.sparse import csr_matrix
    from sparse_dot_topn import zip_sp_matmul_topn

    found = csr_array(zip_sp_matmul_topn(count, [csr_matrix(pairs)]))
    found.sort_indices()
    return found
