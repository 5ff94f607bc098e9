"""Drop costs of entities for every part, each in the region of the graph that matters to the part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import by_part, column_blocks, cut_out, positions, region
from divea.division.evidence import EvidenceModel, EvidenceSettings, Flow, exact_costs
from divea.graphs.labels import Ids


@dataclass(frozen=True)
class DropCosts:
    """The cost of dropping each entity, for every part; see `pick_contexts` for the fields."""

    adjacency: csr_array
    wanted: Sequence[Ids]
    anchors: Sequence[Ids]
    settings: EvidenceSettings
    model: EvidenceModel
    flow: Flow | None
    """Where all parts share their anchors, one flow for all."""

    @classmethod
    def of(
        cls, adjacency: csr_array, wanted: Sequence[Ids], anchors: Sequence[Ids], settings: EvidenceSettings
    ) -> DropCosts:
        dtype = torch.float32 if settings.method == "first_order" else torch.float64
        model = settings.model(adjacency, dtype)
        flow = model.flow(model.column(anchors[0])) if len(anchors) == 1 else None
        return cls(adjacency, wanted, anchors, settings, model, flow)

    def blocks(self) -> Iterator[range]:
        """The parts whose costs are found together."""
        return column_blocks(self.adjacency.shape[0], len(self.wanted), self.model.adjacency.dtype)

    def of_block(self, block: range) -> tuple[Ids | None, np.ndarray, list[Flow]]:
        """The region (None for the whole graph); in it, a row of costs and the whole flow for each part."""
        return self._own(block) if self.flow is None else self._shared(block, self.flow)

    def _shared(self, block: range, flow: Flow) -> tuple[Ids | None, np.ndarray, list[Flow]]:
        goals = [self.wanted[part] for part in block]
        if self.settings.method == "exact":
            rows, costs = None, exact_costs(self.model, flow.training[0], self.model.columns(goals))
        else:
            rows = _around(self.adjacency, np.concatenate(goals))
            flow, small = flow.at(rows), self._cut(rows)
            costs = small.first_order(small.columns([positions(rows, ids) for ids in goals]), flow)
        return rows, by_part(costs), [Flow(flow.training[-1:], flow.inference[-1:])] * len(block)

    def _own(self, block: range) -> tuple[Ids | None, np.ndarray, list[Flow]]:
        """A flow for every part, from its own anchors."""
        ends = [ids for part in block for ids in (self.wanted[part], self.anchors[part])]
        rows = _around(self.adjacency, np.concatenate(ends))
        small = self._cut(rows)
        goals = small.columns([positions(rows, self.wanted[part]) for part in block])
        flow = small.flow(small.columns([positions(rows, self.anchors[part]) for part in block]))
        if self.settings.method == "exact":
            starts = flow.training[0]
            each = [exact_costs(small, starts[:, [c]], goals[:, [c]]) for c in range(len(block))]
            costs = torch.cat(each, dim=1)
        else:
            costs = small.first_order(goals, flow)
        last = flow.training[-1], flow.inference[-1]
        wholes = [Flow([last[0][:, [c]]], [last[1][:, [c]]]) for c in range(len(block))]
        return rows, by_part(costs), wholes

    def _cut(self, rows: Ids | None) -> EvidenceModel:
        if rows is None:
            return self.model
        return self.settings.model(cut_out(self.adjacency, rows), self.model.adjacency.dtype)


def _around(adjacency: csr_array, members: Ids) -> Ids | None:
    """The members and whatever touches them.

    That is where the paper's code looks for connecting entities too: one that touches none of
    those it is for would need others to connect it.
    """
    near = np.zeros(adjacency.shape[0], dtype=bool)
    near[members] = True
    near[adjacency[members].indices] = True
    return region(near)
