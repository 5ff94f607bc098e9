"""Informativeness (Eq. 9): how much of the whole graph's evidence a context graph still carries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.config import EvidenceSettings
from divea.division.blocks import submatrix
from divea.division.evidence import EvidenceModel, Flow
from divea.graphs.ids import marked, positions
from divea.types import Ids


@dataclass(frozen=True)
class Informativeness:
    """Compares context graphs of one graph with the whole graph."""

    adjacency: csr_array
    anchors: Ids
    settings: EvidenceSettings
    whole: Flow
    device: str

    @classmethod
    def of(
        cls,
        adjacency: csr_array,
        anchors: Ids,
        settings: EvidenceSettings,
        dtype: torch.dtype = torch.float64,
        device: str = "cpu",
    ) -> Informativeness:
        """Pass evidence through the whole graph once."""
        model = EvidenceModel.over(adjacency, settings, dtype, device)
        whole = model.flow(model.column(anchors)).last_layers()
        return cls(adjacency, anchors, settings, whole, device)

    def evidence(self, context: Ids, receivers: Ids, anchors: Ids | None = None) -> np.ndarray:
        """The evidence that reaches each receiver through the context graph, as a share of the whole graph's.

        Parameters
        ----------
        context
            The entities of the context graph, receivers included.
        anchors
            The anchors that count; all that lie inside by default.
        """
        kept = np.sort(context)
        dtype = self.whole.training[-1].dtype
        model = EvidenceModel.over(submatrix(self.adjacency, kept), self.settings, dtype, self.device)
        whole = self.whole.at(kept)
        is_anchor = marked(self.anchors if anchors is None else anchors, self.adjacency.shape[0])
        inside = np.flatnonzero(is_anchor[kept]).astype(np.int32)
        received = model.received(model.flow(model.column(inside), whole), whole).ravel().cpu().numpy()
        return received[positions(kept, receivers)] / model.full_evidence

    def share(self, context: Ids, receivers: Ids, anchors: Ids | None = None) -> float:
        """Informativeness as a share of the whole graph's; receivers out of reach even there do not count."""
        reachable = int((self.whole.inference[-1].ravel().cpu().numpy()[receivers] > 0).sum())
        return float(self.evidence(context, receivers, anchors).sum() / reachable) if reachable else 0.0
