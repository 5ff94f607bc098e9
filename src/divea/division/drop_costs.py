"""Drop costs of entities for every part, each in the region of the graph that matters to the part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import COARSE, by_part, column_blocks, cut_out, positions, region
from divea.division.evidence import EvidenceModel, EvidenceSettings, Flow, exact_costs
from divea.graphs.labels import Ids

POOL = 4
"""A region, and the start of `rounds`, holds this many times the entities that are to be chosen."""

Costs = Iterator[tuple[int, Ids | None, np.ndarray, Flow]]
"""Part by part: the region (None for the whole graph); in it, drop costs and the whole graph's flow."""


def drop_costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    counts: Sequence[int],
    settings: EvidenceSettings,
) -> Costs:
    """The cost of dropping each entity, for every part in turn; see `pick_contexts` for the arguments."""
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
) -> Costs:
    """One flow for all parts, and a region for each block of them.

    What an entity is worth to a block is the sum of what it is worth to its parts, so an entity that
    is worth little to the block is not picked for any of them.
    """
    size, dtype = adjacency.shape[0], model.adjacency.dtype
    flow = model.flow(model.column(anchors))
    whole = Flow(flow.training[-1:], flow.inference[-1:])
    blocks = list(column_blocks(size, len(wanted), dtype))
    members = [np.concatenate([wanted[part] for part in block]) for block in blocks]
    for group in column_blocks(size, len(blocks), dtype, COARSE):
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
            inside = whole if settings.method == "first_order" else whole.at(rows)
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
    inside = flow.at(rows)
    small = settings.model(cut_out(adjacency, rows), model.adjacency.dtype)
    return small.first_order(small.columns([positions(rows, ids) for ids in goals]), inside)


def _own_costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    settings: EvidenceSettings,
    model: EvidenceModel,
) -> Costs:
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
        goals = small.columns([positions(rows, wanted[part]) for part in block])
        flow = small.flow(small.columns([positions(rows, anchors[part]) for part in block]))
        if settings.method == "exact":
            starts = flow.training[0]
            each = [exact_costs(small, starts[:, [c]], goals[:, [c]]) for c in range(len(block))]
            costs = torch.cat(each, dim=1)
        else:
            costs = small.first_order(goals, flow)
        for column, own in enumerate(by_part(costs)):
            whole = Flow([flow.training[-1][:, [column]]], [flow.inference[-1][:, [column]]])
            yield block[column], rows, own, whole
