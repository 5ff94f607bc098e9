"""Sinkhorn: scores under which every source and every target has one match to give.

The kernel K = exp(similarity / temperature) is scaled by a factor per row and one per column
until rows and columns sum to one (Cuturi, 2013). Entities compete: a target wanted by two
sources goes to the one that has no alternative. Only the two vectors of factors change, so the
kernel is written once, dense where it fits, over each source's nearest targets where it does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from divea.matching.similarity import Vectors, cosine_blocks, top_k

TEMPERATURE = 0.02
ITERATIONS = 15
NEAREST = 500
"""Defaults as in LightEA (Mao et al., 2022): temperature .02, 15 iterations, the 500 nearest."""


@dataclass(frozen=True)
class SparseScores:
    """Scores of each row's nearest columns; any other pair scores nothing."""

    values: Tensor
    columns: Tensor


def dense_sinkhorn(
    similarity: Tensor, temperature: float = TEMPERATURE, iterations: int = ITERATIONS
) -> Tensor:
    """Transport weights of a whole similarity matrix, which is overwritten.

    >>> dense_sinkhorn(torch.tensor([[.9, .8], [.9, .1]])).round().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if not similarity.numel():
        return similarity
    kernel = similarity.sub_(similarity.amax(dim=1, keepdim=True)).div_(temperature).exp_()
    column = kernel.new_ones(kernel.shape[1])
    for _ in range(iterations):
        row = 1 / (kernel @ column).clamp_min_(_TINY)
        column = 1 / (row @ kernel).clamp_min_(_TINY)
    return kernel.mul_(row[:, None]).mul_(column)


def sparse_sinkhorn(
    nearest: SparseScores, columns: int, temperature: float = TEMPERATURE, iterations: int = ITERATIONS
) -> SparseScores:
    """The same over each row's nearest columns only; what is left out counts as far away."""
    values, places = nearest.values, nearest.columns
    if not values.numel():
        return nearest
    kernel = (values - values.amax(dim=1, keepdim=True)).div_(temperature).exp_()
    # Sorted by column once, sums over columns are sums over consecutive runs: no atomics, so
    # the same bits every time on a GPU as well.
    order = places.flatten().argsort(stable=True)
    by_column, rows = kernel.flatten()[order], order // values.shape[1]
    lengths = torch.bincount(places.flatten(), minlength=columns)
    column = kernel.new_ones(columns)
    for _ in range(iterations):
        row = 1 / (kernel * column[places]).sum(dim=1).clamp_min_(_TINY)
        sums = torch.segment_reduce(by_column * row[rows], "sum", lengths=lengths, initial=0)
        column = 1 / sums.clamp_min_(_TINY)
    return SparseScores(kernel.mul_(row[:, None]).mul_(column[places]), places)


def nearest_targets(source: Vectors, target: Vectors, memory: int, nearest: int = NEAREST) -> SparseScores:
    """The cosine similarity of each source's nearest targets."""
    found = [top_k(block, nearest) for _, block in cosine_blocks(source, target, memory)]
    if not found:
        none = source[:].new_zeros(0, 0)
        return SparseScores(none, none.long())
    return SparseScores(torch.cat([v for v, _ in found]), torch.cat([i for _, i in found]))


_TINY = torch.finfo(torch.float32).tiny
