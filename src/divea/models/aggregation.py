"""Sums over a graph's edges as sparse products, forward and backward.

Graph networks are usually written as "gather the vector of every edge's end, scatter the sums
back": an edges x dimensions matrix per operation, kept for the backward pass. Here an edge only
ever carries a number. Vectors meet in two sparse kernels that never make a row per edge:

    weighted_sum    out[i]  = sum over edges e = (i, j) of  weight[e] * vectors[j]
    edge_dot        out[e]  = left[i] . right[j]            for edges e = (i, j)

The gradient of each is made of the other one, so both passes need nothing else. Sums are taken in
a fixed order, hence results are the same bits every time, on a GPU too.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")


@dataclass(frozen=True)
class _Rows:
    """The edges grouped by one of their ends: a CSR pattern, without values."""

    starts: Tensor
    others: Tensor
    order: Tensor | None
    """Position of each entry in the order of the edges; None where that is the same."""
    size: tuple[int, int]

    def matrix(self, values: Tensor) -> Tensor:
        if self.order is not None:
            values = values[self.order]
        return torch.sparse_csr_tensor(
            self.starts, self.others, values, size=self.size, check_invariants=False
        )

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the values of each row's entries."""
        if self.order is not None:
            values = values[self.order]
        return torch.segment_reduce(values, "sum", offsets=self.starts.long(), initial=0)


class EdgeIndex:
    """Edges between two sets of things (entities, relations), ready to be summed over either.

    >>> edges = EdgeIndex.of(np.array([0, 0, 1]), np.array([1, 2, 0]), (2, 3))
    >>> weighted_sum(edges, torch.tensor([1., 2., 3.]), torch.eye(3)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]
    """

    def __init__(self, left: Tensor, right: Tensor, by_left: _Rows, by_right: _Rows):
        self.left, self.right = left, right
        self.by_left, self.by_right = by_left, by_right

    @classmethod
    def of(
        cls, left: np.ndarray, right: np.ndarray, size: tuple[int, int], device: str | torch.device = "cpu"
    ) -> EdgeIndex:
        """From the two ends of every edge; fastest where `left` is sorted."""
        ends = torch.from_numpy(left.astype(np.int64)), torch.from_numpy(right.astype(np.int64))
        by_left, by_right = _group(left, right, size, device), _group(right, left, size[::-1], device)
        return cls(ends[0].to(device), ends[1].to(device), by_left, by_right)


class FixedSum:
    """A weighted sum whose weights never change, such as a mean over neighbours.

    >>> mean = FixedSum(np.array([0, 0]), np.array([0, 1]), np.array([.5, .5]), (1, 2))
    >>> mean(torch.tensor([[2.], [4.]])).tolist()
    [[3.0]]
    """

    def __init__(
        self,
        left: np.ndarray,
        right: np.ndarray,
        weights: np.ndarray,
        size: tuple[int, int],
        device: str | torch.device = "cpu",
    ):
        values = torch.from_numpy(weights.astype(np.float32)).to(device)
        self.matrix = _group(left, right, size, device).matrix(values)
        self.transpose = _group(right, left, size[::-1], device).matrix(values)

    def __call__(self, vectors: Tensor) -> Tensor:
        summed: Tensor = _FixedSum.apply(self.matrix, self.transpose, vectors)  # type: ignore[no-untyped-call]
        return summed


def weighted_sum(edges: EdgeIndex, weights: Tensor, vectors: Tensor) -> Tensor:
    """For each left end, the sum of its edges' weights times the vectors of their right ends."""
    summed: Tensor = _WeightedSum.apply(edges, weights, vectors)  # type: ignore[no-untyped-call]
    return summed


def edge_dot(edges: EdgeIndex, left: Tensor, right: Tensor) -> Tensor:
    """For each edge, the product of the vectors at its two ends."""
    products: Tensor = _EdgeDot.apply(edges, left, right)  # type: ignore[no-untyped-call]
    return products


def at_left(edges: EdgeIndex, values: Tensor) -> Tensor:
    """For each edge, the number of its left end."""
    spread: Tensor = _Spread.apply(values, edges.left, edges.by_left)  # type: ignore[no-untyped-call]
    return spread


def at_right(edges: EdgeIndex, values: Tensor) -> Tensor:
    """For each edge, the number of its right end."""
    spread: Tensor = _Spread.apply(values, edges.right, edges.by_right)  # type: ignore[no-untyped-call]
    return spread


def edge_softmax(edges: EdgeIndex, logits: Tensor) -> Tensor:
    """Softmax over the edges of each left end."""
    weights: Tensor = _EdgeSoftmax.apply(edges, logits)  # type: ignore[no-untyped-call]
    return weights


class _WeightedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: EdgeIndex, weights: Tensor, vectors: Tensor) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(weights, vectors)
        return edges.by_left.matrix(weights) @ vectors

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        weights, vectors = ctx.saved_tensors
        grad = grad.contiguous()
        to_weights = _dot(ctx.edges, grad, vectors) if ctx.needs_input_grad[1] else None
        to_vectors = ctx.edges.by_right.matrix(weights) @ grad if ctx.needs_input_grad[2] else None
        return None, to_weights, to_vectors


class _FixedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: Tensor, transpose: Tensor, vectors: Tensor) -> Tensor:
        ctx.transpose = transpose
        return matrix @ vectors

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        return None, None, ctx.transpose @ grad.contiguous()


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: EdgeIndex, left: Tensor, right: Tensor) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(left, right)
        return _dot(edges, left, right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        left, right = ctx.saved_tensors
        edges: EdgeIndex = ctx.edges
        return None, edges.by_left.matrix(grad) @ right, edges.by_right.matrix(grad) @ left


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ends: Tensor, rows: _Rows) -> Tensor:
        ctx.rows = rows
        return values[ends]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.rows.sum(grad), None, None


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: EdgeIndex, logits: Tensor) -> Tensor:
        rows = edges.by_left
        ordered = logits if rows.order is None else logits[rows.order]
        largest = torch.segment_reduce(ordered, "max", offsets=rows.starts.long(), initial=-torch.inf)
        shares = (logits - largest[edges.left]).exp_()
        shares /= rows.sum(shares)[edges.left]
        ctx.edges = edges
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (shares,) = ctx.saved_tensors
        weighted = shares * grad
        return None, weighted - shares * ctx.edges.by_left.sum(weighted)[ctx.edges.left]


def _dot(edges: EdgeIndex, left: Tensor, right: Tensor) -> Tensor:
    """left[i] . right[j] of every edge, in the order of the edges."""
    rows = edges.by_left
    # Zeros, because what is there is multiplied by beta, and 0 * NaN is not 0.
    pattern = torch.sparse_csr_tensor(
        rows.starts, rows.others, left.new_zeros(len(rows.others)), size=rows.size, check_invariants=False
    )
    products: Tensor = torch.sparse.sampled_addmm(pattern, left, right.T, beta=0).values()
    if rows.order is None:
        return products
    return torch.empty_like(products).index_copy_(0, rows.order, products)


def _group(ends: np.ndarray, others: np.ndarray, size: tuple[int, int], device: str | torch.device) -> _Rows:
    sorted_already = bool((ends[1:] >= ends[:-1]).all())
    order = np.arange(len(ends)) if sorted_already else np.argsort(ends, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(ends, minlength=size[0]))])
    # 32-bit indices: the sparse kernels run up to twice as fast on them.
    return _Rows(
        torch.from_numpy(starts.astype(np.int32)).to(device),
        torch.from_numpy(others[order].astype(np.int32)).to(device),
        None if sorted_already else torch.from_numpy(order).to(device),
        size,
    )
