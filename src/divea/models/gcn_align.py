"""GCN-Align, structure only (Wang et al., EMNLP 2018).

Two graph convolutions without weight matrices over one trainable vector per entity:

    H  =  A relu(A X),        A  =  D^-1/2 (W + I) D^-1/2

W weighs a neighbour by how well the relation identifies it. From head to tail, the weight is the number of
distinct tails per triple of the relation (its inverse functionality); from tail to head, it is the number
of distinct heads per triple (its functionality). It is at least .3. An L1 margin loss pulls the ends of
seeds together (`divea.models.losses.MarginLoss`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import normalize

from divea.config import GcnAlignOptions
from divea.graphs import AlignmentTask
from divea.models.aggregation import FixedSum
from divea.models.base import Model
from divea.models.losses import MarginLoss
from divea.models.stacking import StackedGraph, distinct_pairs
from divea.models.training import Draws, train
from divea.types import Embeddings

_LOWEST_WEIGHT = 0.3


class GcnAlign(Model):
    """Trains GCN-Align; see the module's docstring for the equations and `GcnAlignOptions`."""

    options_type = GcnAlignOptions
    in_threads = ("cpu",)

    def __init__(self, options: GcnAlignOptions | None = None):
        self.options = options or GcnAlignOptions()

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return self.embed_many([task], random_seeds=[random_seed], device=device)[0]

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        options = self.options
        graph = StackedGraph(tasks, device)
        draws = Draws(graph, random_seeds)
        encoder = GcnAlignEncoder(graph, draws, options)
        negatives = [options.negatives * len(seeds) for seeds in graph.seeds]
        margin_loss = MarginLoss(graph, negatives, options.margin)
        random_ends: list[Tensor] = []

        def loss(step: int) -> Tensor:
            if step % options.keep_negatives == 0:
                random_ends[:] = margin_loss.draw(draws)
            # The public code averages over both sides together: half the sum of the two sides' means.
            return 0.5 * margin_loss(encoder(), *random_ends)

        train(torch.optim.SGD(encoder.parameters(), options.learning_rate), loss, options.steps)
        with torch.no_grad():
            return graph.split(encoder())

    def memory(self, task: AlignmentTask) -> int:
        nodes = task.source.num_entities + task.target.num_entities
        edges = 2 * (task.source.num_triples + task.target.num_triples)
        pairs = (1 + 2 * self.options.negatives) * len(task.seeds)
        return 4 * ((7 * nodes + 3 * pairs) * self.options.dimensions + 10 * edges)


class GcnAlignEncoder(torch.nn.Module):
    """The entities' vectors and the two convolutions."""

    def __init__(self, graph: StackedGraph, draws: Draws, options: GcnAlignOptions):
        super().__init__()
        nodes = [block.nodes for block in graph.blocks]
        self.entities = draws.normal(nodes, options.dimensions, [max(count, 1) ** -0.5 for count in nodes])
        self.convolve = convolution(graph)

    def forward(self) -> Tensor:
        # Normalised at every step, as in the public code: only the directions are trained.
        return self.convolve(torch.relu(self.convolve(normalize(self.entities, dim=1))))


def convolution(graph: StackedGraph) -> FixedSum:
    """The multiplication by the normalised adjacency A of the module's docstring."""
    node, relation, neighbour = graph.triples.T
    pair, pair_of_triple = np.unique(node * graph.num_nodes + neighbour, return_inverse=True)
    weight_of_triple = np.maximum(_distinct_neighbours_per_triple(graph), _LOWEST_WEIGHT)[relation]
    weight = np.bincount(pair_of_triple, weights=weight_of_triple, minlength=len(pair))

    nodes = np.arange(graph.num_nodes)
    left = np.concatenate([pair // max(graph.num_nodes, 1), nodes])
    right = np.concatenate([pair % max(graph.num_nodes, 1), nodes])
    weight = np.concatenate([weight, np.ones(graph.num_nodes)])

    scale = np.bincount(left, weights=weight, minlength=graph.num_nodes) ** -0.5
    order = np.argsort(left, kind="stable")
    left, right, weight = left[order], right[order], weight[order]
    size = (graph.num_nodes, graph.num_nodes)
    return FixedSum(left, right, weight * scale[left] * scale[right], size, graph.device)


def _distinct_neighbours_per_triple(graph: StackedGraph) -> npt.NDArray[np.float64]:
    """For each relation, its number of distinct neighbours per triple.

    A relation and its inverse have different numbers in a stack, so this is the inverse functionality of
    the former and the functionality of the latter.
    """
    _, relation, neighbour = graph.triple_columns
    relation_of_neighbour, _ = distinct_pairs(relation, neighbour, graph.num_nodes)
    neighbours = np.bincount(relation_of_neighbour.cpu(), minlength=graph.num_relations)
    triples = np.bincount(graph.triples[:, 1], minlength=graph.num_relations)
    return neighbours / np.maximum(triples, 1)
