"""Sums over the edges of a graph as sparse products, forward and backward.

Graph networks usually gather the vector at one end of every edge and scatter sums to the other end.
Each such operation makes an edges x dimensions matrix, which is kept for the backward pass. Here an edge
only carries a number, and vectors are combined by two sparse kernels that make no row per edge:

    weighted_sum    out[i]  = sum over edges e = (i, j) of  weight[e] * vectors[j]
    edge_dot        out[e]  = left[i] . right[j]            for edges e = (i, j)

The gradient of each consists of calls of the other, so these two kernels are all that both passes need.
Sums are taken in a fixed order, so results are the same bits every time, also on a GPU.
"""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from divea.models import kernels

with warnings.catch_warnings():
    # torch warns once per process that its CSR tensors are in beta; trigger the warning here, unseen.
    warnings.simplefilter("ignore")
    torch.sparse_csr_tensor([0, 0], [], [], size=(1, 1), check_invariants=False)

EdgeValues = Tensor | np.ndarray
"""One number per edge, on any device: the index of one of its ends, or its weight."""

LONGEST_PIECE = 64
"""The most entries of a row that are summed in one piece on a GPU, see `SparsePattern`."""


class EdgeIndex:
    """Edges between two sets, such as entities and relations, indexed for sums over either end.

    The ends of an edge are called left and right. `by_left` groups the edges by their left end, `by_right`
    by their right end; each is made when it is first used, because many sums need only one of them.

    >>> edges = EdgeIndex.of(np.array([0, 0, 1]), np.array([1, 2, 0]), (2, 3))
    >>> weighted_sum(edges, torch.tensor([1., 2., 3.]), torch.eye(3)).tolist()
    [[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]]
    """

    def __init__(self, left: Tensor, right: Tensor, size: tuple[int, int]):
        self.left, self.right, self._size = left, right, size

    @classmethod
    def of(
        cls,
        left: EdgeValues,
        right: EdgeValues,
        size: tuple[int, int],
        device: str | torch.device = "cpu",
    ) -> EdgeIndex:
        """The index of edges given by their two ends; fastest if `left` is sorted.

        Parameters
        ----------
        size
            The number of left ends and the number of right ends; some may have no edge.
        """
        left_ends, right_ends = (
            torch.as_tensor(end, dtype=torch.long, device=device) for end in (left, right)
        )
        return cls(left_ends, right_ends, size)

    @cached_property
    def by_left(self) -> SparsePattern:
        """A row per left end, with the right ends of its edges."""
        return _grouped(self.left, self.right, self._size)

    @cached_property
    def by_right(self) -> SparsePattern:
        """A row per right end, with the left ends of its edges."""
        return _grouped(self.right, self.left, self._size[::-1])

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """left[i] . right[j] for every edge (i, j); without a gradient, unlike `edge_dot`."""
        if kernels.is_supported(left):
            return kernels.pair_sums(left, right, self.left, self.right)
        if len(self.left) > len(left) * len(right):
            # There are more edges than pairs of ends (few relations). The dense product is less work, and
            # torch's sampled product does not support this case.
            return (left @ right.T)[self.left, self.right]
        return self.by_left.dot(left, right)


class FixedSum:
    """A weighted sum over edges with constant weights, such as a mean over neighbours.

    >>> mean = FixedSum(np.array([0, 0]), np.array([0, 1]), np.array([.5, .5]), (1, 2))
    >>> mean(torch.tensor([[2.], [4.]])).tolist()
    [[3.0]]
    """

    def __init__(
        self,
        left: EdgeValues,
        right: EdgeValues,
        weights: EdgeValues,
        size: tuple[int, int],
        device: str | torch.device = "cpu",
    ):
        self.edges = EdgeIndex.of(left, right, size, device)
        self.weights = torch.as_tensor(weights, dtype=torch.get_default_dtype(), device=device)

    def __call__(self, vectors: Tensor) -> Tensor:
        return weighted_sum(self.edges, self.weights, vectors)


def weighted_sum(edges: EdgeIndex, weights: Tensor, vectors: Tensor) -> Tensor:
    """For each left end, the sum of its edges' weights times the vectors of their right ends."""
    sums: Tensor = _WeightedSum.apply(edges, weights, vectors)  # type: ignore[no-untyped-call]
    return sums


