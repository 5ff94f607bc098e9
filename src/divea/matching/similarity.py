"""Cosine and CSLS similarity, one block of rows at a time.

A full similarity matrix of two graphs does not fit in memory; a block of its rows does. Every
method here therefore yields blocks of rows, complete over all columns, so that whoever reads
them (top-k, ranks of gold) sees each source's scores whole.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from divea.matching.top_k import top_k

MEMORY_BUDGET = 1 << 30
"""Bytes that a block of scores and its temporaries may take unless the caller says otherwise."""

_SHARE = 0.8  # of the budget for the block itself; the rest is for what its readers make of it
_TILE = 256  # rows that GPUs multiply at a time: a remainder of a few costs as much as all of them


def rows_per_block(columns: int, memory: int) -> int:
    """How many rows of float32 scores fit the budget, at least one; whole tiles where there is room."""
    rows = max(1, int(memory * _SHARE) // (4 * max(columns, 1)))
    return rows if rows < _TILE else rows - rows % _TILE


def cosine_blocks(source: Tensor, target: Tensor, memory: int) -> Iterator[tuple[int, Tensor]]:
    """Blocks of the cosine similarity of two matrices of unit rows, with the row each starts at.

    Each block is written over the one before: use it before asking for the next.
    """
    step = min(rows_per_block(len(target), memory), len(source))
    buffer = source.new_empty(step, len(target))
    for start in range(0, len(source), max(step, 1)):
        rows = source[start : start + step]
        yield start, torch.mm(rows, target.T, out=buffer[: len(rows)]).float()


def csls_blocks(
    source: Tensor, target: Tensor, memory: int, neighbours: int = 10
) -> Iterator[tuple[int, Tensor]]:
    """Blocks of CSLS: twice the cosine, less how close each side is to its neighbours on the other.

    Cross-domain similarity local scaling (Conneau et al., 2018) takes from hubs, which are near
    to everything, what they have too much. 10 neighbours is the value of that paper.
    """
    hubness = mean_of_best(target, source, memory, neighbours)
    for start, block in cosine_blocks(source, target, memory):
        own = _mean_of_top(block, neighbours)
        yield start, block.mul_(2).sub_(hubness).sub_(own[:, None])


def mean_of_best(rows: Tensor, others: Tensor, memory: int, neighbours: int) -> Tensor:
    """For each row the mean similarity to its nearest `neighbours` among the others."""
    means = [_mean_of_top(block, neighbours) for _, block in cosine_blocks(rows, others, memory)]
    return torch.cat(means) if means else rows.new_zeros(0)


def _mean_of_top(block: Tensor, neighbours: int) -> Tensor:
    if not block.shape[1]:
        return block.new_zeros(len(block))
    return top_k(block, neighbours)[0].mean(dim=1)
