"""Locality: how near every target entity is to the target anchors of each part.

`Hops` is the paper's measure (Eq. 2, called `bfs`), `Propagated` is ours (`propagate`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Protocol

import numpy as np
import torch
from scipy.sparse import csr_array, vstack

from divea.division.columns import (
    COARSE,
    NEVER,
    block_of_parts,
    column_blocks,
    cut_out,
    entries,
    indicator,
    region,
    row_blocks,
    sparse_tensor,
)
from divea.division.threads import side_by_side
from divea.errors import InputError
from divea.graphs.labels import Ids

STEPS = 6
"""Hops that membership travels in `propagate`; more gain little (benchmarks/propagation.py)."""

HUB_DAMPING = 0.5
"""An entity's membership counts by its degree to the power of minus this."""

LEAST = 0.1
"""An entity to which a block of parts matters less than this is out of the block's reach."""

NEARLY_ALL = 0.999
"""Once so much of what is ever reached is reached, parts have met; further hops hardly move their regions."""


class Locality(Protocol):
    """How near entities are to the anchors of each part, a block of parts at a time."""

    def __init__(self, passing: csr_array, anchors: Ids, parts: Ids, count: int, device: str) -> None: ...

    @staticmethod
    def passing(adjacency: csr_array) -> csr_array:
        """What neighbours pass to each other, whoever the anchors are: to be found once for a graph."""
        ...

    def regions(self) -> Iterator[tuple[range, Ids | None]]:
        """The blocks of parts, each with the entities that any of them may reach (None for all)."""
        ...

    def scores(self, block: range, rows: Ids | None) -> torch.Tensor:
        """Entities x parts; `NEVER` where nothing is reached."""
        ...


