"""Chooses a context in rounds: drop the least useful entities, estimate the costs anew, drop again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import NEVER, best, by_part, cut_out, positions
from divea.division.evidence import EvidenceModel, EvidenceSettings, Flow
from divea.graphs.labels import Ids

ROUNDS = 10


@dataclass(frozen=True)
class Elimination:
    """One part's graph cut down to what may be in its context; ids are positions in `kept`."""

    model: EvidenceModel
    kept: Ids
    start: torch.Tensor
    goal: torch.Tensor
    stay: torch.Tensor
    whole: Flow
    is_anchor: np.ndarray
    draw: np.ndarray

    @classmethod
    def cut(
        cls,
        adjacency: csr_array,
        kept: Ids,
        wanted: Ids,
        anchors: Ids,
        stay: Ids,
        whole: Flow,
        draw: np.ndarray,
        settings: EvidenceSettings,
    ) -> Elimination:
        model = settings.model(cut_out(adjacency, kept), torch.float64)
        inside = positions(kept, np.intersect1d(anchors, kept))
        return cls(
            model,
            kept,
            model.column(inside),
            model.column(positions(kept, wanted)),
            model.column(positions(kept, stay)),
            whole,
            marked(inside, len(kept)),
            draw[kept],
        )

    def eliminate(self, count: int, anchor_limit: int) -> Ids:
        """Drop the pool to `count` entities in rounds, estimating the costs anew after each."""
        present = torch.ones_like(self.goal)
        pool = len(self.kept) - int(self.stay.sum())
        chosen = np.zeros(0, dtype=np.int64)
        for step in range(1, ROUNDS + 1):
            left = round(pool * (min(count, pool) / max(pool, 1)) ** (step / ROUNDS))
            flow = self.model.flow(self.start, self.whole, present)
            costs = self.model.first_order(self.goal, flow, self.whole, present)
            costs.masked_fill_((present == 0) | (self.stay > 0), NEVER)
            limit = anchor_limit if step == ROUNDS else left
            chosen = best_few_anchors(by_part(costs)[0], left, self.is_anchor, limit, self.draw)
            present.copy_(self.stay)
            present[torch.from_numpy(chosen).to(present.device)] = 1
        return self.kept[chosen]


def best_few_anchors(
    costs: np.ndarray, count: int, is_anchor: np.ndarray, limit: int, draw: np.ndarray
) -> np.ndarray:
    """Positions of the `count` highest costs, with no more than `limit` anchors among them."""
    chosen = best(costs, count, draw)
    among = chosen[is_anchor[chosen]]
    if len(among) > limit:
        surplus = is_anchor.copy()
        surplus[among[:limit]] = False
        chosen = best(np.where(surplus, NEVER, costs), count, draw)
    return chosen


def marked(ids: Ids, size: int) -> np.ndarray:
    """True at these ids."""
    marks = np.zeros(size, dtype=bool)
    marks[ids] = True
    return marks
