"""Context graphs: the entities around a part that carry most of the evidence to it (Eq. 10).

Three ways to choose them: `first_order` ranks by the estimated drop cost, `exact` by the paper's,
and `rounds` removes the least useful entities a few at a time and estimates anew in between, so
that of two entities which stand in for each other one is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import best, column_blocks
from divea.division.evidence import EvidenceModel, Flow, exact_costs
from divea.errors import InputError
from divea.graphs.labels import Ids

METHODS = ("first_order", "rounds", "exact")
NEVER = -torch.inf
ROUNDS = 10
POOL = 4
"""`rounds` starts from this many times the entities that it will keep."""


@dataclass(frozen=True)
class EvidenceSettings:
    """The evidence model's parameters, and how contexts are chosen by it."""

    method: str = "first_order"
    strength: float = 2.0
    layers: int = 2
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise InputError(f"unknown evidence method {self.method!r}; choose from {', '.join(METHODS)}")

    def model(self, adjacency: csr_array, dtype: torch.dtype) -> EvidenceModel:
        return EvidenceModel.over(
            adjacency, strength=self.strength, layers=self.layers, dtype=dtype, device=self.device
        )


def pick_contexts(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    counts: Sequence[int],
    draw: np.ndarray,
    settings: EvidenceSettings,
    *,
    barred: Ids | None = None,
    anchor_limits: Sequence[int] | None = None,
) -> Iterator[Ids]:
    """For every part, at most `counts[part]` entities that carry evidence to `wanted[part]`, best first.

    `anchors` is one array for each part, or a single one that all parts share (the source side).
    Nothing in `wanted[part]` or `barred` is picked, no more anchors than `anchor_limits[part]`, and
    nothing that carries no evidence. Equal costs are decided by the lower `draw`.
    """
    ties = torch.from_numpy(draw).to(settings.device)
    for part, costs, whole in _costs(adjacency, wanted, anchors, settings):
        own = anchors[part % len(anchors)]
        costs.masked_fill_(costs <= 0, NEVER)
        for never in (wanted[part], barred):
            if never is not None:
                costs[torch.from_numpy(never.astype(np.int64))] = NEVER
        limit = counts[part] if anchor_limits is None else anchor_limits[part]
        if settings.method != "rounds":
            yield _best(costs, counts[part], own, limit, ties)
        else:
            pool = best(costs, POOL * counts[part], ties).cpu().numpy().astype(np.int32)
            # Anchors of the part's own are in the context whatever happens; shared ones compete.
            stay = wanted[part] if len(anchors) == 1 else np.union1d(wanted[part], own)
            small = _Small.cut(adjacency, wanted[part], own, stay, pool, whole, draw, settings)
            yield small.eliminate(counts[part], limit)


