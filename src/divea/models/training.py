"""What the trained models share: random draws per block, dropout, negatives, losses, the loop.

Everything is written for a stack of tasks (`divea.models.stacking`): a draw comes from its
block's own generator and a loss is a sum over blocks, so that blocks do not influence each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter
from torch.nn.utils.rnn import pad_sequence

from divea.models.aggregation import Rows
from divea.models.stacking import StackedGraph


class Draws:
    """The random numbers of a stack: one generator per block."""

    def __init__(self, graph: StackedGraph, seeds: Sequence[int]):
        self.graph = graph
        self.generators = [torch.Generator(graph.device).manual_seed(seed) for seed in seeds]

    def uniform(self, counts: Sequence[int], columns: int, limit: float) -> Parameter:
        """A parameter of `counts[b]` rows for each block b, uniform between -limit and limit."""
        rows = [self._empty(count, columns) for count in counts]
        for part, generator in zip(rows, self.generators, strict=True):
            part.uniform_(-limit, limit, generator=generator)
        return Parameter(torch.cat(rows))

    def normal(self, counts: Sequence[int], columns: int, deviations: Sequence[float]) -> Parameter:
        """The same, normally distributed, with a deviation for each block."""
        rows = [self._empty(count, columns) for count in counts]
        for part, deviation, generator in zip(rows, deviations, self.generators, strict=True):
            part.normal_(0, deviation, generator=generator)
        return Parameter(torch.cat(rows))

    def _empty(self, rows: int, columns: int) -> Tensor:
        return torch.empty(rows, columns, device=self.graph.device)

    def dropout(self, rows: Tensor, rate: float) -> Tensor:
        """Dropout of a matrix with a row per node, which is overwritten.

        One random byte per number is enough to decide, and eight come with one draw; the rate is
        therefore rounded to a 256th.
        """
        threshold = round(256 * rate)
        words = (rows.shape[1] + 7) // 8
        drawn = torch.empty(len(rows), words, dtype=torch.int64, device=rows.device)
        for block, generator in zip(self.graph.blocks, self.generators, strict=True):
            # All 64 bits: the default range of random_ leaves the sign bit out.
            drawn[block.first : block.last].random_(-(1 << 63), None, generator=generator)
        dropped = drawn.view(torch.uint8)[:, : rows.shape[1]] < threshold
        return rows.masked_fill_(dropped, 0).mul_(256 / (256 - threshold))

    def nodes(self, block: int, count: int) -> Tensor:
        """Nodes of one block, uniformly, from either graph."""
        where = self.graph.blocks[block]
        shape, generator = (count,), self.generators[block]
        return torch.randint(where.first, where.last, shape, generator=generator, device=self.graph.device)

    def sample(self, block: int, count: int) -> Tensor:
        """Seeds of one block, up to `count`, without repetition."""
        known = self.graph.seeds[block]
        shuffled = torch.randperm(len(known), generator=self.generators[block], device=known.device)
        return known[shuffled[:count]]


def train(
    optimiser: torch.optim.Optimizer,
    loss: Callable[[int], Tensor],
    steps: int,
) -> None:
    """Minimise `loss(step)`; a stack without a single seed has no loss and stays as drawn."""
    # Numbers below 1e-38 cost a CPU a hundred times more than zero, which they may as well be.
    torch.set_flush_denormal(True)
    try:
        for step in range(steps):
            value = loss(step)
            if not value.requires_grad:
                return
            optimiser.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    finally:
        torch.set_flush_denormal(False)


def l1_distances(rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The L1 distance of each pair of rows, without a row per pair in memory.

    >>> l1_distances(torch.tensor([[0., 1.], [2., 2.]]), torch.tensor([0]), torch.tensor([1])).tolist()
    [3.0]
    """
    distances: Tensor = _L1Distances.apply(rows, left, right)  # type: ignore[no-untyped-call]
    return distances


_PAIRS = 2048
_COLUMNS = 128


