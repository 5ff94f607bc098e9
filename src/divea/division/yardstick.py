"""Measures how much of the whole graph's evidence a context graph still carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import cut_out, positions
from divea.division.evidence import EvidenceSettings, Flow
from divea.graphs.labels import Ids


@dataclass(frozen=True)
class Yardstick:
    """The whole graph's flow, and with it the measure of any context graph."""

    adjacency: csr_array
    anchors: Ids
    settings: EvidenceSettings
    whole: Flow

    @classmethod
    def of(
        cls,
        adjacency: csr_array,
        anchors: Ids,
        settings: EvidenceSettings,
        dtype: torch.dtype = torch.float64,
    ) -> Yardstick:
        """One flow over the whole graph."""
        model = settings.model(adjacency, dtype)
        flow = model.flow(model.column(anchors))
        return cls(adjacency, anchors, settings, Flow(flow.training[-1:], flow.inference[-1:]))

    def evidence(self, context: Ids, wanted: Ids, anchors: Ids | None = None) -> np.ndarray:
        """What arrives at each of `wanted` through the graph between the `context` entities, 0 to 1.

        1 is what arrives through the whole graph. `anchors` are those that count inside, by default
        all that are there.
        """
        kept = np.sort(context)
        model = self.settings.model(cut_out(self.adjacency, kept), self.whole.training[-1].dtype)
        whole = self.whole.at(kept)
        is_anchor = np.zeros(self.adjacency.shape[0], dtype=bool)
        is_anchor[self.anchors if anchors is None else anchors] = True
        inside = np.flatnonzero(is_anchor[kept]).astype(np.int32)
        flow = model.flow(model.column(inside), whole)
        received = model.received(flow, whole).ravel().cpu().numpy()
        return received[positions(kept, wanted)] / model.full

    def informativeness(self, context: Ids, wanted: Ids, anchors: Ids | None = None) -> float:
        """Mean evidence at the `wanted` entities that the whole graph reaches at all (Eq. 9, as a share)."""
        reached = int((self.whole.inference[-1].ravel().cpu().numpy()[wanted] > 0).sum())
        return float(self.evidence(context, wanted, anchors).sum() / reached) if reached else 0.0
