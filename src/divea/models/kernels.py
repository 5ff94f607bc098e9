"""Sums over rows as Triton kernels, with one pass over memory where torch's own operations need several.

The kernels run on a GPU only. Each has a counterpart in plain torch (`aggregation`, `losses`), which
defines what it computes and which runs on a CPU, or on a GPU without Triton. One program computes a whole
sum in a fixed order, so the result is the same bits every time.
"""

from __future__ import annotations

import logging
from functools import cache

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError:  # Only torch for CUDA on Linux comes with it.
    triton = None

# What a program processes at a time.
_COLUMNS = 128  # four numbers for each thread of a warp
_PAIRS = 16


def is_supported(vectors: Tensor) -> bool:
    """Whether the kernels can be used for these vectors: single precision, on a GPU, with Triton."""
    return vectors.is_cuda and vectors.dtype == torch.float32 and _triton_works()


@cache
def _triton_works() -> bool:
    """Whether Triton is installed and finds the C compiler that it needs; tested once per process."""
    if triton is None:
        return False
    one, zero = torch.ones(1, 1, device="cuda"), torch.zeros(1, dtype=torch.long, device="cuda")
    try:
        pair_sums(one, one, zero, zero)
    except Exception as error:  # Its type depends on what is missing.
        logging.getLogger(__name__).warning("Triton does not work here, so training is slower: %s", error)
        return False
    return True


def row_sums(
    starts: Tensor,
    columns: Tensor,
    values: Tensor,
    order: Tensor | None,
    vectors: Tensor,
    signs: bool = False,
) -> Tensor:
    """For each row i, the sum of value times vectors[column] over the entries starts[i] to starts[i + 1].

    Parameters
    ----------
    columns
        The column of each entry.
    values, order
        The value of entry e is values[order[e]], or values[e] without an order.
    signs
        Multiply the value by sign(vectors[i] - vectors[column]) instead.
    """
    values, vectors, width = values.contiguous(), vectors.contiguous(), vectors.shape[1]
    out = vectors.new_empty(len(starts) - 1, width)
    if out.numel():
        grid, is_ordered = (len(out), -(-width // _COLUMNS)), order is not None
        # Without an order the kernel ignores this argument, but it must be a tensor.
        positions = order if is_ordered else starts
        _row_sums[grid](
            out, starts, columns, values, positions, vectors, width, is_ordered, signs, _COLUMNS, num_warps=1
        )
    return out


def head_row_sums(starts: Tensor, columns: Tensor, kinds: Tensor, weights: Tensor, vectors: Tensor) -> Tensor:
    """`row_sums` for several heads at once, each with its own values and its own columns of the vectors.

    Parameters
    ----------
    columns, kinds
        The column and the kind of each entry.
    weights
        A row per kind and a column per head: the value of entry e for head h is weights[kinds[e], h].
    vectors
        The columns of the first head, then those of the second, and so on.
    """
    weights, vectors, width = weights.contiguous(), vectors.contiguous(), vectors.shape[1]
    out, heads = vectors.new_empty(len(starts) - 1, width), weights.shape[1]
    if out.numel():
        grid = (len(out), -(-width // _COLUMNS))
        _head_row_sums[grid](
            out, starts, columns, kinds, weights, vectors, width, heads, width // heads, _COLUMNS, num_warps=1
        )
    return out


def pair_sums(first: Tensor, second: Tensor, left: Tensor, right: Tensor, l1: bool = False) -> Tensor:
    """first[i] . second[j] for each pair (i, j) of `left` and `right`, or with `l1` their L1 distance."""
    first, second, left, right = (tensor.contiguous() for tensor in (first, second, left, right))
    out = first.new_empty(len(left))
    if len(out):
        grid = (-(-len(out) // _PAIRS),)
        _pair_sums[grid](out, first, second, left, right, len(out), first.shape[1], l1, _PAIRS, _COLUMNS)
    return out


if triton is not None:
    # The width is a compile-time constant, so that rows are read sixteen bytes at a time.

    @triton.jit
    def _row_sums(
        out,
        starts,
        columns,
        values,
        order,
        vectors,
        width: tl.constexpr,
        ordered: tl.constexpr,
        signs: tl.constexpr,
        block: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        place = tl.program_id(1) * block + tl.arange(0, block)
        inside = place < width
        total = tl.zeros([block], tl.float32)
        if signs:
            own = tl.load(vectors + row * width + place, mask=inside)
        for entry in range(tl.load(starts + row), tl.load(starts + row + 1)):
            column = tl.load(columns + entry).to(tl.int64)
            vector = tl.load(vectors + column * width + place, mask=inside)
            if signs:
                vector = (own > vector).to(tl.float32) - (own < vector).to(tl.float32)
            value = tl.load(values + (tl.load(order + entry) if ordered else entry))
            total += value * vector
        tl.store(out + row * width + place, total, mask=inside)

    @triton.jit
    def _head_row_sums(
        out,
        starts,
        columns,
        kinds,
        weights,
        vectors,
        width: tl.constexpr,
        heads: tl.constexpr,
        columns_per_head: tl.constexpr,
        block: tl.constexpr,
    ):
        row = tl.program_id(0).to(tl.int64)
        place = tl.program_id(1) * block + tl.arange(0, block)
        inside = place < width
        head = place // columns_per_head
        total = tl.zeros([block], tl.float32)
        for entry in range(tl.load(starts + row), tl.load(starts + row + 1)):
            column = tl.load(columns + entry).to(tl.int64)
            kind = tl.load(kinds + entry).to(tl.int64)
            vector = tl.load(vectors + column * width + place, mask=inside)
            value = tl.load(weights + kind * heads + head, mask=inside)
            total += value * vector
        tl.store(out + row * width + place, total, mask=inside)

    @triton.jit
    def _pair_sums(
        out,
        first,
        second,
        left,
        right,
        count,
        width: tl.constexpr,
        l1: tl.constexpr,
        pairs: tl.constexpr,
        block: tl.constexpr,
    ):
        pair = tl.program_id(0) * pairs + tl.arange(0, pairs)
        known = pair < count
        i = tl.load(left + pair, mask=known, other=0).to(tl.int64)[:, None]
        j = tl.load(right + pair, mask=known, other=0).to(tl.int64)[:, None]
        total = tl.zeros([pairs, block], tl.float32)
        for start in range(0, width, block):
            place = start + tl.arange(0, block)[None, :]
            inside = known[:, None] & (place < width)
            x = tl.load(first + i * width + place, mask=inside, other=0)
            y = tl.load(second + j * width + place, mask=inside, other=0)
            total += tl.abs(x - y) if l1 else x * y
        tl.store(out + pair, tl.sum(total, axis=1), mask=known)
