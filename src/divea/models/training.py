"""Shared by the trained models: random draws per block, dropout and the training loop.

Everything works on a stack of tasks (`divea.models.stacking`). Each block has its own random generator, so
blocks do not influence each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import Parameter

from divea.models.stacking import StackedGraph
from divea.models.steps import report_step


class Draws:
    """The random numbers of a stack, from one generator per block.

    `counts` is one number per block in all methods.
    """

    def __init__(self, graph: StackedGraph, random_seeds: Sequence[int]):
        self.graph = graph
        self.generators = [
            torch.Generator(graph.device).manual_seed(random_seed) for random_seed in random_seeds
        ]

    def uniform(self, counts: Sequence[int], columns: int, limit: float) -> Parameter:
        """A parameter with `counts[b]` rows for each block b, uniform between -limit and limit."""
        parts = [self._empty(count, columns) for count in counts]
        for part, generator in zip(parts, self.generators, strict=True):
            part.uniform_(-limit, limit, generator=generator)
        return Parameter(torch.cat(parts))

    def normal(self, counts: Sequence[int], columns: int, deviations: Sequence[float]) -> Parameter:
        """The same, but normal with mean 0 and a standard deviation for each block."""
        parts = [self._empty(count, columns) for count in counts]
        for part, deviation, generator in zip(parts, deviations, self.generators, strict=True):
            part.normal_(0, deviation, generator=generator)
        return Parameter(torch.cat(parts))

    def _empty(self, rows: int, columns: int) -> Tensor:
        return torch.empty(rows, columns, device=self.graph.device)

    def dropout(self, rows: Tensor, rate: float) -> Tensor:
        """Apply dropout to a matrix with a row per node, which is overwritten.

        One random byte per number is enough, and one draw gives eight; the rate is therefore rounded to a
        256th.
        """
        threshold = round(256 * rate)
        words = (rows.shape[1] + 7) // 8
        drawn = torch.empty(len(rows), words, dtype=torch.int64, device=rows.device)
        for block, generator in zip(self.graph.blocks, self.generators, strict=True):
            # All 64 bits: the default range of random_ excludes the sign bit.
            drawn[block.first : block.last].random_(-(1 << 63), None, generator=generator)
        is_dropped = drawn.view(torch.uint8)[:, : rows.shape[1]] < threshold
        return rows.masked_fill_(is_dropped, 0).mul_(256 / (256 - threshold))

    def nodes(self, counts: Sequence[int]) -> Tensor:
        """`counts[b]` nodes of each block b, drawn uniformly from both graphs, one block after the other."""
        drawn = torch.empty(sum(counts), dtype=torch.int64, device=self.graph.device)
        parts = zip(torch.split(drawn, list(counts)), self.graph.blocks, self.generators, strict=True)
        for part, block, generator in parts:
            if len(part):
                part.random_(block.first, block.last, generator=generator)
        return drawn

    def sample(self, counts: Sequence[int]) -> list[Tensor]:
        """The positions of `counts[b]` seeds of each block b, drawn without replacement."""
        return [
            torch.randperm(len(seeds), generator=generator, device=seeds.device)[:count]
            for seeds, generator, count in zip(self.graph.seeds, self.generators, counts, strict=True)
        ]


def train(optimiser: torch.optim.Optimizer, loss: Callable[[int], Tensor], steps: int) -> None:
    """Minimise `loss(step)`; does nothing for a stack without seeds, which has no loss."""
    # On a CPU, numbers below 1e-38 are a hundred times slower than zero, which is as good here.
    torch.set_flush_denormal(True)
    # Gradients do not need more than the ten bits that the tensor cores of a GPU keep of a factor.
    allowed_tf32 = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        for step in range(steps):
            value = loss(step)
            if not value.requires_grad:
                return
            optimiser.zero_grad(set_to_none=True)
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            report_step(step + 1, steps)
    finally:
        torch.set_flush_denormal(False)
        torch.backends.cuda.matmul.allow_tf32 = allowed_tf32


def glorot(rows: int, columns: int) -> float:
    """The limit of Glorot's uniform initialisation of a rows x columns matrix.

    >>> glorot(2, 4)
    1.0
    """
    return float(np.sqrt(6 / (rows + columns)))
