"""Evidence passing: how much alignment evidence reaches an entity through a context graph (Eqs. 6-10).

Anchors start with evidence 1. It flows for L layers along the edges (training), is squashed, flows
for L more layers (inference), and is squashed again; what arrives at a part's unmatched entities is
the informativeness of the graph. The drop cost of an entity is what the whole graph loses without it.

The flow is 2L sparse products, so its derivative is 2L more, and one pass gives the cost of every
entity for every part (`first_order`). `exact` recomputes the flow without each entity in turn, as the
paper does, and is what the tests hold the other against.

Edges count once per triple, in both directions, as in the paper's code: two entities joined by three
relations pass three messages, which is what a relational encoder does. Self-loops are left out; every
entity passes its own message to itself once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import marks, sparse_tensor
from divea.errors import InputError
from divea.graphs.labels import Ids


@dataclass(frozen=True)
class Flow:
    """Evidence at every layer: `training[0]` are the anchors, `inference[-1]` goes to the last squash.

    Rows are entities, columns are parts (one column where all parts share the same flow).
    """

    training: list[torch.Tensor]
    inference: list[torch.Tensor]

    def at(self, rows: Ids | None) -> Flow:
        """The flow at some entities; all of them for None."""
        if rows is None:
            return self
        here = torch.from_numpy(rows.astype(np.int64)).to(self.training[0].device)
        return Flow([layer[here] for layer in self.training], [layer[here] for layer in self.inference])


@dataclass(frozen=True)
class EvidenceModel:
    """The evidence model of the paper over one graph.

    `strength` is the paper's lambda (also written gamma), `layers` the depth of the encoder that
    the context is for.
    """

    adjacency: torch.Tensor
    strength: float = 2.0
    layers: int = 2

    @classmethod
    def over(
        cls,
        adjacency: csr_array,
        *,
        strength: float = 2.0,
        layers: int = 2,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
    ) -> EvidenceModel:
        return cls(sparse_tensor(adjacency, dtype, device), strength, layers)

    @property
    def full(self) -> float:
        """The evidence of an entity that lost nothing."""
        return float(np.tanh(self.strength / 2))

    def column(self, ids: Ids) -> torch.Tensor:
        """Ones at these entities, as one column."""
        return self.columns([ids])

    def columns(self, lists: Sequence[Ids]) -> torch.Tensor:
        """Ones at the entities of each list, a column for each."""
        matrix = self.adjacency
        return marks(matrix.shape[0], lists, matrix.dtype, str(matrix.device))

    def flow(
        self, anchors: torch.Tensor, whole: Flow | None = None, present: torch.Tensor | None = None
    ) -> Flow:
        """Let evidence flow from the anchors.

        Without `whole` this is the flow of the whole graph, which is its own measure; otherwise it
        is measured against `whole` (Eqs. 7-8), through the entities where `present` is 1.
        """
        training = self._layers(anchors, present)
        learned = self._squash(training[-1], (whole.training if whole else training)[-1])
        return Flow(training, self._layers(learned, present))

    def received(self, flow: Flow, whole: Flow | None = None) -> torch.Tensor:
        """The evidence that finally arrives, 0 to `full`; its sum is the informativeness (Eq. 9)."""
        return self._squash(flow.inference[-1], (whole or flow).inference[-1])

    def first_order(
        self,
        wanted: torch.Tensor,
        flow: Flow,
        whole: Flow | None = None,
        present: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Estimated drop cost of every entity (row) for every part (column of `wanted`).

        An entity is a factor of every message that it passes on; the cost is the derivative by
        that factor. At the squashes the slope is that of the secant to zero and not of the tangent:
        losing a sole supporter is no small change.
        """
        gradient = wanted * self._secant(flow.inference[-1], (whole or flow).inference[-1])
        cost = torch.zeros_like(wanted)
        gradient = self._back(gradient, flow.inference, present, cost)
        gradient = gradient * self._secant(flow.training[-1], (whole or flow).training[-1])
        # The last training layer and the first of inference are one visit: counted here, not there.
        cost += flow.training[-1] * gradient
        gradient = self._back(gradient, flow.training, present, cost)
        return cost.addcmul_(flow.training[0], gradient)

    def _back(
        self,
        gradient: torch.Tensor,
        layers: list[torch.Tensor],
        present: torch.Tensor | None,
        cost: torch.Tensor,
    ) -> torch.Tensor:
        """Take a gradient from the last layer to the first, adding up the cost of the ones between."""
        for layer in reversed(layers[:-1]):
            gradient = torch.addmm(gradient, self.adjacency, gradient)
            if present is not None:
                gradient = gradient * present
            if layer is not layers[0]:
                cost.addcmul_(layer.expand_as(gradient), gradient)
        return gradient

    def _layers(self, start: torch.Tensor, present: torch.Tensor | None) -> list[torch.Tensor]:
        layers = [start if present is None else start * present]
        for _ in range(self.layers):
            reached = torch.addmm(layers[-1], self.adjacency, layers[-1])
            layers.append(reached if present is None else reached * present)
        return layers

    def _squash(self, evidence: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        # 2 sigmoid(x) - 1 is tanh(x / 2); where nothing arrives even in the whole graph, 0/0 is 0.
        share = torch.where(whole > 0, evidence / whole, 0)
        return share.mul_(self.strength / 2).tanh_()

    def _secant(self, evidence: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        return torch.where(evidence > 0, self._squash(evidence, whole) / evidence, 0)


def exact_costs(
    model: EvidenceModel, anchors: torch.Tensor, wanted: torch.Tensor, batch: int = 256
) -> torch.Tensor:
    """Exact drop cost (Eq. 10) of every entity (row) for every part (column of `wanted`).

    `anchors` is one column: a flow without an entity is then the same for all parts, and the work
    is |E| columns of 2L products. A batch of entities is computed together.
    """
    matrix = model.adjacency
    rows = matrix.shape[0]
    whole = model.flow(anchors)
    complete = wanted.T @ model.received(whole)
    costs = torch.empty_like(wanted)
    for first in range(0, rows, batch):
        dropped = torch.arange(first, min(first + batch, rows), device=matrix.device)
        present = torch.ones((rows, len(dropped)), dtype=matrix.dtype, device=matrix.device)
        present[dropped, dropped - first] = 0
        left = model.received(model.flow(anchors, whole, present), whole)
        costs[dropped] = (complete - wanted.T @ left).T
    return costs


METHODS = ("first_order", "rounds", "exact")


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
