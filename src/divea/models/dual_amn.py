"""Dual-AMN: dual attention matching network (Mao et al., WWW 2021).

Inside a graph, an entity i is described by its neighbours j, each reflected by the relation r that leads to
it as in RREA, but with an attention that depends on the relation alone:

    h_i  <-  tanh(sum over j of w_ij (h_j - 2 (h_j . r) r)),        w_i  =  softmax over j of  a . r

Between the graphs, a gate mixes the description h, the concatenation of all layers, with its difference to
an attention over 64 proxy vectors. Both graphs share the proxies, so every entity of one graph is related
to every entity of the other:

    p    =  softmax(cos(h, proxies)) proxies
    g    =  sigmoid(W (h - p) + b)
    out  =  g h + (1 - g) (h - p)

An entity's embedding is the concatenation of two such channels: one starts from the mean of its neighbours'
embeddings, the other from the mean of its relations' embeddings. The loss is normalised hard sample mining
over all entities (`divea.models.losses.HardLoss`), which is why few training steps are enough.
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
    """Trains Dual-AMN; see the module's docstring for the equations and `DualAmnOptions`."""

    options_type = DualAmnOptions
    in_threads = ("cpu",)

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
    """The parameters and the forward pass of both channels; every block of the stack has its own weights."""

    def __init__(self, graph: StackedGraph, draws: Draws, options: DualAmnOptions):
        super().__init__()
        self.graph = graph
        # Keras draws embeddings uniformly within .05 by default.
        self.entities = draws.uniform([block.nodes for block in graph.blocks], options.dimensions, 0.05)
        self.relations = draws.uniform([block.relations for block in graph.blocks], options.dimensions, 0.05)
        self.from_neighbours = _Channel(graph, draws, options)
        self.from_relations = _Channel(graph, draws, options)

    def forward(self) -> Tensor:
        directions = self.graph.typed_edges.directions(self.relations)
        first = self.from_neighbours(self.graph.neighbour_mean(self.entities), directions)
        second = self.from_relations(self.graph.relation_mean(self.relations), directions)
        return torch.cat([first, second], dim=1)


class _Channel(torch.nn.Module):
    """The attention layers of one channel, followed by the gate."""

    def __init__(self, graph: StackedGraph, draws: Draws, options: DualAmnOptions):
        super().__init__()
        self.graph = graph
        blocks, width = len(graph.blocks), options.dimensions
        full_width = width * (options.layers + 1)
        attention = [draws.uniform([1] * blocks, width, glorot(width, 1)) for _ in range(options.layers)]
        self.attention = torch.nn.ParameterList(attention)
        self.gate = draws.uniform([full_width] * blocks, full_width, glorot(full_width, full_width))
        self.bias = torch.nn.Parameter(torch.zeros(blocks, 1, full_width, device=graph.device))
        self.proxies = draws.uniform(
            [options.proxies] * blocks, full_width, glorot(options.proxies, full_width)
        )

    def forward(self, start: Tensor, directions: Tensor) -> Tensor:
        rows = torch.tanh(start)
        outputs = [rows]
        for attention in self.attention:
            rows = torch.tanh(self.reflect(rows, directions, attention))
            outputs.append(rows)
        return self.gated(torch.cat(outputs, dim=1))

    def reflect(self, rows: Tensor, directions: Tensor, attention: Tensor) -> Tensor:
        """The weighted sum of reflected neighbours.

        `rows` are the vectors h of the nodes, `directions` the unit vectors r of the edge types.
        """
        edges = self.graph.typed_edges
        logits = at_right(edges.types, edges.type_products(directions, attention))
        weights = edge_softmax(edges.neighbours, logits)
        dots = edge_dot(edges.neighbour_types, rows, directions)
        return edges.reflected_sum(weights, dots, rows, directions)

    def gated(self, rows: Tensor) -> Tensor:
        """The gate between a description h and its difference to the attended proxies."""
        # Blocks are padded to one size, so that one product applies each block's own proxies and gate.
        padded, blocks = self.graph.padded(rows), len(self.graph.blocks)
        proxies = torch.unflatten(self.proxies, 0, (blocks, -1))
        gate = torch.unflatten(self.gate, 0, (blocks, -1))
        attention = torch.softmax(normalize(padded, dim=2) @ normalize(proxies, dim=2).mT, dim=2)
        difference = padded - attention @ proxies
        share = torch.sigmoid(difference @ gate + self.bias)
        return self.graph.unpadded(torch.lerp(difference, padded, share))
