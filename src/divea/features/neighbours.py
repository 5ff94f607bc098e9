"""Matching neighbours: how many neighbours of a pair of entities match each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs.task import AlignmentTask
from divea.resources.row_blocks import for_row_blocks

Numbers = npt.NDArray[np.float64]
_ROWS = 1 << 13
"""The pairs of a block."""

Pairs = tuple[npt.NDArray[np.integer[Any]], npt.NDArray[np.integer[Any]]]


def neighbour_support(pairs: Pairs, matches: csr_array, task: AlignmentTask) -> tuple[Numbers, Numbers]:
    """How many neighbours of a pair's ends match each other, by weight, and the most that could.

    Parameters
    ----------
    matches
        The weight of each match, as source x target.

    Examples
    --------
    In a pair of equal graphs whose entities all match, all neighbours of a pair do.

    >>> from divea.graphs.planted import planted_pair
    >>> pair = planted_pair()
    >>> gold = pair.gold.source, pair.gold.target
    >>> support, possible = neighbour_support(gold, matches_and_seeds(gold, pair.task), pair.task)
    >>> bool((support == possible).all())
    True
    """
    source, target = (_unweighted(graph.adjacency) for graph in (task.source, task.target))
    support = np.zeros(len(pairs[0]))

    def add(block: slice) -> None:
        matched = source[pairs[0][block]] @ matches
        support[block] = matched.multiply(target[pairs[1][block]]).sum(axis=1)

    for_row_blocks(add, len(support), _ROWS)
    degrees = np.diff(source.indptr)[pairs[0]], np.diff(target.indptr)[pairs[1]]
    return support, np.minimum(*degrees).astype(np.float64)


def matches_and_seeds(pairs: Pairs, task: AlignmentTask, weight: Numbers | float = 1.0) -> csr_array:
    """The weight of some pairs, and 1 for seeds, as source x target."""
    ends = (
        np.concatenate([task.seeds.source, pairs[0]]),
        np.concatenate([task.seeds.target, pairs[1]]),
    )
    weights = np.broadcast_to(weight, len(pairs[0]))
    values = np.concatenate([np.ones(len(task.seeds)), weights]).astype(np.float32)
    return csr_array((values, ends), shape=(task.source.num_entities, task.target.num_entities))


def _unweighted(adjacency: csr_array) -> csr_array:
    """The adjacency with weight 1 for every neighbour."""
    ones = np.ones(adjacency.nnz, dtype=np.float32)
    return csr_array((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
