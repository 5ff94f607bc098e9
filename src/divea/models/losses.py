"""What training minimises: the margin loss of RREA and GCN-Align, the hard loss of Dual-AMN.

A loss is a sum over the blocks of a stack (`divea.models.stacking`), done for all of them in one
go: a GPU that is given a small operation per block spends its time on being told what to do.
Both know their gradient in closed form and compute most of it on the way to the loss, which takes
far fewer passes over memory than recording every operation would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from divea.models import kernels
from divea.models.aggregation import Rows
from divea.models.stacking import StackedGraph
from divea.models.training import Draws


class MarginLoss:
    """Seeds closer, by L1 and a margin, than their ends are to random nodes.

    Block b has `counts[b]` random right ends and as many left ones; the k-th belongs to its seed
    number k modulo the number of its seeds. A block's loss is the mean over them.
    """

    def __init__(self, graph: StackedGraph, counts: Sequence[int], margin: float):
        self.margin = margin
        known = [len(seeds) for seeds in graph.seeds]
        self.counts = [count if length else 0 for count, length in zip(counts, known, strict=True)]
        turns, shares, before = [torch.zeros(0, dtype=torch.long)], [torch.zeros(0)], 0
        for count, length in zip(self.counts, known, strict=True):
            turns.append(before + torch.arange(count) % max(length, 1))
            shares.append(torch.full((length,), 1 / max(count, 1)))
            before += length
        self._turn, self._share = torch.cat(turns).to(graph.device), torch.cat(shares).to(graph.device)
        seeds = torch.cat(graph.seeds).long()
        self._seed_left, self._seed_right = seeds[:, 0], seeds[:, 1]
        self._left = torch.cat([self._seed_left, self._seed_left[self._turn]])
        self._turn_right = self._seed_right[self._turn]

    def draw(self, draws: Draws) -> tuple[Tensor, Tensor]:
        """Random right ends and random left ends, block after block."""
        return draws.nodes(self.counts), draws.nodes(self.counts)

    def __call__(self, rows: Tensor, false_right: Tensor, false_left: Tensor) -> Tensor:
        """The loss of a row per node, given random ends as `draw` gives them."""
        if not len(self._turn):
            return rows.new_zeros(())
        left = torch.cat([self._left, false_left])
        right = torch.cat([self._seed_right, false_right, self._turn_right])
        loss: Tensor = _MarginLoss.apply(  # type: ignore[no-untyped-call]
            rows, left, right, self._turn, self._share, self.margin
        )
        return loss


class _MarginLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, left: Tensor, right: Tensor, turn: Tensor, share: Tensor, margin: float
    ) -> Tensor:
        distances = l1_distances(rows, left, right)
        close, far = distances[: len(share)], distances[len(share) :].view(2, -1)
        excess = torch.relu_(close[turn] + margin - far)
        # How often a seed is too far. Whole numbers add up exactly, so the order, which a GPU leaves
        # to chance, makes no difference.
        violated = (excess > 0).to(rows.dtype)
        often = torch.zeros_like(share).index_add_(0, turn, violated.sum(dim=0))
        slopes = torch.cat([often * share, (-violated * share[turn]).flatten()])
        ctx.save_for_backward(rows, left, right, slopes)
        return (excess.sum(dim=0) * share[turn]).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        rows, left, right, slopes = ctx.saved_tensors
        return l1_gradient(rows, left, right, slopes * grad), None, None, None, None, None


_CACHED, _LARGE = 1 << 18, 1 << 25  # numbers per part: in a CPU's cache, and enough to fill a GPU


def l1_distances(rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The L1 distance of each pair of rows, without a row per pair in memory.

    >>> l1_distances(torch.tensor([[0., 1.], [2., 2.]]), torch.tensor([0]), torch.tensor([1])).tolist()
    [3.0]
    """
    if kernels.serve(rows):
        return kernels.pair_sums(rows, rows, left, right, l1=True)
    step = max(1, (_LARGE if rows.is_cuda else _CACHED) // max(rows.shape[1], 1))
    parts = [
        (rows[some] - rows[others]).abs_().sum(dim=1)
        for some, others in zip(torch.split(left, step), torch.split(right, step), strict=True)
    ]
    return torch.cat(parts)


def l1_gradient(rows: Tensor, left: Tensor, right: Tensor, slopes: Tensor) -> Tensor:
    """The gradient of the sum of slope times L1 distance over pairs, for every row."""
    ends, order = torch.cat([left, right]).sort(stable=True)
    starts = torch.searchsorted(ends, torch.arange(len(rows) + 1, device=rows.device))
    if kernels.serve(rows):
        # One program sums a whole row: a node stands in few pairs, a seed's end in nodes / seeds.
        others = torch.cat([right, left])[order]
        return kernels.row_sums(starts, others, slopes.repeat(2), order, rows, signs=True)
    # Node x pair, the slope for the left end and minus the slope for the right one: a sparse
    # product sums the signs of all pairs that a node stands in.
    incidence = Rows(starts, order % len(left), (len(rows), len(left)))
    weights = torch.cat([slopes, -slopes])[order]
    gradient = torch.empty_like(rows)
    step = max(32, _LARGE // len(left)) if rows.is_cuda else 128
    for part, to_part in zip(torch.split(rows, step, dim=1), torch.split(gradient, step, dim=1), strict=True):
        to_part.copy_(incidence.product(weights, (part[left] - part[right]).sign_()))
    return gradient


class HardLoss:
    """Normalised hard sample mining (Dual-AMN): every node is a negative, the near ones weigh most.

    For each end of a seed, the margin violations by all nodes of the block are brought to mean 0
    and deviation 1 and enter a smooth maximum (log-sum-exp). The true pair itself counts as no
    violation. A block's loss is the mean over the seeds of a batch, all of them where there are no
    more than `batch`. Blocks are padded to one number of nodes and done in one batched product, so
    a seed meets the nodes of its own block only.
    """

    def __init__(self, graph: StackedGraph, batch: int, margin: float, scale: float, shift: float):
        self.graph, self.margin, self.scale, self.shift = graph, margin, scale, shift
        counts = [min(batch, len(seeds)) for seeds in graph.seeds]
        self._counts = counts
        self._draws = any(count < len(seeds) for count, seeds in zip(counts, graph.seeds, strict=True))
        local = [seeds - block.first for seeds, block in zip(graph.seeds, graph.blocks, strict=True)]
        self._seeds = local
        self._pairs = pad_sequence([seeds[:count] for seeds, count in zip(local, counts, strict=True)], True)
        shares = [torch.full((count, 1), 1 / max(count, 1)) for count in counts]
        self._share = pad_sequence(shares, batch_first=True).to(graph.device)
        self._block = torch.arange(len(counts), device=graph.device)[:, None]
        sizes = [block.nodes for block in graph.blocks]
        self._sizes, self._smallest = torch.tensor(sizes, device=graph.device)[:, None, None], min(sizes)

    def __call__(self, rows: Tensor, draws: Draws) -> Tensor:
        """The loss of a row per node over a batch of seeds."""
        if not self._pairs.numel():
            return rows.new_zeros(())
        # A GPU's tensor cores take rows of whole 32 bytes; others it multiplies many times slower.
        nodes = self.graph.padded(rows, multiple=8)
        pairs = self._batch(draws)
        left, right = nodes[self._block, pairs[..., 0]], nodes[self._block, pairs[..., 1]]
        close = (left - right).square().sum(dim=2, keepdim=True) + self.margin
        # Left ends, then right ones: either meets all nodes.
        largest: Tensor = _SmoothMaximum.apply(  # type: ignore[no-untyped-call]
            torch.cat([left, right], dim=1),
            nodes,
            close.repeat(1, 2, 1),
            pairs.repeat(1, 2, 1),
            self._sizes,
            self._smallest,
            self.scale,
        )
        return ((largest + self.shift) * self._share.repeat(1, 2, 1)).sum()

    def _batch(self, draws: Draws) -> Tensor:
        """The seeds of a step, padded; nodes are counted from the start of their block."""
        if not self._draws:
            return self._pairs
        numbers = draws.sample(self._counts)
        return pad_sequence([seeds[some] for seeds, some in zip(self._seeds, numbers, strict=True)], True)


class _SmoothMaximum(torch.autograd.Function):
    """log sum exp over the nodes n of a block of  slope * (violation[n] - mean),  for each seed's end e:

        violation[n] = close - |e - n|^2, or 0 where n is an end of the seed itself
        slope        = scale / deviation of the violations

    Mean and slope count as constants, as in the public code; hence the gradient by the violations
    is slope * softmax. What is the same for all nodes of an end changes neither deviation nor
    softmax, so the matrix of ends x nodes is made of the rest,  2 e.n - |n|^2. It is larger than
    anything else in training: every pass over it counts.
    """

    @staticmethod
    def forward(
        ctx: Any,
        end: Tensor,
        nodes: Tensor,
        close: Tensor,
        pairs: Tensor,
        sizes: Tensor,
        smallest: int,
        scale: float,
    ) -> Tensor:
        same = close - end.square().sum(dim=2, keepdim=True)
        matrix = (2 * end) @ nodes.mT
        matrix -= nodes.square().sum(dim=2)[:, None, :]
        matrix.scatter_(2, pairs, (-same).expand(-1, -1, 2))
        # Columns beyond a block's nodes, 0 so far, count as the mean and then as nothing.
        padded = matrix[..., smallest:]
        padding = torch.arange(smallest, nodes.shape[1], device=nodes.device) >= sizes
        mean = matrix.sum(dim=2, keepdim=True) / sizes
        padded.copy_(torch.where(padding, mean, padded))
        variance = matrix.var(dim=2, correction=0, keepdim=True) * (nodes.shape[1] / sizes)
        slope = scale * variance.clamp_min_(1e-12).rsqrt_()
        matrix *= slope
        padded.masked_fill_(padding, -torch.inf)
        shares = torch.softmax(matrix, dim=2)
        largest, place = shares.max(dim=2, keepdim=True)
        maximum = matrix.gather(2, place) - largest.log_() - slope * mean
        own = shares.gather(2, pairs).sum(dim=2, keepdim=True)
        shares.scatter_(2, pairs, 0)
        ctx.save_for_backward(end, nodes, shares, slope, own)
        return maximum

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None]:
        end, nodes, shares, slope, own = ctx.saved_tensors
        grad = grad * slope
        to_close = grad * (1 - own)
        to_end = 2 * (grad * (shares @ nodes) - to_close * end)
        to_nodes = 2 * (shares.mT @ (grad * end) - (shares.mT @ grad) * nodes)
        return to_end, to_nodes, to_close, None, None, None, None
