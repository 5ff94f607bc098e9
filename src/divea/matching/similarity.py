"""Cosine and CSLS similarity in blocks of rows, and the largest scores of each row.

The similarity matrix of two large graphs does not fit in memory, but a block of its rows does. Every method
therefore yields blocks of rows that are complete over all columns, so that a reader (top k, ranks of gold
links) has all scores of a source at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from divea.graphs import Links
from divea.graphs.features import PairScores, Rows, total_scores
from divea.graphs.ids import contains
from divea.types import Ids

_BLOCK_SHARE = 0.8
"""Share of the memory budget for a block itself; the rest is for the temporaries of its reader."""

_TILE = 256
"""Rows that GPUs multiply at a time: a remainder of a few rows costs as much as a full tile."""

_LARGEST_BLOCK_ON_CPU = 1 << 28
"""Bytes; larger blocks are not faster on a CPU."""

_GROUP_SIZE = 32
"""Columns in a group, of which `top_k` computes the maximum first."""


class UnitRows:
    """Some rows of a matrix, normalised to length one when a slice of them is read.

    Embeddings are the largest arrays in memory, and a normalised copy of both sides would not fit beside
    them. Vectors of features are appended, so that a product of rows is the cosine of the embeddings plus
    the weighted cosines of the features.

    >>> UnitRows(torch.tensor([[3.0, 4.0], [0.0, 0.0]]), np.array([1, 0], np.int32))[:].tolist()
    [[0.0, 0.0], [0.6000000238418579, 0.800000011920929]]
    """

    def __init__(self, matrix: Tensor, ids: np.ndarray, features: Sequence[tuple[Rows, float]] = ()):
        self.matrix = matrix
        self.ids = torch.from_numpy(ids.astype(np.int64)).to(matrix.device)
        self.features = [
            (torch.from_numpy(np.asarray(rows)).to(matrix.device), weight**0.5) for rows, weight in features
        ]

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: slice) -> Tensor:
        ids = self.ids[rows]
        unit = normalise_(self.matrix[ids])
        if not self.features:
            return unit
        more = [normalise_(vectors[ids].to(unit.dtype)).mul_(factor) for vectors, factor in self.features]
        return torch.cat([unit, *more], dim=1)


Vectors = UnitRows | Tensor
"""Rows of length one; a slice of them is a tensor."""


def normalise_(rows: Tensor) -> Tensor:
    """Normalise rows to length one in place; rows of zeros stay zeros."""
    return rows.div_(rows.norm(dim=1, keepdim=True).clamp_min_(1e-12))


@dataclass(frozen=True)
class AddedScores:
    """Scores of single pairs that are added to blocks of similarities."""

    starts: Tensor
    """Where the pairs of each row start, followed by the number of pairs."""
    columns: Tensor
    values: Tensor

    @classmethod
    def of(cls, features: Sequence[PairScores], rows: Ids, columns: Ids, device: torch.device | str) -> Self:
        """The weighted sum of features, for some rows and columns."""
        total = total_scores(tuple(features))
        assert total is not None
        total = total[rows][:, columns]
        total.sort_indices()
        return cls(
            torch.from_numpy(total.indptr.astype(np.int64)),
            torch.from_numpy(total.indices.astype(np.int64)).to(device),
            torch.from_numpy(total.data.astype(np.float32)).to(device),
        )

    def add_to(self, block: Tensor, first: int) -> None:
        """Add the scores of the rows from `first` on to a block of similarities."""
        starts = self.starts[first : first + len(block) + 1]
        some = slice(int(starts[0]), int(starts[-1]))
        row = torch.repeat_interleave(torch.arange(len(block)), starts.diff()).to(block.device)
        # Every pair occurs once, so the order of the additions does not matter.
        place = row, self.columns[some]
        block[place] = block[place] + self.values[some]

    def transposed(self, columns: int) -> AddedScores:
        """The same scores with rows and columns exchanged."""
        row = torch.repeat_interleave(torch.arange(len(self.starts) - 1), self.starts.diff())
        order = self.columns.argsort(stable=True)
        counts = torch.bincount(self.columns, minlength=columns).cpu()
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)])
        return AddedScores(starts, row.to(order.device)[order], self.values[order])


@dataclass(frozen=True)
class ExcludedPairs:
    """Pairs that must not be matched, by the numbers of their rows and columns."""

    rows: Tensor
    """In ascending order, on the host."""
    columns: Tensor

    @classmethod
    def of(cls, pairs: Links, rows: Ids, columns: Ids, device: torch.device | str) -> Self:
        """The pairs with one end among the rows, which are sorted, and the other among the columns."""
        by_id = np.argsort(columns)
        kept = contains(rows, pairs.source) & contains(columns[by_id], pairs.target)
        row = np.searchsorted(rows, pairs.source[kept])
        column = by_id[np.searchsorted(columns[by_id], pairs.target[kept])]
        return cls(torch.from_numpy(row), torch.from_numpy(column).to(device))

    def remove_from(self, block: Tensor, first: int) -> Tensor:
        """Set the scores of these pairs in a block of the rows from `first` on to -inf; returns the block."""
        start, end = torch.searchsorted(self.rows, torch.tensor([first, first + len(block)])).tolist()
        block[(self.rows[start:end] - first).to(block.device), self.columns[start:end]] = -torch.inf
        return block


def cosine_blocks(
    source: Vectors,
    target: Vectors,
    memory: int,
    added: AddedScores | None = None,
    excluded: ExcludedPairs | None = None,
) -> Iterator[tuple[int, Tensor]]:
    """Blocks of the cosine similarity of two matrices with unit rows, each with its first row's number.

    A block is overwritten by the next one, so use it before requesting the next.

    Parameters
    ----------
    memory
        Bytes for a block and what its reader makes of it.
    added
        Scores to add.
    excluded
        Pairs that get a score of -inf.

    Examples
    --------
    >>> first, block = next(cosine_blocks(torch.eye(2), torch.eye(2)[[1, 0]], memory=1 << 20))
    >>> first, block.tolist()
    (0, [[0.0, 1.0], [1.0, 0.0]])
    """
    columns = target[:].T
    if columns.device.type == "cpu":
        memory = min(memory, _LARGEST_BLOCK_ON_CPU)
    step = min(rows_per_block(len(target), memory), len(source))
    buffer = columns.new_empty(step, len(target))
    for first in range(0, len(source), max(step, 1)):
        rows = source[first : first + step]
        block = torch.mm(rows, columns, out=buffer[: len(rows)]).float()
        if added is not None:
            added.add_to(block, first)
        if excluded is not None:
            excluded.remove_from(block, first)
        yield first, block


def csls_blocks(
    source: Vectors,
    target: Vectors,
    memory: int,
    added: AddedScores | None = None,
    excluded: ExcludedPairs | None = None,
    neighbours: int = 10,
) -> Iterator[tuple[int, Tensor]]:
    """Blocks of CSLS: twice the cosine minus the mean similarity of each side to its nearest neighbours.

    Cross-domain similarity local scaling (Conneau et al., 2018) penalises hubs, entities that are similar
    to everything. 10 neighbours is the value of that paper. Blocks are as in `cosine_blocks`.
    """
    transposed = added.transposed(len(target)) if added is not None else None
    target_mean = mean_of_best(target, source, memory, neighbours, transposed)
    for first, block in cosine_blocks(source, target, memory, added):
        source_mean = _mean_of_top(block, neighbours)
        block.mul_(2).sub_(target_mean).sub_(source_mean[:, None])
        # The means include excluded pairs: there are few of them, and a mean must be finite.
        yield first, block if excluded is None else excluded.remove_from(block, first)


def mean_of_best(
    rows: Vectors, others: Vectors, memory: int, neighbours: int, added: AddedScores | None = None
) -> Tensor:
    """For each row, the mean similarity to its nearest `neighbours` among the others."""
    means = [_mean_of_top(block, neighbours) for _, block in cosine_blocks(rows, others, memory, added)]
    return torch.cat(means) if means else rows[:].new_zeros(0)


def _mean_of_top(block: Tensor, neighbours: int) -> Tensor:
    if not block.shape[1]:
        return block.new_zeros(len(block))
    return top_k(block, neighbours)[0].mean(dim=1)


def rows_per_block(columns: int, memory: int) -> int:
    """The number of rows of float32 scores that fit the budget, at least one; whole tiles if one fits."""
    rows = max(1, int(memory * _BLOCK_SHARE) // (4 * max(columns, 1)))
    return rows if rows < _TILE else rows - rows % _TILE


def top_k(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The values and column numbers of the `k` largest scores of each row, unordered.

    Selecting from long rows directly costs as much as the matrix product that made them. The maximum of
    each group of columns, however, is one vectorised pass, and the k largest scores are in the k groups
    with the largest maxima, which are found in the same way. Only those groups are searched. The result is
    exact.

    Examples
    --------
    >>> values, columns = largest_first(*top_k(torch.tensor([[3.0, 9.0, 9.0, 1.0]]), 3))
    >>> values.tolist(), columns.tolist()
    ([[9.0, 9.0, 3.0]], [[1, 2, 0]])
    """
    columns = scores.shape[1]
    k = min(k, columns)
    if columns < 4 * max(k, 1) * _GROUP_SIZE:
        values, indices = scores.topk(k, dim=1, sorted=False)
        return values, indices
    candidates = _columns_of_best_groups(scores, k)
    values, positions = scores.gather(1, candidates).topk(k, dim=1, sorted=False)
    return values, candidates.gather(1, positions)


def _columns_of_best_groups(scores: Tensor, k: int) -> Tensor:
    """For each row, the columns of the k groups with the largest maxima, and those in no group."""
    columns = scores.shape[1]
    # A group is every stride-th column. The maxima then compare neighbouring columns elementwise, which is
    # fastest on both CPUs and GPUs.
    stride = columns // _GROUP_SIZE
    grouped = stride * _GROUP_SIZE
    maxima = torch.unflatten(scores[:, :grouped], 1, (_GROUP_SIZE, stride)).amax(dim=1)
    groups = top_k(maxima, k)[1]
    steps = torch.arange(0, grouped, stride, device=scores.device)
    candidates = (groups[:, :, None] + steps).flatten(1)
    if grouped == columns:
        return candidates
    ungrouped = torch.arange(grouped, columns, device=scores.device).expand(len(scores), -1)
    return torch.cat([candidates, ungrouped], dim=1)


def largest_first(values: Tensor, columns: Tensor) -> tuple[Tensor, Tensor]:
    """Rows sorted by value, equal values by column: the same order on every device."""
    by_column = columns.argsort(dim=1)
    values, columns = values.gather(1, by_column), columns.gather(1, by_column)
    values, by_value = values.sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, by_value)
