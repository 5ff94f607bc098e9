"""RREA: relational reflection entity alignment (Mao et al., CIKM 2020).

An entity is described by its neighbours, each reflected by the relation that leads to it:

    h_j - 2 (h_j . r) r            (r of length one: a reflection keeps lengths and angles)

and weighted by an attention softmax over [self, reflected neighbour, relation]. Two layers; an
entity's embedding is the concatenation of all layers of two channels, which start from the mean
of its neighbours' embeddings and from the mean of its relations' embeddings. What the attention
sees of the entity itself is the same for all its neighbours, so the softmax cancels it: it is left
out here, and nothing else changes.

Written out, the sum of reflected neighbours is  sum w h_j  -  2 sum w (h_j . r) r, a sparse
product whose edges carry only numbers; the attention's logits are sums of numbers of the node,
the neighbour and the relation. So no vector per edge is ever made.
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
    """Trains RREA; see the module's text for the equations and `RreaOptions` for the settings."""

    options_type = RreaOptions

    def __init__(self, options: RreaOptions | None = None):
        self.options = options or RreaOptions()

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return self.embed_many([task], random_seeds=[random_seed], device=device)[0]

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        graph = StackedGraph(tasks, device)
        draws = Draws(graph, random_seeds)
        encoder = RreaEncoder(graph, draws, self.options)
        optimiser = torch.optim.RMSprop(encoder.parameters(), self.options.learning_rate, 0.9, 1e-7)
        loss = self._loss(graph, draws)
        train(
            optimiser, lambda step: loss(draws.dropout(encoder(), self.options.dropout)), self.options.steps
        )
        with torch.no_grad():
            return graph.split(encoder())

    def _loss(self, graph: StackedGraph, draws: Draws) -> Callable[[Tensor], Tensor]:
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
    """Parameters and forward pass. Every block of the stack has attention weights of its own."""

    def __init__(self, graph: StackedGraph, draws: Draws, options: RreaOptions):
        super().__init__()
        self.graph, self.layers = graph, options.layers
        width, ones = options.dimensions, [1] * len(graph.blocks)
        # Keras' default for embeddings is uniform within .05.
        self.entities = draws.uniform([block.nodes for block in graph.blocks], width, 0.05)
        self.relations = draws.uniform([block.relations for block in graph.blocks], width, 0.05)
        # As drawn for the three parts of the paper; what would be the entity's own has no effect.
        attention = [draws.uniform(ones, 2 * width, glorot(3 * width, 1)) for _ in range(options.layers)]
        self.attention = torch.nn.ParameterList(attention)
        # Both channels go through the same layers: two copies of the graph make that one pass.
        self.edges = TypedEdges(graph, copies=2)

    def forward(self) -> Tensor:
        types = self.edges.directions(self.relations)
        channels = [self.graph.neighbour_mean(self.entities), self.graph.relation_mean(self.relations)]
        rows = torch.relu(torch.cat(channels))
        layers = [rows]
        for attention in self.attention:
            rows = torch.relu(self.layer(rows, types, attention))
            layers.append(rows)
        return torch.cat(
            [half for side in (0, 1) for half in (layer.chunk(2)[side] for layer in layers)], dim=1
        )

    def layer(self, rows: Tensor, types: Tensor, attention: Tensor) -> Tensor:
        """One layer: rows are the nodes' vectors, types those of the edge types, of length one."""
        edges = self.edges
        of_neighbour, of_relation = attention.chunk(2, dim=1)
        along = edge_dot(edges.neighbour_types, rows, types)
        logits = (
            at_right(edges.neighbours, edges.of_nodes(rows, of_neighbour))
            - 2 * along * at_right(edges.types, edges.of_types(types, of_neighbour))
            + at_right(edges.types, edges.of_types(types, of_relation))
        )
        weights = edge_softmax(edges.neighbours, logits)
        return edges.reflected_sum(weights, along, rows, types)
