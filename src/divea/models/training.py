"""What the trained models share: random draws per block, dropout and the loop.

Everything is written for a stack of tasks (`divea.models.stacking`): a draw comes from its
block's own generator, so that blocks do not influence each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from divea.models.stacking import StackedGraph


class Draws:
    """The random numbers of a stack: one generator per block."""

    def __init__(self, graph: StackedGraph, random_seeds: Sequence[int]):
        self.graph = graph
        self.generators = [
            torch.Generator(graph.device).manual_seed(random_seed) for random_seed in random_seeds
        ]

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

    def nodes(self, counts: Sequence[int]) -> Tensor:
        """`counts[b]` nodes of each block b, uniformly, from either graph, one block after the other."""
        drawn = torch.empty(sum(counts), dtype=torch.int64, device=self.graph.device)
        parts = zip(torch.split(drawn, list(counts)), self.graph.blocks, self.generators, strict=True)
        for part, block, generator in parts:
            if len(part):
                part.random_(block.first, block.last, generator=generator)
        return drawn

    def sample(self, counts: Sequence[int]) -> list[Tensor]:
        """Numbers of `counts[b]` seeds of each block b, without repetition."""
        return [
            torch.randperm(len(seeds), generator=generator, device=seeds.device)[:count]
            for seeds, generator, count in zip(self.graph.seeds, self.generators, counts, strict=True)
        ]


def train(
    optimiser: torch.optim.Optimizer,
    loss: Callable[[int], Tensor],
    steps: int,
) -> None:
    """Minimise `loss(step)`; a stack without a single seed has no loss and stays as drawn."""
    # Numbers below 1e-38 cost a CPU a hundred times more than zero, which they may as well be.
    torch.set_flush_denormal(True)
    # Gradients need no more than the ten bits that a GPU's tensor cores keep of a factor.
    precise = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
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
        torch.backends.cuda.matmul.allow_tf32 = precise


def glorot(rows: int, columns: int) -> float:
    """The limit of Glorot's uniform initialisation of a rows x columns matrix."""
    return float(np.sqrt(6 / (rows + columns)))