def connect(
    adjacency: csr_array,
    ranked: Sequence[Ids],
    anchors: Sequence[Ids],
    share: float,
    draw: np.ndarray,
    settings: EvidenceSettings,
    *,
    barred: Ids,
) -> list[tuple[Ids, Ids]]:
    """Candidates and connecting entities of every part's target side.

    `ranked` are a part's candidates, best first, as many as there is room for beside its anchors;
    connecting entities take `share` of the whole side from the tail of them. Places that no
    connecting entity is worth stay with the candidates.
    """
    counts = [
        min(int(share * (len(order) + len(fixed))), len(order) // 2)
        for order, fixed in zip(ranked, anchors, strict=True)
    ]
    if not any(counts):
        return [(order, order[:0]) for order in ranked]
    first = [order[: len(order) - count] for order, count in zip(ranked, counts, strict=True)]
    picked = pick_contexts(adjacency, first, anchors, counts, draw, settings, barred=barred)
    sides = []
    for order, sure, connecting in zip(ranked, first, picked, strict=True):
        rest = order[len(sure) :]
        rest = rest[~np.isin(rest, connecting)][: len(rest) - len(connecting)]
        sides.append((np.concatenate([sure, rest]), connecting))
    return sides


def _costs(
    adjacency: csr_array, wanted: Sequence[Ids], anchors: Sequence[Ids], settings: EvidenceSettings
) -> Iterator[tuple[int, torch.Tensor, Flow]]:
    """Part by part: the drop costs, and the whole graph's flow that they are measured against."""
    dtype = torch.float32 if settings.method == "first_order" else torch.float64
    model = settings.model(adjacency, dtype)
    shared = len(anchors) == 1
    flow = model.flow(model.columns(anchors)) if shared else None
    for block in column_blocks(adjacency.shape[0], len(wanted), dtype):
        goals = model.columns([wanted[part] for part in block])
        if flow is None or not shared:
            flow = model.flow(model.columns([anchors[part] for part in block]))
        if settings.method != "exact":
            costs = model.first_order(goals, flow)
        elif shared:
            costs = exact_costs(model, flow.training[0], goals)
        else:
            starts = flow.training[0]
            each = [exact_costs(model, starts[:, [c]], goals[:, [c]]) for c in range(len(block))]
            costs = torch.cat(each, dim=1)
        for column, part in enumerate(block):
            at = 0 if shared else column
            whole = Flow([flow.training[-1][:, [at]]], [flow.inference[-1][:, [at]]])
            yield part, costs[:, column].contiguous(), whole


def _best(costs: torch.Tensor, count: int, anchors: Ids, limit: int, ties: torch.Tensor) -> Ids:
    """The `count` costliest, with no more than `limit` anchors among them."""
    chosen = best(costs, count, ties)
    if limit < count:
        is_anchor = torch.zeros(len(costs), dtype=torch.bool, device=costs.device)
        is_anchor[torch.from_numpy(anchors.astype(np.int64))] = True
        among = chosen[is_anchor[chosen]]
        if len(among) > limit:
            is_anchor[among[:limit]] = False
            chosen = best(costs.masked_fill(is_anchor, NEVER), count, ties)
    return chosen.cpu().numpy().astype(np.int32)


@dataclass(frozen=True)
class _Small:
    """One part's graph cut down to what may be in its context, with positions for ids."""

    model: EvidenceModel
    kept: Ids
    start: torch.Tensor
    goal: torch.Tensor
    stay: torch.Tensor
    whole: Flow
    anchors: Ids
    ties: torch.Tensor

    @classmethod
    def cut(
        cls,
        adjacency: csr_array,
        wanted: Ids,
        anchors: Ids,
        stay: Ids,
        pool: Ids,
        whole: Flow,
        draw: np.ndarray,
        settings: EvidenceSettings,
    ) -> _Small:
        kept = np.union1d(stay, pool).astype(np.int32)
        model = settings.model(adjacency[kept][:, kept], torch.float64)
        rows = torch.from_numpy(kept.astype(np.int64)).to(settings.device)
        inside = _positions(kept, np.intersect1d(anchors, kept))
        return cls(
            model,
            kept,
            model.column(inside),
            model.column(_positions(kept, wanted)),
            model.column(_positions(kept, stay)),
            Flow([whole.training[-1][rows]], [whole.inference[-1][rows]]),
            inside,
            torch.from_numpy(draw[kept]).to(settings.device),
        )

    def eliminate(self, count: int, anchor_limit: int) -> Ids:
        """Drop the pool to `count` entities in rounds, estimating the costs anew after each."""
        present = torch.ones_like(self.goal)
        pool = len(self.kept) - int(self.stay.sum())
        chosen = np.zeros(0, dtype=np.int32)
        for step in range(1, ROUNDS + 1):
            left = round(pool * (min(count, pool) / max(pool, 1)) ** (step / ROUNDS))
            flow = self.model.flow(self.start, self.whole, present)
            costs = self.model.first_order(self.goal, flow, self.whole, present)
            costs.masked_fill_((present == 0) | (self.stay > 0), NEVER)
            limit = anchor_limit if step == ROUNDS else left
            chosen = _best(costs.ravel(), left, self.anchors, limit, self.ties)
            present.copy_(self.stay)
            present[torch.from_numpy(chosen.astype(np.int64))] = 1
        return self.kept[chosen]


def _positions(kept: Ids, ids: Ids) -> Ids:
    return np.searchsorted(kept, ids).astype(np.int32)


@dataclass(frozen=True)
class Yardstick:
    """Measures how much of the whole graph's evidence a context graph still carries."""

    adjacency: csr_array
    anchors: Ids
    settings: EvidenceSettings
    whole: Flow

    @classmethod
    def of(cls, adjacency: csr_array, anchors: Ids, settings: EvidenceSettings) -> Yardstick:
        """One flow over the whole graph, in double precision."""
        model = settings.model(adjacency, torch.float64)
        return cls(adjacency, anchors, settings, model.flow(model.column(anchors)))

    def evidence(self, context: Ids, wanted: Ids, anchors: Ids | None = None) -> np.ndarray:
        """What arrives at each of `wanted` through the graph between the `context` entities, 0 to 1.

        1 is what arrives through the whole graph. `anchors` are those that count inside, by default
        all that are there.
        """
        kept = np.sort(context)
        model = self.settings.model(self.adjacency[kept][:, kept], torch.float64)
        rows = torch.from_numpy(kept.astype(np.int64)).to(self.settings.device)
        whole = Flow([self.whole.training[-1][rows]], [self.whole.inference[-1][rows]])
        inside = np.intersect1d(self.anchors if anchors is None else anchors, kept)
        flow = model.flow(model.column(_positions(kept, inside)), whole)
        received = model.received(flow, whole).ravel().cpu().numpy()
        return received[_positions(kept, wanted)] / model.full

    def informativeness(self, context: Ids, wanted: Ids) -> float:
        """Mean evidence at the `wanted` entities that the whole graph reaches at all (Eq. 9, as a share)."""
        reached = int((self.whole.inference[-1].ravel().cpu().numpy()[wanted] > 0).sum())
        return float(self.evidence(context, wanted).sum() / reached) if reached else 0.0
