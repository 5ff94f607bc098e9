"""Locality: how near every target entity is to the target anchors of each part (Eq. 2).

`HopLocality` is the paper's measure (`bfs`), `PropagatedLocality` is ours (`propagate`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import numpy as np
import torch
from scipy.sparse import csr_array, vstack
from scipy.sparse.csgraph import dijkstra

from divea.division.blocks import (
    WIDE,
    block_of_part,
    column_blocks,
    filtered,
    indicator,
    region_rows,
    row_blocks,
    sparse_tensor,
    submatrix,
)
from divea.division.parallel import in_parallel
from divea.division.selection import EXCLUDED
from divea.types import Ids

HOPS = 6
"""Hops that membership travels in `propagate`; more gain little (benchmarks/quality/propagation.py)."""

HUB_DAMPING = 0.5
"""Membership that an entity passes on is divided by its degree to this power."""

LEAST_SHARE = 0.1
"""An entity in which a block of parts has a smaller share than this is outside the block's region."""

NEARLY_ALL = 0.999
"""Once this share of reachable entities is reached, parts have met, and more hops hardly change regions."""

MOST_PRODUCTS = 32
"""The most hops that `bfs` takes as products over the whole graph. In long chains, one product per hop would
take time quadratic in the number of entities."""


class Locality(ABC):
    """Scores entities by how near they are to the anchors of each part, a block of parts at a time."""

    @abstractmethod
    def __init__(
        self, hop_matrix: csr_array, anchors: Ids, part_of_anchor: Ids, num_parts: int, device: str
    ) -> None:
        """Prepare the scores.

        Parameters
        ----------
        hop_matrix
            What `hop_matrix` returned for the graph.
        anchors, part_of_anchor
            The anchors and the part of each, -1 for none.
        """

    @staticmethod
    @abstractmethod
    def hop_matrix(adjacency: csr_array) -> csr_array:
        """The matrix that one hop multiplies by; it depends on the graph alone and is computed once."""

    @abstractmethod
    def regions(self) -> Iterator[tuple[range, Ids | None]]:
        """The blocks of parts, each with the entities within reach of any of its parts (None for all)."""

    @abstractmethod
    def scores(self, block: range, rows: Ids | None) -> torch.Tensor:
        """Scores of entities (rows) for the parts of a block (columns); `EXCLUDED` where out of reach."""


class PropagatedLocality(Locality):
    """Each part's share of the membership that reaches an entity from all anchors, 0 to 1.

    Every anchor holds the membership of its part. Every other entity takes the weighted mean of its
    neighbours' membership, with hubs damped because they are near everything. The score is the share and not
    the amount, so an entity far from all anchors still belongs to the part it is nearest to.

    Anchors never change, so what they pass on is the same in every hop (`from_anchors`, entity x part), and
    the product of a hop runs over the other entities alone (`between_others`). `from_anchors` has one column
    more than there are parts, for anchors of no part: they hold membership too, but no candidate is theirs.
    """

    def __init__(
        self, hop_matrix: csr_array, anchors: Ids, part_of_anchor: Ids, num_parts: int, device: str = "cpu"
    ):
        self.num_parts, self.device = num_parts, device
        self.from_anchors, self.between_others = _split_by_anchors(
            hop_matrix, anchors, part_of_anchor, num_parts
        )
        self._whole_graph = sparse_tensor(self.between_others, torch.float32, device)
        # Propagation is linear, so the sum over all parts needs one column only.
        totals = list(self._propagate(self._whole_graph, self.from_anchors.sum(axis=1)[:, None]))
        self._total = totals[-1]
        self._region_hop = _first_hop_that_reaches_nearly_all(totals)
        self._region_total = totals[self._region_hop]

    @staticmethod
    def hop_matrix(adjacency: csr_array) -> csr_array:
        """The weights of the mean that each entity takes over its neighbours."""
        shape, ones = adjacency.shape, np.ones(adjacency.shape[0])
        # Ten triples between two entities count more than one, but not ten times as much.
        logarithm = np.log(np.arange(1, adjacency.data.max(initial=1) + 1))
        weights = (1 + logarithm).astype(np.float32).take(adjacency.data - 1)
        strength = csr_array((weights, adjacency.indices, adjacency.indptr), shape=shape) @ ones
        weights *= (np.maximum(strength, 1e-9) ** -HUB_DAMPING).astype(np.float32).take(adjacency.indices)
        row_sums = csr_array((weights, adjacency.indices, adjacency.indptr), shape=shape) @ ones
        row_sums = np.maximum(row_sums, 1e-9).astype(np.float32)
        weights /= np.repeat(row_sums, np.diff(adjacency.indptr))
        return csr_array((weights, adjacency.indices, adjacency.indptr), shape=shape)

    def regions(self) -> Iterator[tuple[range, Ids | None]]:
        """Blocks with the entities in which they have more than a negligible share.

        One pass with a single column per block finds them.
        """
        size = self.between_others.shape[0]
        blocks = list(column_blocks(size, self.num_parts, torch.float32))
        columns = block_of_part(blocks)[self.from_anchors.indices]
        by_block = csr_array(
            (self.from_anchors.data, columns, self.from_anchors.indptr), shape=(size, len(blocks) + 1)
        )
        # Entities that nothing has reached yet may still join any part.
        not_reached_yet = (self._region_total == 0) & (self._total > 0)
        for group in column_blocks(size, len(blocks), torch.float32, WIDE):
            from_anchors = by_block[:, group.start : group.stop].toarray()
            arrived = self._arrived_after(self._region_hop, self._whole_graph, from_anchors)
            share = arrived.div_(self._region_total)
            inside = ((share >= LEAST_SHARE) | not_reached_yet).T.contiguous().cpu().numpy()
            for number, concerned in zip(group, inside, strict=True):
                yield blocks[number], region_rows(concerned)

    def scores(self, block: range, rows: Ids | None) -> torch.Tensor:
        from_anchors, matrix, total = self.from_anchors, self._whole_graph, self._total
        if rows is not None:
            from_anchors = from_anchors[rows]
            matrix = sparse_tensor(submatrix(self.between_others, rows), torch.float32, self.device)
            total = total[torch.from_numpy(rows.astype(np.int64)).to(self.device)]
        arrived = self._arrived_after(HOPS - 1, matrix, from_anchors[:, block.start : block.stop].toarray())
        share = arrived.div_(total)
        return share.masked_fill_(~(share > 0), EXCLUDED)

    def _arrived_after(self, hop: int, matrix: torch.Tensor, from_anchors: np.ndarray) -> torch.Tensor:
        return next(islice(self._propagate(matrix, from_anchors), hop, None))

    def _propagate(self, matrix: torch.Tensor, from_anchors: np.ndarray) -> Iterator[torch.Tensor]:
        """What has arrived after each hop; `from_anchors` is what arrives in the first."""
        first = state = torch.from_numpy(from_anchors).to(self.device)
        yield state
        for _ in range(HOPS - 1):
            state = torch.addmm(first, matrix, state)
            yield state