class Propagated:
    """A part's share of the membership that reaches an entity from the anchors, 0 to 1.

    Every anchor holds its part; every other entity takes the weighted mean of its neighbours'
    membership, hubs damped by the root of their degree because they stand near everything. The
    share, and not the amount, is the score: an entity far from all anchors still goes to the part
    that it is nearest to.

    Anchors only ever hold their part, so what they pass on is the same in every hop (`direct`, entity x
    part), and a product has to look at what the other entities pass to each other alone (`among`).
    """

    def __init__(self, passing: csr_array, anchors: Ids, parts: Ids, count: int, device: str = "cpu"):
        self.count, self.device = count, device
        self.direct, self.among = _one_hop(passing, anchors, parts, count)
        self._whole = sparse_tensor(self.among, torch.float32, device)
        # Spreading is linear, so what arrives from all the parts together takes one column.
        hops = list(self._hops(self._whole, self.direct.sum(axis=1)[:, None]))
        reached = [int((state > 0).sum()) for state in hops]
        self._total = hops[-1]
        self._met = next(hop for hop, so_far in enumerate(reached) if so_far >= NEARLY_ALL * reached[-1])
        self._total_when_met = hops[self._met]

    @staticmethod
    def passing(adjacency: csr_array) -> csr_array:
        """The weights of the mean that each entity takes over its neighbours."""
        # Ten triples between two entities are more than one, but not ten times more.
        logarithm = np.log(np.arange(1, adjacency.data.max(initial=1) + 1))
        weights = (1 + logarithm).astype(np.float32).take(adjacency.data - 1)
        mean = csr_array((weights, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
        ones = np.ones(adjacency.shape[0])
        weights *= (np.maximum(mean @ ones, 1e-9) ** -HUB_DAMPING).astype(np.float32).take(adjacency.indices)
        received = np.maximum(mean @ ones, 1e-9).astype(np.float32)
        weights /= np.repeat(received, np.diff(adjacency.indptr))
        return mean

    def regions(self) -> Iterator[tuple[range, Ids | None]]:
        """Where a block's share is not negligible, by a pass with one column for each block."""
        size = self.among.shape[0]
        blocks = list(column_blocks(size, self.count, torch.float32))
        columns = block_of_parts(blocks)[self.direct.indices]
        coarse = csr_array((self.direct.data, columns, self.direct.indptr), shape=(size, len(blocks) + 1))
        # Whom nothing has reached yet may become anybody's.
        late = (self._total_when_met == 0) & (self._total > 0)
        for group in column_blocks(size, len(blocks), torch.float32, COARSE):
            # With a single block the share is 1 wherever anything arrives.
            direct = coarse[:, group.start : group.stop].toarray()
            share = self._after(self._met, self._whole, direct).div_(self._total_when_met)
            within = ((share >= LEAST) | late).T.contiguous().cpu().numpy()
            for number, matters in zip(group, within, strict=True):
                yield blocks[number], region(matters)

    def scores(self, block: range, rows: Ids | None) -> torch.Tensor:
        direct, matrix, total = self.direct, self._whole, self._total
        if rows is not None:
            direct, total = direct[rows], total[torch.from_numpy(rows.astype(np.int64)).to(self.device)]
            matrix = sparse_tensor(cut_out(self.among, rows), torch.float32, self.device)
        share = self._after(STEPS - 1, matrix, direct[:, block.start : block.stop].toarray()).div_(total)
        return share.masked_fill_(~(share > 0), NEVER)

    def _after(self, hop: int, among: torch.Tensor, direct: np.ndarray) -> torch.Tensor:
        return next(islice(self._hops(among, direct), hop, None))

    def _hops(self, among: torch.Tensor, direct: np.ndarray) -> Iterator[torch.Tensor]:
        """What has arrived after each hop; `direct` is what arrives in the first."""
        first = state = torch.from_numpy(direct).to(self.device)
        yield state
        for _ in range(STEPS - 1):
            state = torch.addmm(first, among, state)
            yield state


def _one_hop(matrix: csr_array, anchors: Ids, parts: Ids, count: int) -> tuple[csr_array, csr_array]:
    """`direct` and `among`; the column after the last part is for what comes from anchors of none."""
    size = matrix.shape[0]
    held = np.full(size, -1, dtype=np.int32)
    held[anchors] = np.where(parts < 0, count, parts)

    def of_rows(rows: slice) -> tuple[csr_array, csr_array]:
        part = matrix[rows]
        listens = np.repeat(held[rows] < 0, np.diff(part.indptr))
        said = held.take(part.indices)
        return (
            entries(part, listens & (said >= 0), said, count + 1),
            entries(part, listens & (said < 0), part.indices, size),
        )

    direct, among = zip(*side_by_side(of_rows, row_blocks(size)), strict=True)
    known = np.flatnonzero(held >= 0)
    own = csr_array((np.ones(len(known), np.float32), (known, held[known])), shape=(size, count + 1))
    return vstack(direct, format="csr") + own, vstack(among, format="csr")


class Hops:
    """Minus the number of hops from the nearest anchor of the part (the paper's W_loc)."""

    def __init__(self, passing: csr_array, anchors: Ids, parts: Ids, count: int, device: str = "cpu"):
        self.anchors, self.parts, self.count, self.device = anchors, parts, count, device
        self.matrix = sparse_tensor(passing, torch.float32, device)

    @staticmethod
    def passing(adjacency: csr_array) -> csr_array:
        """A hop takes any edge."""
        return adjacency

    def regions(self) -> Iterator[tuple[range, Ids | None]]:
        """The whole graph for every block."""
        for block in column_blocks(self.matrix.shape[0], self.count, torch.float32):
            yield block, None

    def scores(self, block: range, rows: Ids | None) -> torch.Tensor:
        size = self.matrix.shape[0]
        reached = indicator(size, self.anchors, self.parts, block, torch.float32, self.device)
        distance = torch.full_like(reached, NEVER).masked_fill_(reached > 0, 0.0)
        hop = 0
        while bool(reached.any()):
            hop += 1
            fresh = ((self.matrix @ reached) > 0) & (distance == NEVER)
            distance.masked_fill_(fresh, -float(hop))
            reached = fresh.to(torch.float32)
        return distance


LOCALITY: dict[str, type[Locality]] = {"propagate": Propagated, "bfs": Hops}


def measure(name: str) -> type[Locality]:
    """The locality of this name."""
    if name not in LOCALITY:
        raise InputError(f"unknown locality {name!r}; choose from {', '.join(LOCALITY)}")
    return LOCALITY[name]
