"""Drop costs of entities for every part, each in the region of the graph that matters to the part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import by_part, column_blocks, cut_out, positions, region
from divea.division.evidence import EvidenceModel, EvidenceSettings, Flow, exact_costs
from divea.graphs.labels import Ids

Costs = Iterator[tuple[int, Ids | None, np.ndarray, Flow]]
"""Part by part: the region (None for the whole graph); in it, drop costs and the whole graph's flow."""


def drop_costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Sequence[Ids],
    settings: EvidenceSettings,
) -> Costs:
    """The cost of dropping each entity, for every part in turn; see `pick_contexts` for the arguments."""
    dtype = torch.float32 if settings.method == "first_order" else torch.float64
    model = settings.model(adjacency, dtype)
    if len(anchors) == 1:
        return _shared_costs(adjacency, wanted, anchors[0], settings, model)
    return _own_costs(adjacency, wanted, anchors, settings, model)


def _shared_costs(
    adjacency: csr_array,
    wanted: Sequence[Ids],
    anchors: Ids,
    settings: EvidenceSettings,
    model: EvidenceModel,
) -> Costs:
    """One flow for all parts, and a region for each block of them."""
    size, dtype = adjacency.shape[0], model.adjacency.dtype
    flow = model.flow(model.column(anchors))
    whole = Flow(flow.training[-1:], flow.inference[-1:])
    for block in column_blocks(size, len(wanted), dtype):
        goals = [wanted[part] for part in block]
        if settings.method == "exact":
            rows, costs = None, exact_costs(model, flow.training[0], model.columns(goals))
        else:
            rows = _around(adjacency, np.concatenate(goals))
            costs = _region_costs(adjacency, rows, goals, flow, settings, model)
        inside = whole if settings.method == "first_order" else whole.at(rows)
        for part, own in zip(block, by_part(costs), strict=True):
            yield part, rows, own, inside


def _around(adjacency: csr_array, members: Ids) -> Ids | None:
    """The members and whatever touches them.

    That is where the paper's code looks for connecting entities too: one that touches none of
    those it is for would need others to connect it.
    """
    near = np.zeros(adjacency.shape[0], dtype=bool)
    near[members] = True
    near[adjacency[members].indices] = True
    return region(near)


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
    """A flow for every part, from its own anchors, in a region for each block of them."""
    size, dtype = model.adjacency.shape[0], model.adjacency.dtype
    for block in column_blocks(size, len(wanted), dtype):
        rows = _around(adjacency, np.concatenate([ids for p in block for ids in (wanted[p], anchors[p])]))
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