def _split_by_anchors(
    hop_matrix: csr_array, anchors: Ids, part_of_anchor: Ids, num_parts: int
) -> tuple[csr_array, csr_array]:
    """What anchors pass to each entity, by part, and what the other entities pass to each other."""
    size = hop_matrix.shape[0]
    part_of = np.full(size, -1, dtype=np.int32)
    part_of[anchors] = np.where(part_of_anchor < 0, num_parts, part_of_anchor)

    def split(rows: slice) -> tuple[csr_array, csr_array]:
        block = hop_matrix[rows]
        receives = np.repeat(part_of[rows] < 0, np.diff(block.indptr))
        sender = part_of.take(block.indices)
        return (
            filtered(block, receives & (sender >= 0), sender, num_parts + 1),
            filtered(block, receives & (sender < 0), block.indices, size),
        )

    from_anchors, between_others = zip(*in_parallel(split, row_blocks(size)), strict=True)
    known = np.flatnonzero(part_of >= 0)
    own = csr_array((np.ones(len(known), np.float32), (known, part_of[known])), shape=(size, num_parts + 1))
    return vstack(from_anchors, format="csr") + own, vstack(between_others, format="csr")


def _first_hop_that_reaches_nearly_all(totals: list[torch.Tensor]) -> int:
    reached = [int((total > 0).sum()) for total in totals]
    return next(hop for hop, count in enumerate(reached) if count >= NEARLY_ALL * reached[-1])


class HopLocality(Locality):
    """Minus the number of hops from the nearest anchor of the part: the paper's W_loc (Eq. 2)."""

    def __init__(
        self, hop_matrix: csr_array, anchors: Ids, part_of_anchor: Ids, num_parts: int, device: str = "cpu"
    ):
        self.anchors, self.part_of_anchor = anchors, part_of_anchor
        self.num_parts, self.device = num_parts, device
        self.adjacency = hop_matrix
        self._matrix = sparse_tensor(hop_matrix, torch.float32, device)

    @staticmethod
    def hop_matrix(adjacency: csr_array) -> csr_array:
        """The adjacency itself: a hop may take any edge."""
        return adjacency

    def regions(self) -> Iterator[tuple[range, Ids | None]]:
        """The whole graph for every block."""
        for block in column_blocks(self.adjacency.shape[0], self.num_parts, torch.float32):
            yield block, None

    def scores(self, block: range, rows: Ids | None) -> torch.Tensor:
        frontier = indicator(
            self.adjacency.shape[0], self.anchors, self.part_of_anchor, block, torch.float32, self.device
        )
        scores = torch.full_like(frontier, EXCLUDED).masked_fill_(frontier > 0, 0.0)
        for hop in range(1, MOST_PRODUCTS + 1):
            if not bool(frontier.any()):
                return scores
            reached = (self._neighbours_of(frontier) > 0) & (scores == EXCLUDED)
            scores.masked_fill_(reached, -float(hop))
            frontier = reached.to(torch.float32)
        return self._scores_of_long_paths(block)

    def _neighbours_of(self, frontier: torch.Tensor) -> torch.Tensor:
        return self._matrix @ frontier

    def _scores_of_long_paths(self, block: range) -> torch.Tensor:
        """The same scores by one search per part, whose time does not depend on the number of hops."""
        scores = np.full((len(block), self.adjacency.shape[0]), EXCLUDED, dtype=np.float32)
        for own, part in zip(scores, block, strict=True):
            anchors = self.anchors[self.part_of_anchor == part]
            if len(anchors):
                own[:] = -dijkstra(self.adjacency, indices=anchors, unweighted=True, min_only=True)
        return torch.from_numpy(scores.T.copy()).to(self.device)


LOCALITIES: dict[str, type[Locality]] = {"propagate": PropagatedLocality, "bfs": HopLocality}
"""The localities by their name in the setting `division.locality`."""
