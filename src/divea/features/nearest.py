"""The nearest rows of two sparse matrices, found by an inverted index and never by comparing all pairs."""

from __future__ import annotations

import os

import numpy as np
from scipy.sparse import csr_array

MOST_PRODUCTS = 1 << 34
"""Products that a search may take. If all tokens together take more, the commonest ones are left out of the
search; those that remain find the candidates, whose similarity is then computed with all tokens."""

CANDIDATES_PER_NEAREST = 3
"""Candidates that are compared exactly for each of the nearest that are kept, if tokens were left out."""

_ROWS_AT_A_TIME = 1 << 17


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
    threads = threads or len(os.sched_getaffinity(0))
    is_searched = _searched_columns(source, target)
    if is_searched.all():
        return _products(source, target.T.tocsr(), count, threads)
    index = _with_columns(target, is_searched).T.tocsr()
    found = []
    for first in range(0, source.shape[0], _ROWS_AT_A_TIME):
        rows = source[first : first + _ROWS_AT_A_TIME]
        candidates = _products(
            _with_columns(rows, is_searched), index, CANDIDATES_PER_NEAREST * count, threads
        )
        found.append(_best(_compared(rows, target, candidates), count))
    return _stacked(found, target.shape[0])


def nearest_of_both(source: csr_array, target: csr_array, count: int) -> csr_array:
    """The similarities of each row of either side to its nearest rows of the other side."""
    nearest = nearest_rows(source, target, count).maximum(nearest_rows(target, source, count).T.tocsr())
    nearest = csr_array(nearest)
    nearest.sort_indices()
    return nearest


def _products(rows: csr_array, index: csr_array, count: int, threads: int) -> csr_array:
    """The `count` largest products of each row with the columns of an index."""
    from scipy.sparse import csr_matrix
    from sparse_dot_topn import sp_matmul_topn

    # The library knows matrices only, not arrays.
    found = csr_array(sp_matmul_topn(csr_matrix(rows), csr_matrix(index), count, n_threads=threads))
    found.sort_indices()
    return found


def _searched_columns(source: csr_array, target: csr_array) -> np.ndarray:
    """The columns whose products fit the limit: the rarest ones, all if there are few enough."""
    columns = source.shape[1]
    here, there = (np.bincount(rows.indices, minlength=columns) for rows in (source, target))
    products = here.astype(np.float64) * there
    order = np.lexsort((np.arange(columns), products))
    is_searched = np.zeros(columns, dtype=bool)
    is_searched[order[np.cumsum(products[order]) <= MOST_PRODUCTS]] = True
    return is_searched


def _with_columns(rows: csr_array, is_kept: np.ndarray) -> csr_array:
    """The rows with only some of their columns, which keep their numbers."""
    kept = is_kept[rows.indices]
    ends = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
    return csr_array((rows.data[kept], rows.indices[kept], ends), shape=rows.shape)


def _compared(source: csr_array, target: csr_array, pairs: csr_array) -> csr_array:
    """The same pairs with the similarity of their complete rows."""
    row = np.repeat(np.arange(pairs.shape[0]), np.diff(pairs.indptr))
    similarity = np.empty(len(row), dtype=np.float32)
    for first in range(0, len(row), _ROWS_AT_A_TIME):
        some = slice(first, first + _ROWS_AT_A_TIME)
        products = source[row[some]].multiply(target[pairs.indices[some]])
        similarity[some] = np.asarray(products.sum(axis=1)).ravel()
    return csr_array((similarity, pairs.indices, pairs.indptr), shape=pairs.shape)


def _best(pairs: csr_array, count: int) -> csr_array:
    """The `count` largest entries of each row."""
    lengths = np.diff(pairs.indptr)
    row = np.repeat(np.arange(pairs.shape[0]), lengths)
    order = np.lexsort((-pairs.data, row))
    rank = np.arange(len(row)) - np.repeat(pairs.indptr[:-1], lengths)
    kept = np.sort(order[rank < count])
    ends = np.concatenate([[0], np.cumsum(np.minimum(lengths, count))])
    return csr_array((pairs.data[kept], pairs.indices[kept], ends), shape=pairs.shape)


def _stacked(blocks: list[csr_array], columns: int) -> csr_array:
    from scipy.sparse import vstack

    return csr_array(vstack(blocks, format="csr")) if blocks else csr_array((0, columns), dtype=np.float32)
