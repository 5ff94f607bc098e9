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
from typing import Any

import numpy as np
import torch
from torch import Tensor

from divea.models import kernels

with warnings.catch_warnings():
    # torch says once per process that its CSR tensors are in beta; here is the place to say it.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1), check_invariants=False)

Ends = Tensor | np.ndarray
"""Numbers for edges, on any device: the things at their ends, or their weights."""

LONGEST_ROW = 64
"""Entries of a row that are summed in one go on a GPU, see `Rows`."""


class Rows:
    """A pattern of a sparse matrix: the entries of each row, without values.

    cuSPARSE, behind torch's sparse product on a GPU, adds the pieces of a row in the order in which
    they get ready, so sums differ from run to run. torch's embedding bag is the same product
    with each bag summed in order, but slow where bags are long. On a GPU, rows are therefore cut
    into short pieces, each a bag, and the pieces of a row are added in order.
    """

    def __init__(self, starts: Tensor, columns: Tensor, size: tuple[int, int], order: Tensor | None = None):
        self.starts, self.columns, self.size = starts.int(), columns.int(), size
        self.order = order
        """Position of each entry in the order of the values; None where that is the same."""
        self._long_starts = starts.long()
        self._pieces: tuple[Tensor, Tensor] | None = None
        if starts.is_cuda:
            self._pieces = _cut(self._long_starts, len(columns))

    def arranged(self, values: Tensor) -> Tensor:
        """The values in the order of the entries."""
        return values if self.order is None else values[self.order]

    def product(self, values: Tensor, vectors: Tensor) -> Tensor:
        """The sparse matrix of these values times a dense one."""
        values, vectors = values.detach(), vectors.detach()
        if self._pieces is None:
            return _csr(self.starts, self.columns, self.arranged(values), self.size) @ vectors
        starts, first_piece = self._pieces
        if kernels.serve(vectors):
            pieces = kernels.row_sums(starts, self.columns, values, self.order, vectors)
        else:
            pieces = torch.nn.functional.embedding_bag(
                self.columns,
                vectors,
                starts,
                mode="sum",
                per_sample_weights=self.arranged(values),
                include_last_offset=True,
            )
        return torch.segment_reduce(pieces, "sum", offsets=first_piece, initial=0, unsafe=True)

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """left[i] . right[j] for every entry (i, j), in the order of the values."""
        # Zeros, because what is there is multiplied by beta, and 0 * NaN is not 0.
        pattern = _csr(self.starts, self.columns, left.new_zeros(len(self.columns)), self.size)
        products: Tensor = torch.sparse.sampled_addmm(pattern, left, right.T, beta=0).values()
        if self.order is None:
            return products
        return torch.empty_like(products).index_copy_(0, self.order, products)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of the values of each row's entries."""
        return torch.segment_reduce(
            self.arranged(values), "sum", offsets=self._long_starts, initial=0, unsafe=True
        )

    def largest(self, values: Tensor) -> Tensor:
        """The largest of the values of each row's entries, -inf for a row without."""
        return torch.segment_reduce(
            self.arranged(values), "max", offsets=self._long_starts, initial=-torch.inf, unsafe=True
        )


def _cut(starts: Tensor, entries: int) -> tuple[Tensor, Tensor]:
    """Where pieces of at most `LONGEST_ROW` entries start, and each row's first piece.

    Sizes come from an upper bound and not from the data, so the GPU need not be waited for; the
    pieces too many are empty and belong to no row.
    """
    lengths = starts.diff()
    counts = (lengths + LONGEST_ROW - 1).div(LONGEST_ROW, rounding_mode="floor")
    first_piece = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    most = len(lengths) + entries // LONGEST_ROW
    piece = torch.arange(most + 1, device=starts.device)
    row = torch.searchsorted(first_piece, piece, right=True).sub_(1).clamp_(max=max(len(lengths) - 1, 0))
    if not len(lengths):
        return starts.new_zeros(1).int(), first_piece
    at = starts[row] + (piece - first_piece[row]) * LONGEST_ROW
    return at.clamp_(max=entries).int(), first_piece


