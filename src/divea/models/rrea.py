"""RREA: relational reflection entity alignment (Mao et al., CIKM 2020).

An entity i is described by its neighbours j, each reflected by the relation r that leads to it. A
reflection keeps lengths and angles, because r has length one:

    m_j  =  h_j - 2 (h_j . r) r

The layer's output is the sum of the m_j, weighted by an attention softmax over [h_i, m_j, r]:

    h_i  <-  relu(sum over j of w_ij m_j),        w_i  =  softmax over j of  a . [h_i, m_j, r]

There are two layers. An entity's embedding is the concatenation of all layers of two channels: one starts
from the mean of its neighbours' embeddings, the other from the mean of its relations' embeddings. Training
minimises a margin loss or Dual-AMN's hard loss (`divea.models.losses`).

Two consequences of the equations make the code short and fast:

* The term a . h_i of the logit is the same for all neighbours, so the softmax cancels it. It is left out.
* The sum of reflected neighbours is  sum w h_j - 2 sum w (h_j . r) r,  a sparse product with numbers on the
  edges. The logit is a sum of numbers of the neighbour, the relation and the edge (h_j . r). So no vector
  per edge is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from divea.config import RreaOptions
from divea.graphs import AlignmentTask
from divea.models.aggregation import at_right, edge_dot, edge_softmax
from divea.models.base import Model
from divea.models.losses import HardLoss, MarginLoss
from divea.models.stacking import StackedGraph, TypedEdges
from divea.models.training import Draws, glorot, train
from divea.types import Embeddings


class Rrea(Model):
    """Trains RREA; see the module's docstring for the equations and `RreaOptions`."""

    options_type = RreaOptions
    in_threads = ("cpu",)

    def __init__(self, options: RreaOptions | None = None):
        self.options = options or RreaOptions()

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return self.embed_many([task], random_seeds=[random_seed], device=device)[0]

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        options = self.options
        graph = StackedGraph(tasks, device)
        draws = Draws(graph, random_seeds)
        encoder = RreaEncoder(graph, draws, options)
        optimiser = torch.optim.RMSprop(encoder.parameters(), options.learning_rate, 0.9, 1e-7)
        loss = self._loss(graph, draws)
        train(optimiser, lambda step: loss(draws.dropout(encoder(), options.dropout)), options.steps)
        with torch.no_grad():
            return graph.split(encoder())

    def _loss(self, graph: StackedGraph, draws: Draws) -> Callable[[Tensor], Tensor]:
        """The loss of a matrix with a row per node; every call draws negatives or a batch of seeds."""
        options = self.options
        if options.loss == "hard":
            hard = HardLoss(graph, options.batch, options.hard_margin, options.hard_scale, options.hard_shift)
            return lambda rows: hard(rows, draws)
        margin = MarginLoss(graph, [block.nodes for block in graph.blocks], options.margin)
        return lambda rows: margin(rows, *margin.draw(draws))

    def memory(self, task: AlignmentTask) -> int:
        nodes = task.source.num_entities + task.target.num_entities
        width = 2 * (self.options.layers + 1) * self.options.dimensions
        edges = 2 * (task.source.num_triples + task.target.num_triples)
        pairs = min(self.options.batch, len(task.seeds)) if self.options.loss == "hard" else 0
        return 4 * (11 * nodes * width + 4 * nodes * pairs + 60 * edges)


class RreaEncoder(torch.nn.Module):
    """The parameters and the forward pass; every block of the stack has its own attention weights."""

    def __init__(self, graph: StackedGraph, draws: Draws, options: RreaOptions):
        super().__init__()
        self.graph, self.layers = graph, options.layers
        width, one_per_block = options.dimensions, [1] * len(graph.blocks)
        # Keras draws embeddings uniformly within .05 by default.
        self.entities = draws.uniform([block.nodes for block in graph.blocks], width, 0.05)
        self.relations = draws.uniform([block.relations for block in graph.blocks], width, 0.05)
        # Initialised for the paper's three parts [h_i, m_j, r], of which the first has no effect.
        attention = [
            draws.uniform(one_per_block, 2 * width, glorot(3 * width, 1)) for _ in range(options.layers)
        ]
        self.attention = torch.nn.ParameterList(attention)
        # Both channels use the same layers, so they are computed as two copies of the graph.
        self.edges = TypedEdges(graph, copies=2)

    def forward(self) -> Tensor:
        directions = self.edges.directions(self.relations)
        channels = [self.graph.neighbour_mean(self.entities), self.graph.relation_mean(self.relations)]
        rows = torch.relu(torch.cat(channels))
        outputs = [rows]
        for attention in self.attention:
            rows = torch.relu(self.layer(rows, directions, attention))
            outputs.append(rows)
        return torch.cat([output.chunk(2)[channel] for channel in (0, 1) for output in outputs], dim=1)

    def layer(self, rows: Tensor, directions: Tensor, attention: Tensor) -> Tensor:
        """One layer without its activation.

        Parameters
        ----------
        rows
            The vectors h of the nodes.
        directions
            The vectors r of the edge types, of length one.
        attention
            The attention weights of each block, for the reflected neighbour and the relation.
        """
        edges = self.edges
        for_neighbour, for_relation = attention.chunk(2, dim=1)
        dots = edge_dot(edges.neighbour_types, rows, directions)
        logits = (
            at_right(edges.neighbours, edges.node_products(rows, for_neighbour))
            - 2 * dots * at_right(edges.types, edges.type_products(directions, for_neighbour))
            + at_right(edges.types, edges.type_products(directions, for_relation))
        )
        weights = edge_softmax(edges.neighbours, logits)
        return edges.reflected_sum(weights, dots, rows, directions)
