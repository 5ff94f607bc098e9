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

from divea.division.columns import NEVER, best, by_part, column_blocks, cut_out, region
from divea.division.evidence import EvidenceModel, Flow, exact_costs
from divea.errors import InputError
from divea.graphs.labels import Ids

METHODS = ("first_order", "rounds", "exact")
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
    size = adjacency.shape[0]
    shared = _marked(anchors[0], size) if len(anchors) == 1 else None
    never = _marked(np.zeros(0, dtype=np.int32) if barred is None else barred, size)
    for part, rows, costs, whole in _costs(adjacency, wanted, anchors, counts, settings):
        own = anchors[part % len(anchors)]
        ids = np.arange(size, dtype=np.int32) if rows is None else rows
        costs[(costs <= 0) | never[ids]] = NEVER
        costs[_positions_in(rows, wanted[part])] = NEVER
        limit = counts[part] if anchor_limits is None else anchor_limits[part]
        if settings.method != "rounds":
            is_anchor = (_marked(own, size) if shared is None else shared)[ids]
            yield ids[_best(costs, counts[part], is_anchor, limit, draw[ids])]
        else:
            pool = ids[best(costs, POOL * counts[part], draw[ids])]
            # Anchors of the part's own are in the context whatever happens; shared ones compete.
            stay = wanted[part] if len(anchors) == 1 else np.union1d(wanted[part], own)
            kept = np.union1d(stay, pool).astype(np.int32)
            inside = _rows_of_flow(whole, _positions_in(rows, kept))
            small = _Small.cut(adjacency, kept, wanted[part], own, stay, inside, draw, settings)
            yield small.eliminate(counts[part], limit)


def _marked(ids: Ids, size: int) -> np.ndarray:
    marks = np.zeros(size, dtype=bool)
    marks[ids] = True
    return marks


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


_Costs = Iterator[tuple[int, Ids | None, np.ndarray, Flow]]
"""Part by part: the region (None for the whole graph); in it, drop costs and the whole graph's flow."""


def _costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    counts: Sequence[int],
    settings: EvidenceSettings,
) -> _Costs:
    dtype = torch.float32 if settings.method == "first_order" else torch.float64
    model = settings.model(adjacency, dtype)
    if len(anchors) == 1:
        return _shared_costs(adjacency, wanted, anchors[0], counts, settings, model)
    return _own_costs(adjacency, wanted, anchors, settings, model)


def _shared_costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Ids,
    counts: Sequence[int],
    settings: EvidenceSettings,
    model: EvidenceModel,
) -> _Costs:
    """One flow for all parts, and a region for each block of them.

    What an entity is worth to a block is the sum of what it is worth to its parts, so an entity that
    is worth little to the block is not picked for any of them.
    """
    size, dtype = adjacency.shape[0], model.adjacency.dtype
    flow = model.flow(model.column(anchors))
    whole = Flow(flow.training[-1:], flow.inference[-1:])
    blocks = list(column_blocks(size, len(wanted), dtype))
    members = [np.concatenate([wanted[part] for part in block]) for block in blocks]
    for group in column_blocks(size, len(blocks), dtype):
        worth = model.first_order(model.columns([members[number] for number in group]), flow)
        for column, number in enumerate(group):
            block = blocks[number]
            goals = [wanted[part] for part in block]
            if settings.method == "exact":
                rows, costs = None, exact_costs(model, flow.training[0], model.columns(goals))
            else:
                pool = POOL * sum(counts[part] for part in block)
                rows = region(_highest(worth[:, column], pool, members[number]))
                costs = _region_costs(adjacency, rows, goals, flow, settings, model)
            inside = whole if settings.method == "first_order" else _rows_of_flow(whole, rows)
            for part, own in zip(block, by_part(costs), strict=True):
                yield part, rows, own, inside


def _highest(worth: torch.Tensor, count: int, members: Ids) -> torch.Tensor:
    """Marks the `count` rows of highest worth, and the members."""
    least = torch.topk(worth, min(count, len(worth))).values[-1] if count > 0 else torch.inf
    matters = (worth >= least) & (worth > 0)
    matters[torch.from_numpy(members.astype(np.int64)).to(worth.device)] = True
    return matters


def _region_costs(
    adjacency: csr_array,
    rows: Ids | None,
    goals: list[Ids],
    flow: Flow,
    settings: EvidenceSettings,
    model: EvidenceModel,
) -> torch.Tensor:
    if rows is None:
        return model.first_order(model.columns(goals), flow)
    inside = _rows_of_flow(flow, rows)
    small = settings.model(cut_out(adjacency, rows), model.adjacency.dtype)
    return small.first_order(small.columns([_positions(rows, ids) for ids in goals]), inside)