class _L1Distances(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
        ctx.save_for_backward(rows, left, right)
        # Small enough for the cache on a CPU, large enough to fill a GPU.
        step = _PAIRS if rows.device.type == "cpu" else 16 * _PAIRS
        parts = [
            (rows[left[at : at + step]] - rows[right[at : at + step]]).abs_().sum(dim=1)
            for at in range(0, len(left), step)
        ]
        return torch.cat(parts) if parts else rows.new_zeros(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        rows, left, right = ctx.saved_tensors
        # Node x pair, +1 for the left end and -1 for the right one: a sparse product sums the
        # signs of all pairs that a node stands in.
        ends, order = torch.cat([left, right]).sort(stable=True)
        starts = torch.searchsorted(ends, torch.arange(len(rows) + 1, device=rows.device))
        sign = torch.where(order < len(left), 1.0, -1.0).to(rows.dtype)
        incidence = Rows(starts, order % max(len(left), 1), (len(rows), len(left)))
        to_rows = torch.empty_like(rows)
        for at in range(0, rows.shape[1], _COLUMNS):
            part = rows[:, at : at + _COLUMNS]
            signs = (part[left] - part[right]).sign_().mul_(grad[:, None])
            to_rows[:, at : at + _COLUMNS] = incidence.product(sign, signs)
        return to_rows, None, None


def margin_loss(
    rows: Tensor, graph: StackedGraph, negatives: Sequence[tuple[Tensor, Tensor]], margin: float
) -> Tensor:
    """Seeds closer, by L1 and a margin, than their ends are to random nodes; a sum over blocks.

    `negatives[b]` are the false right ends and the false left ends of block b; the k-th belongs
    to its seed number k modulo the number of its seeds.
    """
    busy = [b for b, seeds in enumerate(graph.seeds) if len(seeds)]
    if not busy:
        return rows.new_zeros(())
    left, right, counts = [], [], []
    for b in busy:
        seeds, (false_right, false_left) = graph.seeds[b].long(), negatives[b]
        turn = torch.arange(len(false_right), device=rows.device) % len(seeds)
        left.append(torch.cat([seeds[:, 0], seeds[turn, 0], false_left]))
        right.append(torch.cat([seeds[:, 1], false_right, seeds[turn, 1]]))
        counts.append((len(seeds), len(false_right)))
    distances = l1_distances(rows, torch.cat(left), torch.cat(right))
    total = rows.new_zeros(())
    at = 0
    for true, false in counts:
        close = distances[at : at + true].repeat(-(-false // true))[:false]
        far = distances[at + true : at + true + 2 * false].view(2, -1)
        total = total + torch.relu(close + margin - far).sum() / false
        at += true + 2 * false
    return total


def hard_loss(
    rows: Tensor, graph: StackedGraph, batches: Sequence[Tensor], margin: float, scale: float, shift: float
) -> Tensor:
    """Normalised hard sample mining (Dual-AMN): every node is a negative, the near ones weigh most.

    For each end of a seed, the margin violations by all nodes of the block are brought to mean 0
    and deviation 1 and enter a smooth maximum (log-sum-exp). The true pair itself counts as no
    violation. Blocks are padded to the same number of nodes and done in one batched product.
    """
    sizes = [block.nodes for block in graph.blocks]
    largest = max((len(batch) for batch in batches), default=0)
    if not largest:
        return rows.new_zeros(())
    nodes = pad_sequence(list(torch.split(rows, sizes)), batch_first=True)
    is_node = pad_sequence([rows.new_ones(size, dtype=torch.bool) for size in sizes], batch_first=True)
    starts = torch.tensor([block.first for block in graph.blocks], device=rows.device)
    pairs = pad_sequence([batch.long() - first for batch, first in zip(batches, starts, strict=True)], True)
    is_pair = pad_sequence([batch.new_ones(len(batch), dtype=torch.bool) for batch in batches], True)
    block = torch.arange(len(sizes), device=rows.device)[:, None]
    left, right = nodes[block, pairs[..., 0]], nodes[block, pairs[..., 1]]
    close = (left - right).square().sum(dim=2, keepdim=True)
    squares = nodes.square().sum(dim=2)[:, None, :]
    total = rows.new_zeros(())
    counts = is_node.sum(dim=1)[:, None, None]
    for end in (left, right):
        far = end.square().sum(dim=2, keepdim=True) + squares - 2 * end @ nodes.mT
        violation = (close + margin - far).scatter(2, pairs, 0.0) * is_node[:, None, :]
        with torch.no_grad():
            mean = violation.sum(dim=2, keepdim=True) / counts
            spread = ((violation - mean).square() * is_node[:, None, :]).sum(dim=2, keepdim=True) / counts
        logits = (violation - mean) * (scale * spread.clamp_min(1e-12).rsqrt()) + shift
        smooth = logits.masked_fill(~is_node[:, None, :], -torch.inf).logsumexp(dim=2)
        total = total + ((smooth * is_pair).sum(dim=1) / is_pair.sum(dim=1).clamp_min(1)).sum()
    return total


def glorot(rows: int, columns: int) -> float:
    """The limit of Glorot's uniform initialisation of a rows x columns matrix."""
    return float(np.sqrt(6 / (rows + columns)))