def edge_dot(edges: EdgeIndex, left: Tensor, right: Tensor) -> Tensor:
    """For each edge, the dot product of the vectors at its two ends.

    >>> edges = EdgeIndex.of(np.array([0, 1]), np.array([1, 1]), (2, 2))
    >>> edge_dot(edges, torch.tensor([[1., 2.], [3., 4.]]), torch.eye(2)).tolist()
    [2.0, 4.0]
    """
    products: Tensor = _EdgeDot.apply(edges, left, right)  # type: ignore[no-untyped-call]
    return products


def at_right(edges: EdgeIndex, values: Tensor) -> Tensor:
    """For each edge, the value of its right end.

    >>> edges = EdgeIndex.of(np.array([0, 0, 1]), np.array([1, 0, 1]), (2, 2))
    >>> at_right(edges, torch.tensor([5., 7.])).tolist()
    [7.0, 5.0, 7.0]
    """
    gathered: Tensor = _AtRight.apply(values, edges.right, edges.by_right)  # type: ignore[no-untyped-call]
    return gathered


def edge_softmax(edges: EdgeIndex, logits: Tensor) -> Tensor:
    """The softmax of a logit per edge over the edges of each left end.

    >>> edges = EdgeIndex.of(np.array([0, 0, 1]), np.array([0, 1, 1]), (2, 2))
    >>> edge_softmax(edges, torch.tensor([3., 3., 8.])).tolist()
    [0.5, 0.5, 1.0]
    """
    shares: Tensor = _EdgeSoftmax.apply(edges, logits)  # type: ignore[no-untyped-call]
    return shares


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


class _AtRight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, right: Tensor, by_right: SparsePattern) -> Tensor:
        ctx.by_right = by_right
        return values[right]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return ctx.by_right.sum(grad), None, None


class _EdgeSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, edges: EdgeIndex, logits: Tensor) -> Tensor:
        by_left = edges.by_left
        shares = (logits - by_left.largest(logits)[edges.left]).exp_()
        shares /= by_left.sum(shares)[edges.left]
        ctx.edges = edges
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (shares,) = ctx.saved_tensors
        weighted = shares * grad
        return None, weighted - shares * ctx.edges.by_left.sum(weighted)[ctx.edges.left]


