"""The k largest entries of every row, at little more than the cost of reading the matrix once."""

from __future__ import annotations

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
