"""Context graphs: the entities around a part that carry most of the evidence to it (Eq. 10).

Three methods choose them. `first_order` ranks entities by the estimated drop cost and `exact` by the paper's.
`rounds` drops the least useful entities a few at a time and estimates the costs again in between, so that of
two entities that can replace each other one is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.config import EvidenceSettings
from divea.division.blocks import rows_by_part, submatrix
from divea.division.drop_costs import DropCosts
from divea.division.evidence import EvidenceModel, Flow
from divea.division.parallel import in_parallel
from divea.division.selection import EXCLUDED, highest, highest_with_few_anchors
from divea.graphs.ids import marked, positions
from divea.types import Ids

ROUNDS = 10
"""The number of rounds in which `rounds` drops entities."""

POOL = 4
"""`rounds` starts from this many times as many entities as are to be chosen."""


@dataclass(frozen=True)
class Elimination:
    """One part's graph, reduced to the entities that may be in its context; ids are positions in `kept`."""

    model: EvidenceModel
    kept: Ids
    anchors: torch.Tensor
    receivers: torch.Tensor
    fixed: torch.Tensor
    """Entities that are never dropped."""
    whole: Flow
    is_anchor: np.ndarray
    ties: np.ndarray

    @classmethod
    def of(
        cls,
        adjacency: csr_array,
        kept: Ids,
        *,
        receivers: Ids,
        anchors: Ids,
        fixed: Ids,
        whole: Flow,
        ties: np.ndarray,
        settings: EvidenceSettings,
        device: str,
    ) -> Elimination:
        model = EvidenceModel.over(submatrix(adjacency, kept), settings, torch.float64, device)
        inside = positions(kept, np.intersect1d(anchors, kept))
        return cls(
            model,
            kept,
            model.column(inside),
            model.column(positions(kept, receivers)),
            model.column(positions(kept, fixed)),
            whole,
            marked(inside, len(kept)),
            ties[kept],
        )

    def eliminate(self, count: int, anchor_limit: int) -> Ids:
        """Reduce the pool to `count` entities; the costs are estimated again after every round."""
        present = torch.ones_like(self.receivers)
        pool = len(self.kept) - int(self.fixed.sum())
        chosen = np.zeros(0, dtype=np.intp)
        for number in range(1, ROUNDS + 1):
            # The pool shrinks by the same factor in every round.
            left = round(pool * (min(count, pool) / max(pool, 1)) ** (number / ROUNDS))
            flow = self.model.flow(self.anchors, self.whole, present)
            costs = self.model.first_order_drop_costs(self.receivers, flow, self.whole, present)
            costs.masked_fill_((present == 0) | (self.fixed > 0), EXCLUDED)
            limit = anchor_limit if number == ROUNDS else left
            chosen = highest_with_few_anchors(rows_by_part(costs)[0], left, self.is_anchor, limit, self.ties)
            present.copy_(self.fixed)
            present[torch.from_numpy(chosen).to(present.device)] = 1
        return self.kept[chosen]


def pick_contexts(
    adjacency: csr_array,
    receivers: Sequence[Ids],
    anchors: Sequence[Ids] | Ids,
    counts: Sequence[int],
    ties: np.ndarray,
    settings: EvidenceSettings,
    *,
    barred: Ids | None = None,
    anchor_limits: Sequence[int] | None = None,
    device: str = "cpu",
) -> Iterator[Ids]:
    """For every part, the entities that carry most evidence to its receivers, best first.

    Parameters
    ----------
    receivers
        For every part, the entities that the evidence is for; they are never picked.
    anchors
        A list with one array per part, or one array that all parts share (the source side).
    counts
        For every part, the most entities to pick; entities that carry no evidence are never picked.
    ties
        One number per entity; among entities with equal costs, the lower number wins.
    barred
        Entities that are never picked. Barred anchors still pass evidence, because they are in the subtask
        already.
    anchor_limits
        For every part, the most anchors to pick.
    """
    size = adjacency.shape[0]
    is_barred = marked(np.zeros(0, dtype=np.int32) if barred is None else barred, size)
    limits = counts if anchor_limits is None else anchor_limits
    drop_costs = DropCosts.of(adjacency, receivers, anchors, settings, device)

    shared_anchors = anchors if isinstance(anchors, np.ndarray) else None
    is_shared_anchor = None if shared_anchors is None else marked(shared_anchors, size)

    def pick(parts: range) -> list[Ids]:
        block = drop_costs.of_block(parts)
        ids = np.arange(size, dtype=np.int32) if block.rows is None else block.rows
        is_pickable = ~is_barred[ids]
        picked = []
        for number, part in enumerate(parts):
            costs = np.where(is_pickable & (block.costs[number] > 0), block.costs[number], EXCLUDED)
            costs[positions(block.rows, receivers[part])] = EXCLUDED
            if settings.method == "rounds":
                own_anchors = anchors[part] if shared_anchors is None else shared_anchors
                fixed = np.union1d(receivers[part], own_anchors[is_barred[own_anchors]])
                pool = ids[highest(costs, POOL * counts[part], ties[ids])]
                kept = np.union1d(fixed, pool).astype(np.int32)
                elimination = Elimination.of(
                    adjacency,
                    kept,
                    receivers=receivers[part],
                    anchors=own_anchors,
                    fixed=fixed,
                    whole=block.flows[number].at(positions(block.rows, kept)),
                    ties=ties,
                    settings=settings,
                    device=device,
                )
                picked.append(elimination.eliminate(counts[part], limits[part]))
            else:
                is_anchor = marked(anchors[part], size) if is_shared_anchor is None else is_shared_anchor
                chosen = highest_with_few_anchors(
                    costs, counts[part], is_anchor[ids], limits[part], ties[ids]
                )
                picked.append(ids[chosen])
        return picked

    for picked in in_parallel(pick, drop_costs.blocks()):
        yield from picked


def connect_candidates(
    adjacency: csr_array,
    ranked: Sequence[Ids],
    anchors: Sequence[Ids],
    share: float,
    ties: np.ndarray,
    settings: EvidenceSettings,
    *,
    barred: Ids,
    device: str = "cpu",
) -> list[tuple[Ids, Ids]]:
    """Candidates and connecting entities of every part's target side.

    Parameters
    ----------
    ranked
        For every part, its candidates, best first: as many as fit beside the anchors.
    share
        The share of the target side that connecting entities take, at the expense of the lowest-ranked
        candidates. Places that they do not use return to the candidates.
    barred
        Entities that cannot connect: the anchors of all parts.
    """
    counts = [
        min(int(share * (len(order) + len(fixed))), len(order) // 2)
        for order, fixed in zip(ranked, anchors, strict=True)
    ]
    if not any(counts):
        return [(order, order[:0]) for order in ranked]
    certain = [order[: len(order) - count] for order, count in zip(ranked, counts, strict=True)]
    picked = pick_contexts(adjacency, certain, anchors, counts, ties, settings, barred=barred, device=device)
    sides = []
    for order, sure, connecting in zip(ranked, certain, picked, strict=True):
        rest = order[len(sure) :]
        rest = rest[~np.isin(rest, connecting)][: len(rest) - len(connecting)]
        sides.append((np.concatenate([sure, rest]), connecting))
    return sides