class SparsePattern:
    """The pattern of a sparse matrix in CSR form: the columns of each row's entries, without values.

    Values are passed to every operation, one per entry. They may be in another order than the entries:
    `order` then maps each entry to the position of its value.

    torch's sparse product on a GPU is that of cuSPARSE, which adds the pieces of a row in the order in
    which they are ready, so its sums differ from run to run. torch's embedding bag computes the same
    product and sums each bag in order, but is slow if bags are long. On a GPU, rows are therefore cut into
    short pieces, each of which is a bag, and the pieces of a row are added in order.
    """

    def __init__(self, starts: Tensor, columns: Tensor, size: tuple[int, int], order: Tensor | None = None):
        self.starts, self.columns, self.size = starts.int(), columns.int(), size
        self.order = order
        """The position of each entry's value; None if values are in the order of the entries."""
        self._long_starts = starts.long()
        self._pieces: tuple[Tensor, Tensor] | None = None
        if starts.is_cuda:
            self._pieces = _cut_rows(self._long_starts, len(columns))

    def product(self, values: Tensor, vectors: Tensor) -> Tensor:
        """The sparse matrix with these values times a dense one."""
        values, vectors = values.detach(), vectors.detach()
        if self._pieces is None:
            return _csr(self.starts, self.columns, self._arranged(values), self.size) @ vectors
        starts, first_piece = self._pieces
        if kernels.is_supported(vectors):
            pieces = kernels.row_sums(starts, self.columns, values, self.order, vectors)
        else:
            pieces = torch.nn.functional.embedding_bag(
                self.columns,
                vectors,
                starts,
                mode="sum",
                per_sample_weights=self._arranged(values),
                include_last_offset=True,
            )
        return torch.segment_reduce(pieces, "sum", offsets=first_piece, initial=0, unsafe=True)

    def head_products(self, kinds: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
        """For each head, the product with its own values and its own columns of `vectors`, side by side.

        Parameters
        ----------
        kinds
            The kind of each entry.
        weights
            A row per kind and a column per head: the value of an entry is that of its kind.
        vectors
            As many columns for each head, one head after the other.
        """
        if self._pieces is not None and kernels.is_supported(vectors):
            starts, first_piece = self._pieces
            kinds = self._arranged(kinds)
            pieces = kernels.head_row_sums(starts, self.columns, kinds, weights, vectors)
            return torch.segment_reduce(pieces, "sum", offsets=first_piece, initial=0, unsafe=True)
        out = vectors.new_empty(self.size[0], vectors.shape[1])
        heads = weights.shape[1]
        for values, own, own_out in zip(
            weights.T.contiguous(), vectors.chunk(heads, dim=1), out.chunk(heads, dim=1), strict=True
        ):
            own_out.copy_(self.product(values[kinds], own.contiguous()))
        return out

    def dot(self, left: Tensor, right: Tensor) -> Tensor:
        """left[i] . right[j] for every entry (i, j), in the order of the values."""
        # Zeros and not empty memory: the values are multiplied by beta, and 0 * NaN is not 0.
        pattern = _csr(self.starts, self.columns, left.new_zeros(len(self.columns)), self.size)
        products: Tensor = torch.sparse.sampled_addmm(pattern, left, right.T, beta=0).values()
        if self.order is None:
            return products
        return torch.empty_like(products).index_copy_(0, self.order, products)

    def sum(self, values: Tensor) -> Tensor:
        """The sum of each row's values."""
        return torch.segment_reduce(
            self._arranged(values), "sum", offsets=self._long_starts, initial=0, unsafe=True
        )

    def largest(self, values: Tensor) -> Tensor:
        """The largest of each row's values, -inf for a row without entries."""
        return torch.segment_reduce(
            self._arranged(values), "max", offsets=self._long_starts, initial=-torch.inf, unsafe=True
        )

    def _arranged(self, values: Tensor) -> Tensor:
        """The values in the order of the entries."""
        return values if self.order is None else values[self.order]


def _cut_rows(starts: Tensor, entries: int) -> tuple[Tensor, Tensor]:
    """Where pieces of at most `LONGEST_PIECE` entries start, and the first piece of each row.

    The number of pieces is an upper bound that does not depend on the data, so the host does not wait for
    the GPU. Surplus pieces are empty and belong to no row.
    """
    lengths = starts.diff()
    counts = (lengths + LONGEST_PIECE - 1).div(LONGEST_PIECE, rounding_mode="floor")
    first_piece = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    most = len(lengths) + entries // LONGEST_PIECE
    piece = torch.arange(most + 1, device=starts.device)
    row = torch.searchsorted(first_piece, piece, right=True).sub_(1).clamp_(max=max(len(lengths) - 1, 0))
    if not len(lengths):
        return starts.new_zeros(1).int(), first_piece
    piece_starts = starts[row] + (piece - first_piece[row]) * LONGEST_PIECE
    return piece_starts.clamp_(max=entries).int(), first_piece


def _csr(starts: Tensor, columns: Tensor, values: Tensor, size: tuple[int, int]) -> Tensor:
    return torch.sparse_csr_tensor(starts, columns, values, size=size, check_invariants=False)


def _grouped(ends: Tensor, others: Tensor, size: tuple[int, int]) -> SparsePattern:
    """The pattern with a row per end, which lists the other ends of its edges."""
    starts = torch.cat([ends.new_zeros(1), torch.bincount(ends, minlength=size[0]).cumsum(0)])
    if bool((ends[1:] >= ends[:-1]).all()):
        return SparsePattern(starts, others, size)
    order = stable_order(ends)
    return SparsePattern(starts, others[order], size, order)


def sort_integers(keys: Tensor) -> Tensor:
    """The integers in ascending order."""
    # On a CPU, numpy sorts ten times faster than torch.
    return keys.sort().values if keys.is_cuda else torch.from_numpy(np.sort(keys.numpy()))


def stable_order(ends: Tensor) -> Tensor:
    """The positions that sort non-negative integers; equal ones keep their order."""
    if ends.is_cuda:
        return ends.argsort(stable=True)
    # On a CPU, sorting integers that combine end and position is ten times faster than a stable argsort.
    bits = len(ends).bit_length()
    return sort_integers(ends << bits | torch.arange(len(ends))) & ((1 << bits) - 1)
