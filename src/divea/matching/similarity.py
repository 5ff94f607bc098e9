"""Cosine and CSLS similarity, one block of rows at a time.

A full similarity matrix of two graphs does not fit in memory; a block of its rows does. Every
method here therefore yields blocks of rows, complete over all columns, so that whoever reads
them (top-k, ranks of gold) sees each source's scores whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

_GROUP = 32


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Values and column indices of the `k` largest per row, in no particular order.

    Selecting directly from long rows costs as much as the matrix product that made them. The
    maximum of each group of columns is one vectorised pass; the k largest entries must lie in
    the k groups with the largest maxima, which are found the same way, so only those are looked
    into. The result is exact.

    >>> values, indices = largest_first(*top_k(torch.tensor([[3.0, 9.0, 9.0, 1.0]]), 3))
    >>> values.tolist(), indices.tolist()
    ([[9.0, 9.0, 3.0]], [[1, 2, 0]])
    """
    columns = scores.shape[1]
    k = min(k, columns)
    if columns < 4 * max(k, 1) * _GROUP:
        values, indices = scores.topk(k, dim=1, sorted=False)
        return values, indices
    # A group is every stride-th column: then neighbouring columns are compared side by side,
    # which is what both CPUs and GPUs do fastest.
    stride = columns // _GROUP
    maxima = torch.unflatten(scores[:, : stride * _GROUP], 1, (_GROUP, stride)).amax(dim=1)
    groups = top_k(maxima, k)[1]
    steps = torch.arange(0, stride * _GROUP, stride, device=scores.device)
    candidates = (groups[:, :, None] + steps).flatten(1)
    if stride * _GROUP < columns:
        # The columns that fill no group are always looked at.
        rest = torch.arange(stride * _GROUP, columns, device=scores.device).expand(len(scores), -1)
        candidates = torch.cat([candidates, rest], dim=1)
    values, places = scores.gather(1, candidates).topk(k, dim=1, sorted=False)
    return values, candidates.gather(1, places)


def largest_first(values: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    """Rows sorted by value, equal values by index: the same order on every device."""
    by_index = indices.argsort(dim=1)
    values, indices = values.gather(1, by_index), indices.gather(1, by_index)
    values, by_value = values.sort(dim=1, descending=True, stable=True)
    return values, indices.gather(1, by_value)


_SHARE = 0.8  # of the budget for the block itself; the rest is for what its readers make of it
_TILE = 256  # rows that GPUs multiply at a time: a remainder of a few costs as much as all of them
_LARGEST_ON_CPU = 1 << 28  # bytes: larger blocks are no faster there


class UnitRows:
    """Chosen rows of a matrix, brought to length one when a slice of them is asked for.

    Embeddings are the largest thing in memory; a second copy of both sides would not fit beside them.

    >>> UnitRows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), np.array([1, 0], np.int32))[:].tolist()
    [[0.0, 0.0], [0.6000000238418579, 0.800000011920929]]
    """

    def __init__(self, matrix: Tensor, ids: np.ndarray):
        self.matrix = matrix
        self.ids = torch.from_numpy(ids.astype(np.int64)).to(matrix.device)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, part: slice) -> Tensor:
        return normalise_(self.matrix[self.ids[part]])


Vectors = UnitRows | Tensor
"""Rows of length one, which a slice gives as a tensor."""


def normalise_(rows: Tensor) -> Tensor:
    """Bring rows to length one in place; rows of zeros stay zeros."""
    return rows.div_(rows.norm(dim=1, keepdim=True).clamp_min_(1e-12))


def rows_per_block(columns: int, memory: int) -> int:
    """How many rows of float32 scores fit the budget, at least one; whole tiles where there is room."""
    rows = max(1, int(memory * _SHARE) // (4 * max(columns, 1)))
    return rows if rows < _TILE else rows - rows % _TILE


def cosine_blocks(source: Vectors, target: Vectors, memory: int) -> Iterator[tuple[int, Tensor]]:
    """Blocks of the cosine similarity of two matrices of unit rows, with the row each starts at.

    Each block is written over the one before: use it before asking for the next.
    """
    columns = target[:].T
    if columns.device.type == "cpu":
        memory = min(memory, _LARGEST_ON_CPU)
    step = min(rows_per_block(len(target), memory), len(source))
    buffer = columns.new_empty(step, len(target))
    for start in range(0, len(source), max(step, 1)):
        rows = source[start : start + step]
        yield start, torch.mm(rows, columns, out=buffer[: len(rows)]).float()


def csls_blocks(
    source: Vectors, target: Vectors, memory: int, neighbours: int = 10
) -> Iterator[tuple[int, Tensor]]:
    """Blocks of CSLS: twice the cosine, less how close each side is to its neighbours on the other.

    Cross-domain similarity local scaling (Conneau et al., 2018) takes from hubs, which are near
    to everything, what they have too much. 10 neighbours is the value of that paper.
    """
    hubness = mean_of_best(target, source, memory, neighbours)
    for start, block in cosine_blocks(source, target, memory):
        own = _mean_of_top(block, neighbours)
        yield start, block.mul_(2).sub_(hubness).sub_(own[:, None])


def mean_of_best(rows: Vectors, others: Vectors, memory: int, neighbours: int) -> Tensor:
    """For each row the mean similarity to its nearest `neighbours` among the others."""
    means = [_mean_of_top(block, neighbours) for _, block in cosine_blocks(rows, others, memory)]
    return torch.cat(means) if means else rows[:].new_zeros(0)


def _mean_of_top(block: Tensor, neighbours: int) -> Tensor:
    if not block.shape[1]:
        return block.new_zeros(len(block))
    return top_k(block, neighbours)[0].mean(dim=1)
