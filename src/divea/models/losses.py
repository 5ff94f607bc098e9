"""Training losses: the margin loss of RREA and GCN-Align, and the hard loss of Dual-AMN.

A loss is a sum over the blocks of a stack (`divea.models.stacking`) and is computed for all of them at
once, because a GPU would spend most of its time on launching an operation per block. Both losses have a
gradient in closed form and compute most of it together with the loss, which needs far fewer passes over
memory than recording every operation.

Margin loss, for a seed (l, r), random nodes l', r' and L1 distances:

    relu(|l - r| + margin - |l - r'|)  +  relu(|l - r| + margin - |l' - r|)

Hard loss (normalised hard sample mining), for each end e of a seed (l, r) and all nodes n of the block:

    violation[n] = |l - r|^2 + margin - |e - n|^2,   or 0 if n is l or r
    logit[n]     = scale * (violation[n] - mean) / deviation
    loss         = log sum exp(logit[n]) + shift

Rejected pairs (s, t) add  relu(margin - distance of s and t)  to either loss, in the distance of that loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from divea.models import kernels
from divea.models.aggregation import SparsePattern
from divea.models.stacking import StackedGraph
from divea.models.training import Draws


class RejectionLoss:
    """Requires the ends of rejected pairs to be a margin apart; the mean over the pairs of each block.

    Parameters
    ----------
    power
        1 for the L1 distance, 2 for the squared distance.
    """

    def __init__(self, graph: StackedGraph, margin: float, power: int):
        self.margin, self.power = margin, power
        self._left, self._right = torch.cat(graph.rejected).long().T
        counts = [len(pairs) for pairs in graph.rejected]
        weights = [torch.full((count,), 1 / max(count, 1)) for count in counts]
        self._weights = torch.cat(weights).to(graph.device)

    def __call__(self, rows: Tensor) -> Tensor | float:
        """The loss of a matrix with a row per node; 0 without rejected pairs."""
        if not len(self._left):
            return 0.0
        distance = (rows[self._left] - rows[self._right]).abs().pow(self.power).sum(dim=1)
        return (torch.relu(self.margin - distance) * self._weights).sum()


class MarginLoss:
    """Requires the ends of a seed to be closer, by a margin in L1 distance, than either is to random nodes.

    The k-th negative of a block belongs to the block's seed number k modulo the number of its seeds. It has
    a random right end and a random left end. The loss of a block is the mean over its negatives.

    Parameters
    ----------
    counts
        The number of negatives of each block; a block without seeds has none.
    """

    def __init__(self, graph: StackedGraph, counts: Sequence[int], margin: float):
        self.margin = margin
        self._rejection = RejectionLoss(graph, margin, power=1)
        num_seeds = [len(seeds) for seeds in graph.seeds]
        self.counts = [count if known else 0 for count, known in zip(counts, num_seeds, strict=True)]
        seed_of_negative, weight_of_seed = _negatives_of_seeds(self.counts, num_seeds)
        self._seed_of_negative = seed_of_negative.to(graph.device)
        self._weight_of_seed = weight_of_seed.to(graph.device)
        seeds = torch.cat(graph.seeds).long()
        left, self._seed_right = seeds[:, 0], seeds[:, 1]
        self._seed_and_true_left = torch.cat([left, left[self._seed_of_negative]])
        self._true_right = self._seed_right[self._seed_of_negative]

    def draw(self, draws: Draws) -> tuple[Tensor, Tensor]:
        """The random right ends and the random left ends of all negatives, block after block."""
        return draws.nodes(self.counts), draws.nodes(self.counts)

    def __call__(self, rows: Tensor, false_right: Tensor, false_left: Tensor) -> Tensor:
        """The loss of a matrix with a row per node, for random ends from `draw`."""
        if not len(self._seed_of_negative):
            return rows.new_zeros(())
        # The distances of the seeds, of left ends to random right ends, of random left ends to right ends.
        left = torch.cat([self._seed_and_true_left, false_left])
        right = torch.cat([self._seed_right, false_right, self._true_right])
        loss: Tensor = _MarginLoss.apply(  # type: ignore[no-untyped-call]
            rows, left, right, self._seed_of_negative, self._weight_of_seed, self.margin
        )
        return loss + self._rejection(rows)


def _negatives_of_seeds(counts: Sequence[int], num_seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The seed of each negative, and the weight of each seed's negatives: 1 / negatives of the block."""
    seed_of_negative, weight_of_seed = [torch.zeros(0, dtype=torch.long)], [torch.zeros(0)]
    first_seed = 0
    for count, known in zip(counts, num_seeds, strict=True):
        seed_of_negative.append(first_seed + torch.arange(count) % max(known, 1))
        weight_of_seed.append(torch.full((known,), 1 / max(count, 1)))
        first_seed += known
    return torch.cat(seed_of_negative), torch.cat(weight_of_seed)


