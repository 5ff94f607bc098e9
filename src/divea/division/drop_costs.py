"""Drop costs (Eq. 10) of entities for every part, computed in the region of the graph around each part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.config import EvidenceSettings
from divea.division.blocks import column_blocks, region_rows, rows_by_part, submatrix
from divea.division.evidence import EvidenceModel, Flow, exact_drop_costs
from divea.graphs.ids import positions
from divea.types import Ids


@dataclass(frozen=True)
class BlockCosts:
    """The drop costs of a block of parts."""

    rows: Ids | None
    """The entities of the region; None for the whole graph."""
    costs: np.ndarray
    """One row per part, one column per entity of the region."""
    flows: list[Flow]
    """For each part, the last layers of the flow over the whole graph, in the region."""


@dataclass(frozen=True)
class DropCosts:
    """The cost of dropping each entity, for every part; see `pick_contexts` for the fields."""

    adjacency: csr_array
    receivers: Sequence[Ids]
    anchors: Sequence[Ids] | Ids
    settings: EvidenceSettings
    device: str
    model: EvidenceModel
    shared_flow: Flow | None
    """One flow for all parts, if they share their anchors."""

    @classmethod
    def of(
        cls,
        adjacency: csr_array,
        receivers: Sequence[Ids],
        anchors: Sequence[Ids] | Ids,
        settings: EvidenceSettings,
        device: str,
    ) -> DropCosts:
        dtype = torch.float32 if settings.method == "first_order" else torch.float64
        model = EvidenceModel.over(adjacency, settings, dtype, device)
        shared_flow = model.flow(model.column(anchors)) if isinstance(anchors, np.ndarray) else None
        return cls(adjacency, receivers, anchors, settings, device, model, shared_flow)

    def blocks(self) -> Iterator[range]:
        """The parts whose costs are computed together."""
        return column_blocks(self.adjacency.shape[0], len(self.receivers), self.model.adjacency.dtype)

    def of_block(self, block: range) -> BlockCosts:
        """The costs of a block of parts."""
        if self.shared_flow is None:
            return self._with_own_flows(block)
        return self._with_shared_flow(block, self.shared_flow)

    def _with_shared_flow(self, block: range, flow: Flow) -> BlockCosts:
        receivers = [self.receivers[part] for part in block]
        if self.settings.method == "exact":
            rows = None
            costs = exact_drop_costs(self.model, flow.training[0], self.model.columns(receivers))
        else:
            rows = self._region(receivers)
            flow, model = flow.at(rows), self._model_of(rows)
            local = model.columns([positions(rows, ids) for ids in receivers])
            costs = model.first_order_drop_costs(local, flow)
        return BlockCosts(rows, rows_by_part(costs), [flow.last_layers()] * len(block))

    def _with_own_flows(self, block: range) -> BlockCosts:
        """Each part passes evidence from its own anchors."""
        rows = self._region([ids for part in block for ids in (self.receivers[part], self.anchors[part])])
        model = self._model_of(rows)
        receivers = model.columns([positions(rows, self.receivers[part]) for part in block])
        flow = model.flow(model.columns([positions(rows, self.anchors[part]) for part in block]))
        parts = range(len(block))
        if self.settings.method == "exact":
            anchors = flow.training[0]
            each = [exact_drop_costs(model, anchors[:, [part]], receivers[:, [part]]) for part in parts]
            costs = torch.cat(each, dim=1)
        else:
            costs = model.first_order_drop_costs(receivers, flow)
        last = flow.last_layers()
        return BlockCosts(rows, rows_by_part(costs), [last.column(part) for part in parts])

    def _model_of(self, rows: Ids | None) -> EvidenceModel:
        if rows is None:
            return self.model
        dtype = self.model.adjacency.dtype
        return EvidenceModel.over(submatrix(self.adjacency, rows), self.settings, dtype, self.device)

    def _region(self, lists: Sequence[Ids]) -> Ids | None:
        """These entities and their neighbours.

        The paper's code also looks for connecting entities only there: one that touches no receiver would
        need further entities to connect it.
        """
        members = np.concatenate(lists)
        near = np.zeros(self.adjacency.shape[0], dtype=bool)
        near[members] = True
        near[self.adjacency[members].indices] = True
        return region_rows(near)