def _rows_of_flow(flow: Flow, rows: Ids | None) -> Flow:
    if rows is None:
        return flow
    at = torch.from_numpy(rows.astype(np.int64)).to(flow.training[0].device)
    return Flow([layer[at] for layer in flow.training], [layer[at] for layer in flow.inference])


def _own_costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    settings: EvidenceSettings,
    model: EvidenceModel,
) -> _Costs:
    """A flow for every part, from its own anchors, in the region one hop around it.

    That is where the paper's code looks for connecting entities too: one that touches neither an
    anchor nor a candidate would need others to connect it.
    """
    size, dtype = model.adjacency.shape[0], model.adjacency.dtype
    for block in column_blocks(size, len(wanted), dtype):
        parts = [np.union1d(wanted[part], anchors[part]) for part in block]
        middle = model.column(np.concatenate(parts))
        rows = region(((middle + model.adjacency @ middle) > 0).ravel())
        small = model if rows is None else settings.model(cut_out(adjacency, rows), dtype)
        goals = small.columns([_positions_in(rows, wanted[part]) for part in block])
        flow = small.flow(small.columns([_positions_in(rows, anchors[part]) for part in block]))
        if settings.method == "exact":
            starts = flow.training[0]
            each = [exact_costs(small, starts[:, [c]], goals[:, [c]]) for c in range(len(block))]
            costs = torch.cat(each, dim=1)
        else:
            costs = small.first_order(goals, flow)
        for column, own in enumerate(by_part(costs)):
            whole = Flow([flow.training[-1][:, [column]]], [flow.inference[-1][:, [column]]])
            yield block[column], rows, own, whole


def _positions_in(rows: Ids | None, ids: Ids) -> Ids:
    return ids if rows is None else _positions(rows, ids)


def _best(costs: np.ndarray, count: int, is_anchor: np.ndarray, limit: int, draw: np.ndarray) -> np.ndarray:
    """Positions of the `count` highest costs, with no more than `limit` anchors among them."""
    chosen = best(costs, count, draw)
    among = chosen[is_anchor[chosen]]
    if len(among) > limit:
        surplus = is_anchor.copy()
        surplus[among[:limit]] = False
        chosen = best(np.where(surplus, NEVER, costs), count, draw)
    return chosen


@dataclass(frozen=True)
class _Small:
    """One part's graph cut down to what may be in its context, with positions for ids."""

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
    ) -> _Small:
        model = settings.model(cut_out(adjacency, kept), torch.float64)
        inside = _positions(kept, np.intersect1d(anchors, kept))
        return cls(
            model,
            kept,
            model.column(inside),
            model.column(_positions(kept, wanted)),
            model.column(_positions(kept, stay)),
            whole,
            _marked(inside, len(kept)),
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
            chosen = _best(by_part(costs)[0], left, self.is_anchor, limit, self.draw)
            present.copy_(self.stay)
            present[torch.from_numpy(chosen).to(present.device)] = 1
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
        flow = model.flow(model.column(anchors))
        return cls(adjacency, anchors, settings, Flow(flow.training[-1:], flow.inference[-1:]))

    def evidence(self, context: Ids, wanted: Ids, anchors: Ids | None = None) -> np.ndarray:
        """What arrives at each of `wanted` through the graph between the `context` entities, 0 to 1.

        1 is what arrives through the whole graph. `anchors` are those that count inside, by default
        all that are there.
        """
        kept = np.sort(context)
        model = self.settings.model(cut_out(self.adjacency, kept), torch.float64)
        whole = _rows_of_flow(self.whole, kept)
        is_anchor = np.zeros(self.adjacency.shape[0], dtype=bool)
        is_anchor[self.anchors if anchors is None else anchors] = True
        inside = np.flatnonzero(is_anchor[kept]).astype(np.int32)
        flow = model.flow(model.column(inside), whole)
        received = model.received(flow, whole).ravel().cpu().numpy()
        return received[_positions(kept, wanted)] / model.full

    def informativeness(self, context: Ids, wanted: Ids, anchors: Ids | None = None) -> float:
        """Mean evidence at the `wanted` entities that the whole graph reaches at all (Eq. 9, as a share)."""
        reached = int((self.whole.inference[-1].ravel().cpu().numpy()[wanted] > 0).sum())
        return float(self.evidence(context, wanted, anchors).sum() / reached) if reached else 0.0
