"""Sinkhorn: scores under which every source and every target has one match in total.

The kernel K = exp(similarity / temperature) is scaled by a factor per row and a factor per column until
rows and columns sum to one (Cuturi, 2013). Entities thereby compete: if two sources are nearest to the same
target, it is assigned to the one without an alternative. Only the two vectors of factors change in an
iteration, so the kernel is computed once: dense if it fits in memory, otherwise over the nearest targets of
each source.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from divea.matching.similarity import AddedScores, ExcludedPairs, Vectors, cosine_blocks, top_k

TEMPERATURE = 0.02
ITERATIONS = 15
NEAREST = 500
"""Defaults as in LightEA (Mao et al., 2022): temperature .02, 15 iterations, the 500 nearest."""

_TINY = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class SparseScores:
    """The scores of each row's nearest columns; all other pairs have no score."""

    values: Tensor
    columns: Tensor


def dense_sinkhorn(
    similarity: Tensor, temperature: float = TEMPERATURE, iterations: int = ITERATIONS
) -> Tensor:
    """The transport weights of a complete similarity matrix, which is overwritten.

    Examples
    --------
    Both sources are nearest to the first target, but only the first source has an alternative.

    >>> dense_sinkhorn(torch.tensor([[.9, .8], [.9, .1]])).round().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    if not similarity.numel():
        return similarity
    # A constant factor of a row cancels when rows are scaled, so each row's largest entry may be exp(0).
    kernel = similarity.sub_(_largest(similarity)).div_(temperature).exp_()
    column_factor = kernel.new_ones(kernel.shape[1])
    for _ in range(iterations):
        row_factor = 1 / (kernel @ column_factor).clamp_min_(_TINY)
        column_factor = 1 / (row_factor @ kernel).clamp_min_(_TINY)
    return kernel.mul_(row_factor[:, None]).mul_(column_factor)


def sparse_sinkhorn(
    nearest: SparseScores, columns: int, temperature: float = TEMPERATURE, iterations: int = ITERATIONS
) -> SparseScores:
    """The transport weights over each row's nearest columns only; all other entries of the kernel are 0.

    Parameters
    ----------
    nearest
        Similarities, such as those of `nearest_targets`.
    columns
        The number of columns of the complete matrix.
    """
    values, column_of = nearest.values, nearest.columns
    if not values.numel():
        return nearest
    kernel = (values - _largest(values)).div_(temperature).exp_()
    # Sorted by column once, sums over columns are sums over consecutive entries. They need no atomic
    # operations, so the results are the same bits every time on a GPU as well.
    order = column_of.flatten().argsort(stable=True)
    kernel_by_column, row_of = kernel.flatten()[order], order // values.shape[1]
    lengths = torch.bincount(column_of.flatten(), minlength=columns)
    column_factor = kernel.new_ones(columns)
    for _ in range(iterations):
        row_factor = 1 / (kernel * column_factor[column_of]).sum(dim=1).clamp_min_(_TINY)
        column_sums = torch.segment_reduce(
            kernel_by_column * row_factor[row_of], "sum", lengths=lengths, initial=0
        )
        column_factor = 1 / column_sums.clamp_min_(_TINY)
    return SparseScores(kernel.mul_(row_factor[:, None]).mul_(column_factor[column_of]), column_of)


def _largest(rows: Tensor) -> Tensor:
    """The largest entry of each row; a finite number even if all pairs of a row are excluded."""
    return rows.amax(dim=1, keepdim=True).clamp_min_(torch.finfo(rows.dtype).min)


def nearest_targets(
    source: Vectors,
    target: Vectors,
    memory: int,
    nearest: int = NEAREST,
    added: AddedScores | None = None,
    excluded: ExcludedPairs | None = None,
) -> SparseScores:
    """The similarity of each source's nearest targets, within `memory` bytes beside the result."""
    found = [top_k(block, nearest) for _, block in cosine_blocks(source, target, memory, added, excluded)]
    if not found:
        none = source[:].new_zeros(0, 0)
        return SparseScores(none, none.long())
    values, columns = zip(*found, strict=True)
    return SparseScores(torch.cat(values), torch.cat(columns))
