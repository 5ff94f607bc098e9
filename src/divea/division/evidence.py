"""Evidence passing: how much alignment evidence reaches an entity through a context graph (Eqs. 6 to 9).

Anchors start with evidence 1. Evidence passes along the edges for L layers (training, Eq. 6), is squashed
(Eq. 7), passes for L more layers (inference) and is squashed again (Eq. 8). The sum over a part's unmatched
entities is the informativeness of the graph for the part (Eq. 9).

Passing evidence takes 2L sparse products, so its gradient takes 2L more. One gradient pass therefore
estimates the drop cost (Eq. 10) of every entity for every part (`EvidenceModel.first_order_drop_costs`).
`exact_drop_costs` passes evidence without each entity in turn, as the paper does; the tests compare the
estimate with it.

As in the paper's code, edges count once per triple and in both directions: two entities joined by three
relations pass three messages, as in a relational encoder. Self-loops are left out; every entity passes its
evidence to itself once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.config import EvidenceSettings
from divea.division.blocks import indicator_columns, sparse_tensor
from divea.types import Ids


@dataclass(frozen=True)
class Flow:
    """Evidence at every layer, before squashing; `training[0]` marks the anchors.

    Rows are entities, columns are parts (one column if all parts share the same anchors).
    """

    training: list[torch.Tensor]
    inference: list[torch.Tensor]

    def at(self, rows: Ids | None) -> Flow:
        """The flow at some entities; None stands for all."""
        if rows is None:
            return self
        here = torch.from_numpy(rows.astype(np.int64)).to(self.training[0].device)
        return Flow([layer[here] for layer in self.training], [layer[here] for layer in self.inference])

    def last_layers(self) -> Flow:
        """Only the layers that other graphs are normalised by."""
        return Flow(self.training[-1:], self.inference[-1:])

    def column(self, number: int) -> Flow:
        """The flow of one part."""
        return Flow(
            [layer[:, [number]] for layer in self.training], [layer[:, [number]] for layer in self.inference]
        )


@dataclass(frozen=True)
class EvidenceModel:
    """The paper's evidence passing over one graph.

    `strength` is the paper's lambda (it also writes gamma), `layers` the depth L of the encoder that the
    context is for.
    """

    adjacency: torch.Tensor
    strength: float = 2.0
    layers: int = 2

    @classmethod
    def over(
        cls,
        adjacency: csr_array,
        settings: EvidenceSettings,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> EvidenceModel:
        """The model over a graph, given by its adjacency."""
        return cls(sparse_tensor(adjacency, dtype, device), settings.strength, settings.layers)

    @property
    def full_evidence(self) -> float:
        """The evidence that an entity receives through the whole graph."""
        return float(np.tanh(self.strength / 2))

    def column(self, ids: Ids) -> torch.Tensor:
        """One column with ones at these entities."""
        return self.columns([ids])

    def columns(self, lists: Sequence[Ids]) -> torch.Tensor:
        """A column per list, with ones at its entities."""
        matrix = self.adjacency
        return indicator_columns(matrix.shape[0], lists, matrix.dtype, str(matrix.device))

    def flow(
        self, anchors: torch.Tensor, whole: Flow | None = None, present: torch.Tensor | None = None
    ) -> Flow:
        """Pass evidence from the anchors: training layers, squash, inference layers.

        Evidence is normalised by `whole`, the flow over the whole graph; without it, this is that flow. Only
        entities at which `present` is 1 pass evidence on.
        """
        training = self._pass_evidence(anchors, present)
        reference = training[-1] if whole is None else whole.training[-1]
        learned = self._squash(training[-1], reference)
        return Flow(training, self._pass_evidence(learned, present))

    def received(self, flow: Flow, whole: Flow | None = None) -> torch.Tensor:
        """The evidence of every entity after inference (Eq. 8); its sum is the informativeness (Eq. 9)."""
        return self._squash(flow.inference[-1], (whole or flow).inference[-1])

    def first_order_drop_costs(
        self,
        receivers: torch.Tensor,
        flow: Flow,
        whole: Flow | None = None,
        present: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """First-order estimate of the drop cost (Eq. 10) of every entity for every part.

        An entity is a factor of every message that it passes on, and its cost is the derivative with
        respect to that factor. At the squashes the slope is that of the secant to zero and not of the
        tangent, because losing the only supporter of an entity is not a small change.

        Parameters
        ----------
        receivers
            A column per part, with ones at the entities that the evidence is for.
        """
        whole = whole or flow
        costs = torch.zeros_like(receivers)
        gradient = receivers * self._secant(flow.inference[-1], whole.inference[-1])
        gradient = self._pass_back(gradient, flow.inference, present, costs)
        gradient = gradient * self._secant(flow.training[-1], whole.training[-1])
        # The last training layer is the first inference layer: it is counted once, here.
        costs += flow.training[-1] * gradient
        gradient = self._pass_back(gradient, flow.training, present, costs)
        return costs.addcmul_(flow.training[0], gradient)

    def _pass_evidence(self, start: torch.Tensor, present: torch.Tensor | None) -> list[torch.Tensor]:
        """Message passing (Eq. 6) for L layers; the start is the first of the L + 1 layers returned."""
        layers = [start if present is None else start * present]
        for _ in range(self.layers):
            received = torch.addmm(layers[-1], self.adjacency, layers[-1])
            layers.append(received if present is None else received * present)
        return layers

    def _pass_back(
        self,
        gradient: torch.Tensor,
        layers: list[torch.Tensor],
        present: torch.Tensor | None,
        costs: torch.Tensor,
    ) -> torch.Tensor:
        """Pass a gradient from the last layer to the first, adding the cost of the layers in between."""
        for layer in reversed(layers[:-1]):
            gradient = torch.addmm(gradient, self.adjacency, gradient)
            if present is not None:
                gradient = gradient * present
            if layer is not layers[0]:
                costs.addcmul_(layer.expand_as(gradient), gradient)
        return gradient

    def _squash(self, evidence: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        """2 sigmoid(lambda share) - 1 of the share of the whole graph's evidence (Eqs. 7 and 8)."""
        # 2 sigmoid(x) - 1 is tanh(x / 2). Where nothing arrives even in the whole graph, 0 / 0 is 0.
        share = torch.where(whole > 0, evidence / whole, 0)
        return share.mul_(self.strength / 2).tanh_()

    def _secant(self, evidence: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        return torch.where(evidence > 0, self._squash(evidence, whole) / evidence, 0)


def exact_drop_costs(
    model: EvidenceModel, anchors: torch.Tensor, receivers: torch.Tensor, batch: int = 256
) -> torch.Tensor:
    """Exact drop cost (Eq. 10) of every entity (row) for every part (column of `receivers`).

    `anchors` is one column, so a flow without an entity is the same for all parts and the work is |E| columns
    of 2L products. A batch of entities is computed together.
    """
    matrix = model.adjacency
    rows = matrix.shape[0]
    whole = model.flow(anchors)
    complete = receivers.T @ model.received(whole)
    costs = torch.empty_like(receivers)
    for first in range(0, rows, batch):
        dropped = torch.arange(first, min(first + batch, rows), device=matrix.device)
        present = torch.ones((rows, len(dropped)), dtype=matrix.dtype, device=matrix.device)
        present[dropped, dropped - first] = 0
        remaining = model.received(model.flow(anchors, whole, present), whole)
        costs[dropped] = (complete - receivers.T @ remaining).T
    return costs