def _csr(starts: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(starts, columns, values, size=size, check_invariants=False)


class EdgeIndex:
    """Edges between two sets of things (entities, relations), ready to be summed over either.

    >>> edges = EdgeIndex.of(np.array([0, 0, 1]), np.array([1, 2, 0]), (2, 3))
    >>> weighted_sum(edges, torch.tensor([1., 2., 3.]), torch.eye(3)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]
    """

    def __init__(self, left: Tensor, right: Tensor, by_left: Rows, by_right: Rows):
        self.left, self.right = left, right
        self.by_left, self.by_right = by_left, by_right

    @classmethod
    def of(
        cls, left: Ends, right: Ends, size: tuple[int, int], device: str | torch.device = "cpu"
    ) -> EdgeIndex:
        """From the two ends of every edge; fastest where `left` is sorted."""
        lefts, rights = (torch.as_tensor(end, dtype=torch.long, device=device) for end in (left, right))
        return cls(lefts, rights, _group(lefts, rights, size), _group(rights, lefts, size[::-1]))

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """left[i] . right[j] for every edge."""
        if kernels.serve(left):
            return kernels.pair_sums(left, right, self.left, self.right)
        if len(self.left) > len(left) * len(right):
            # More edges than pairs of ends (few relations): every pair once is less work, and
            # torch's sampled product does not allow for it.
            return (left @ right.T)[self.left, self.right]
        return self.by_left.dot(left, right)


class FixedSum:
    """A weighted sum whose weights never change, such as a mean over neighbours.

    >>> mean = FixedSum(np.array([0, 0]), np.array([0, 1]), np.array([.5, .5]), (1, 2))
    >>> mean(torch.tensor([[2.], [4.]])).tolist()
    [[3.0]]
    """

    def __init__(
        self,
        left: Ends,
        right: Ends,
        weights: Ends,
        size: tuple[int, int],
        device: str | torch.device = "cpu",
    ):
        self.edges = EdgeIndex.of(left, right, size, device)
        self.weights = torch.as_tensor(weights, dtype=torch.get_default_dtype(), device=device)

    def __call__(self, vectors: Tensor) -> Tensor:
        return weighted_sum(self.edges, self.weights, vectors)


def weighted_sum(edges: EdgeIndex, weights: Tensor, vectors: Tensor) -> Tensor:
    """For each left end, the sum of its edges' weights times the vectors of their right ends."""
    summed: Tensor = _WeightedSum.apply(edges, weights, vectors)  # type: ignore[no-untyped-call]
    return summed


def edge_dot(edges: EdgeIndex, left: Tensor, right: Tensor) -> Tensor:
    """For each edge, the product of the vectors at its two ends."""
    products: Tensor = _EdgeDot.apply(edges, left, right)  # type: ignore[no-untyped-call]
    return products


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
        return edges.by_left.product(weights, vectors)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        weights, vectors = ctx.saved_tensors
        grad = grad.contiguous()
        to_weights = ctx.edges.dot(grad, vectors) if ctx.needs_input_grad[1] else None
        to_vectors = ctx.edges.by_right.product(weights, grad) if ctx.needs_input_grad[2] else None
        return None, to_weights, to_vectors


class _EdgeDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: EdgeIndex, left: Tensor, right: Tensor) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(left, right)
        return edges.dot(left, right)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        left, right = ctx.saved_tensors
        edges: EdgeIndex = ctx.edges
        return None, edges.by_left.product(grad, right), edges.by_right.product(grad, left)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ends: Tensor, rows: Rows) -> Tensor:
        ctx.rows = rows
        return values[ends]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.rows.sum(grad), None, None


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: EdgeIndex, logits: Tensor) -> Tensor:
        rows = edges.by_left
        shares = (logits - rows.largest(logits)[edges.left]).exp_()
        shares /= rows.sum(shares)[edges.left]
        ctx.edges = edges
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (shares,) = ctx.saved_tensors
        weighted = shares * grad
        return None, weighted - shares * ctx.edges.by_left.sum(weighted)[ctx.edges.left]


def _group(ends: Tensor, others: Tensor, size: tuple[int, int]) -> Rows:
    starts = torch.cat([ends.new_zeros(1), torch.bincount(ends, minlength=size[0]).cumsum(0)])
    if bool((ends[1:] >= ends[:-1]).all()):
        return Rows(starts, others, size)
    order = _stable_order(ends)
    return Rows(starts, others[order], size, order)


def sort(keys: Tensor) -> Tensor:
    """The integers in order."""
    # Numpy sorts ten times faster on a CPU than torch.
    return keys.sort().values if keys.is_cuda else torch.from_numpy(np.sort(keys.numpy()))


def _stable_order(ends: Tensor) -> Tensor:
    """The places of integers from 0 in their order, equal ones as they stand."""
    if ends.is_cuda:
        return ends.argsort(stable=True)
    # A sort of integers that hold end and place is ten times faster on a CPU than a stable argsort.
    bits = len(ends).bit_length()
    return sort(ends << bits | torch.arange(len(ends))) & ((1 << bits) - 1)
