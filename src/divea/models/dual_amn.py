"""Dual-AMN: dual attention matching network (Mao et al., WWW 2021).

Inside a graph, an entity is described by its neighbours, reflected by the relation that leads to
them as in RREA, but with attention that looks at the relation alone. Across graphs, a gate mixes
that description h with what is left of it after taking away the nearest of 64 shared proxy
vectors, through which every entity of one graph meets every entity of the other:

    p = softmax(cos(h, proxies)) proxies
    g = sigmoid(W (h - p) + b)
    out = g h + (1 - g) (h - p)

Two such encoders start from the mean of an entity's neighbours and of its relations. The loss is
normalised hard sample mining over all entities, which is what makes it quick to train.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import normalize

from divea.config import DualAmnOptions
from divea.graphs import AlignmentTask
from divea.models.aggregation import at_right, edge_dot, edge_softmax
from divea.models.base import Model
from divea.models.losses import HardLoss
from divea.models.stacking import StackedGraph
from divea.models.training import Draws, glorot, train
from divea.types import Embeddings


class DualAmn(Model):
    """Trains Dual-AMN; see the module's text for the equations and `DualAmnOptions`."""

    options_type = DualAmnOptions

    def __init__(self, options: DualAmnOptions | None = None):
        self.options = options or DualAmnOptions()

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return self.embed_many([task], random_seeds=[random_seed], device=device)[0]

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        options = self.options
        graph = StackedGraph(tasks, device)
        draws = Draws(graph, random_seeds)
        encoder = DualAmnEncoder(graph, draws, options)

        hard_loss = HardLoss(graph, options.batch, options.margin, options.scale, options.shift)

        def loss(step: int) -> Tensor:
            return hard_loss(draws.dropout(encoder(), options.dropout), draws)

        optimiser = torch.optim.RMSprop(encoder.parameters(), options.learning_rate, 0.9, 1e-7)
        train(optimiser, loss, options.steps)
        with torch.no_grad():
            return graph.split(encoder())

    def memory(self, task: AlignmentTask) -> int:
        nodes = task.source.num_entities + task.target.num_entities
        width = 2 * (self.options.layers + 1) * self.options.dimensions
        edges = 2 * (task.source.num_triples + task.target.num_triples)
        pairs = min(self.options.batch, len(task.seeds))
        return 4 * (10 * nodes * width + 4 * nodes * pairs + 60 * edges)


class DualAmnEncoder(torch.nn.Module):
    """Both channels; every block of the stack has weights of its own."""

    def __init__(self, graph: StackedGraph, draws: Draws, options: DualAmnOptions):
        super().__init__()
        self.graph = graph
        # Keras' default for embeddings is uniform within .05.
        self.entities = draws.uniform([block.nodes for block in graph.blocks], options.dimensions, 0.05)
        self.relations = draws.uniform([block.relations for block in graph.blocks], options.dimensions, 0.05)
        self.from_neighbours = _Channel(graph, draws, options)
        self.from_relations = _Channel(graph, draws, options)

    def forward(self) -> Tensor:
        types = self.graph.typed_edges.directions(self.relations)
        first = self.from_neighbours(self.graph.neighbour_mean(self.entities), types)
        second = self.from_relations(self.graph.relation_mean(self.relations), types)
        return torch.cat([first, second], dim=1)


class _Channel(torch.nn.Module):
    def __init__(self, graph: StackedGraph, draws: Draws, options: DualAmnOptions):
        super().__init__()
        self.graph = graph
        blocks, width = len(graph.blocks), options.dimensions
        wide = width * (options.layers + 1)
        one, each = [1] * blocks, [options.proxies] * blocks
        attention = [draws.uniform(one, width, glorot(width, 1)) for _ in range(options.layers)]
        self.attention = torch.nn.ParameterList(attention)
        self.gate = draws.uniform([wide] * blocks, wide, glorot(wide, wide))
        self.bias = torch.nn.Parameter(torch.zeros(blocks, 1, wide, device=graph.device))
        self.proxies = draws.uniform(each, wide, glorot(options.proxies, wide))

    def forward(self, start: Tensor, types: Tensor) -> Tensor:
        rows = torch.tanh(start)
        outputs = [rows]
        for attention in self.attention:
            rows = torch.tanh(self.reflect(rows, types, attention))
            outputs.append(rows)
        return self.gated(torch.cat(outputs, dim=1))

    def reflect(self, rows: Tensor, types: Tensor, attention: Tensor) -> Tensor:
        """The weighted sum of reflected neighbours."""
        edges = self.graph.typed_edges
        weights = edge_softmax(edges.neighbours, at_right(edges.types, edges.of_types(types, attention)))
        along = edge_dot(edges.neighbour_types, rows, types)
        return edges.reflected_sum(weights, along, rows, types)

    def gated(self, rows: Tensor) -> Tensor:
        """Matching across graphs: the gate between a description and what is special in it."""
        # Blocks padded to one size, so that each meets its own proxies and gate in one product.
        padded, blocks = self.graph.padded(rows), len(self.graph.blocks)
        proxies = torch.unflatten(self.proxies, 0, (blocks, -1))
        gate = torch.unflatten(self.gate, 0, (blocks, -1))
        nearest = torch.softmax(normalize(padded, dim=2) @ normalize(proxies, dim=2).mT, dim=2)
        special = padded - nearest @ proxies
        share = torch.sigmoid(special @ gate + self.bias)
        return self.graph.unpadded(torch.lerp(special, padded, share))