class _MarginLoss(torch.autograd.Function):
    """The margin loss of pairs (left, right): first the seeds, then the negatives of either side."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        left: Tensor,
        right: Tensor,
        seed_of_negative: Tensor,
        weight_of_seed: Tensor,
        margin: float,
    ) -> Tensor:
        distances = l1_distances(rows, left, right)
        seeds = len(weight_of_seed)
        of_seeds, of_negatives = distances[:seeds], distances[seeds:].view(2, -1)
        violations = torch.relu_(of_seeds[seed_of_negative] + margin - of_negatives)
        # The number of violations of each seed. Whole numbers add up exactly, so the order of the sum,
        # which is random on a GPU, makes no difference.
        is_violated = (violations > 0).to(rows.dtype)
        violated = torch.zeros_like(weight_of_seed).index_add_(0, seed_of_negative, is_violated.sum(dim=0))
        weight_of_negative = weight_of_seed[seed_of_negative]
        slopes = torch.cat([violated * weight_of_seed, (-is_violated * weight_of_negative).flatten()])
        ctx.save_for_backward(rows, left, right, slopes)
        return (violations.sum(dim=0) * weight_of_negative).sum()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None, None, None]:
        rows, left, right, slopes = ctx.saved_tensors
        return l1_gradient(rows, left, right, slopes * grad), None, None, None, None, None


_CPU_CHUNK = 1 << 18
"""Numbers that are processed at a time on a CPU: they fit its cache."""

_GPU_CHUNK = 1 << 25
"""Numbers that are processed at a time on a GPU: enough to keep it busy."""


def l1_distances(rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """The L1 distance of rows left[k] and right[k] for each k, without a row per pair in memory.

    >>> l1_distances(torch.tensor([[0., 1.], [2., 2.]]), torch.tensor([0]), torch.tensor([1])).tolist()
    [3.0]
    """
    if kernels.is_supported(rows):
        return kernels.pair_sums(rows, rows, left, right, l1=True)
    step = max(1, (_GPU_CHUNK if rows.is_cuda else _CPU_CHUNK) // max(rows.shape[1], 1))
    chunks = [
        (rows[some_left] - rows[some_right]).abs_().sum(dim=1)
        for some_left, some_right in zip(torch.split(left, step), torch.split(right, step), strict=True)
    ]
    return torch.cat(chunks)


def l1_gradient(rows: Tensor, left: Tensor, right: Tensor, slopes: Tensor) -> Tensor:
    """The gradient with respect to the rows of the sum over pairs of slope times L1 distance.

    >>> rows = torch.tensor([[0., 1.], [2., 2.]])
    >>> l1_gradient(rows, torch.tensor([0]), torch.tensor([1]), torch.tensor([3.])).tolist()
    [[-3.0, -3.0], [3.0, 3.0]]
    """
    ends, order = torch.cat([left, right]).sort(stable=True)
    starts = torch.searchsorted(ends, torch.arange(len(rows) + 1, device=rows.device))
    if kernels.is_supported(rows):
        # One program sums a whole row. Rows are short: a node is in few pairs, the end of a seed in about
        # nodes / seeds.
        others = torch.cat([right, left])[order]
        return kernels.row_sums(starts, others, slopes.repeat(2), order, rows, signs=True)
    # The incidence matrix, nodes x pairs, has the slope for a left end and minus the slope for a right end.
    # Its product with the signs of the differences sums over all pairs of a node.
    incidence = SparsePattern(starts, order % len(left), (len(rows), len(left)))
    weights = torch.cat([slopes, -slopes])[order]
    gradient = torch.empty_like(rows)
    step = max(32, _GPU_CHUNK // len(left)) if rows.is_cuda else 128
    for part, to_part in zip(torch.split(rows, step, dim=1), torch.split(gradient, step, dim=1), strict=True):
        to_part.copy_(incidence.product(weights, (part[left] - part[right]).sign_()))
    return gradient


class HardLoss:
    """Normalised hard sample mining (Dual-AMN): every node is a negative, and near ones count most.

    For each end of a seed, the margin violations of all nodes of the block are standardised to mean 0 and
    deviation 1 and enter a smooth maximum (log-sum-exp). The seed's own ends have violation 0. The loss of
    a seed is the sum over its two ends, that of a block the mean over a batch of seeds. Blocks are padded
    to the same number of nodes and computed in one batched product, so a seed is compared only with nodes
    of its own block.

    Parameters
    ----------
    batch
        Seeds of each block per step. A block with fewer uses all of them.
    """

    def __init__(self, graph: StackedGraph, batch: int, margin: float, scale: float, shift: float):
        self.graph, self.margin, self.scale, self.shift = graph, margin, scale, shift
        self._rejection = RejectionLoss(graph, margin, power=2)
        self._counts = [min(batch, len(seeds)) for seeds in graph.seeds]
        self._is_sampled = any(
            count < len(seeds) for count, seeds in zip(self._counts, graph.seeds, strict=True)
        )
        # From here on, nodes are counted from the start of their block.
        self._seeds = [seeds - block.first for seeds, block in zip(graph.seeds, graph.blocks, strict=True)]
        self._first_seeds = pad_sequence(
            [seeds[:count] for seeds, count in zip(self._seeds, self._counts, strict=True)], True
        )
        # Padded seeds have weight 0.
        weights = [torch.full((count, 1), 1 / max(count, 1)) for count in self._counts]
        self._weights = pad_sequence(weights, batch_first=True).to(graph.device)
        self._blocks = torch.arange(len(self._counts), device=graph.device)[:, None]
        sizes = [block.nodes for block in graph.blocks]
        self._sizes, self._smallest = torch.tensor(sizes, device=graph.device)[:, None, None], min(sizes)

    def __call__(self, rows: Tensor, draws: Draws) -> Tensor:
        """The loss of a matrix with a row per node, over a batch of seeds."""
        if not self._first_seeds.numel():
            return rows.new_zeros(())
        # The tensor cores of a GPU need rows of whole 32 bytes; other products are many times slower.
        nodes = self.graph.padded(rows, multiple=8)
        seeds = self._batch(draws)
        left, right = nodes[self._blocks, seeds[..., 0]], nodes[self._blocks, seeds[..., 1]]
        limits = (left - right).square().sum(dim=2, keepdim=True) + self.margin
        # All left ends, then all right ends; each is compared with all nodes of its block.
        maxima: Tensor = _SmoothMaximum.apply(  # type: ignore[no-untyped-call]
            torch.cat([left, right], dim=1),
            nodes,
            limits.repeat(1, 2, 1),
            seeds.repeat(1, 2, 1),
            self._sizes,
            self._smallest,
            self.scale,
        )
        return ((maxima + self.shift) * self._weights.repeat(1, 2, 1)).sum() + self._rejection(rows)

    def _batch(self, draws: Draws) -> Tensor:
        """The seeds of a step, blocks x seeds x 2, padded."""
        if not self._is_sampled:
            return self._first_seeds
        positions = draws.sample(self._counts)
        return pad_sequence([seeds[some] for seeds, some in zip(self._seeds, positions, strict=True)], True)


class _SmoothMaximum(torch.autograd.Function):
    """log sum exp over the nodes n of a block of  slope * (violation[n] - mean),  for each seed's end e:

        violation[n] = limit - |e - n|^2, or 0 if n is an end of the seed itself
        slope        = scale / deviation of the violations

    The limit is the squared distance of the seed's ends plus the margin. Mean and slope are treated as
    constants, as in the public code, so the gradient with respect to the violations is slope * softmax.

    Terms that are the same for all nodes of an end change neither the deviation nor the softmax. The matrix
    of ends x nodes therefore contains only the rest, the relative violation  2 e.n - |n|^2. It is the
    largest tensor in training, and every pass over it counts.
    """

    @staticmethod
    def forward(
        ctx: Any,
        ends: Tensor,
        nodes: Tensor,
        limits: Tensor,
        seeds: Tensor,
        sizes: Tensor,
        smallest: int,
        scale: float,
    ) -> Tensor:
        logits = _relative_violations(ends, nodes, limits, seeds)
        mean, slope = _scale_to_logits_(logits, sizes, smallest, scale)
        shares = torch.softmax(logits, dim=2)
        # log sum exp is the largest logit minus the logarithm of its share.
        largest_share, at = shares.max(dim=2, keepdim=True)
        maximum = logits.gather(2, at) - largest_share.log_() - slope * mean
        # The seed's own ends have a constant violation, so they do not contribute to the gradient.
        own_share = shares.gather(2, seeds).sum(dim=2, keepdim=True)
        shares.scatter_(2, seeds, 0)
        ctx.save_for_backward(ends, nodes, shares, slope, own_share)
        return maximum

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None, None]:
        ends, nodes, shares, slope, own_share = ctx.saved_tensors
        grad = grad * slope
        to_limits = grad * (1 - own_share)
        to_ends = 2 * (grad * (shares @ nodes) - to_limits * ends)
        to_nodes = 2 * (shares.mT @ (grad * ends) - (shares.mT @ grad) * nodes)
        return to_ends, to_nodes, to_limits, None, None, None, None


def _relative_violations(ends: Tensor, nodes: Tensor, limits: Tensor, seeds: Tensor) -> Tensor:
    """violation[n] - (limit - |e|^2) for each end e and node n, as blocks x ends x nodes."""
    constant = limits - ends.square().sum(dim=2, keepdim=True)
    relative = (2 * ends) @ nodes.mT
    relative -= nodes.square().sum(dim=2)[:, None, :]
    # The violation of the seed's own ends is 0.
    return relative.scatter_(2, seeds, (-constant).expand(-1, -1, 2))


def _scale_to_logits_(relative: Tensor, sizes: Tensor, smallest: int, scale: float) -> tuple[Tensor, Tensor]:
    """Turn relative violations into logits in place; returns their mean and the slope.

    The columns beyond the nodes of a block are padding. They are 0 at first, which does not change the sum.
    Then they are set to the mean, which does not contribute to the variance, and in the end to -inf.
    """
    columns = relative.shape[2]
    with_padding = relative[..., smallest:]
    is_padding = torch.arange(smallest, columns, device=relative.device) >= sizes
    mean = relative.sum(dim=2, keepdim=True) / sizes
    with_padding.copy_(torch.where(is_padding, mean, with_padding))
    variance = relative.var(dim=2, correction=0, keepdim=True) * (columns / sizes)
    slope = scale * variance.clamp_min_(1e-12).rsqrt_()
    relative *= slope
    with_padding.masked_fill_(is_padding, -torch.inf)
    return mean, slope
