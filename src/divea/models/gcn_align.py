"""GCN-Align, structure only (Wang et al., EMNLP 2018).

Two graph convolutions without weight matrices over one trainable vector per entity:

    H = A relu(A X),        A = D^-1/2 (W + I) D^-1/2

W weighs a neighbour by how well the relation tells it: along a relation from head to tail by the
share of distinct tails among its triples (its inverse functionality), from tail to head by the
share of distinct heads, and by .3 at least. Seeds are drawn together by L1 margin loss.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from divea.config import GcnAlignOptions
from divea.graphs import AlignmentTask
from divea.models.aggregation import FixedSum
from divea.models.base import Model
from divea.models.losses import MarginLoss
from divea.models.stacking import StackedGraph, distinct
from divea.models.training import Draws, train
from divea.types import Embeddings


class GcnAlign(Model):
    """Trains GCN-Align; see the module's text for the equations and `GcnAlignOptions`."""

    options_type = GcnAlignOptions

    def __init__(self, options: GcnAlignOptions | None = None):
        self.options = options or GcnAlignOptions()

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return self.embed_many([task], random_seeds=[random_seed], device=device)[0]

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        graph = StackedGraph(tasks, device)
        draws = Draws(graph, random_seeds)
        counts = [block.nodes for block in graph.blocks]
        deviations = [max(count, 1) ** -0.5 for count in counts]
        entities = draws.normal(counts, self.options.dimensions, deviations)
        convolve = convolution(graph)
        counts = [self.options.negatives * len(seeds) for seeds in graph.seeds]
        margin_loss = MarginLoss(graph, counts, self.options.margin)
        false_ends: list[Tensor] = []

        def forward() -> Tensor:
            # Of length one at every step, as in the public code: what is trained is a direction.
            return convolve(torch.relu(convolve(normalize(entities, dim=1))))

        def loss(step: int) -> Tensor:
            if step % self.options.keep_negatives == 0:
                false_ends[:] = margin_loss.draw(draws)
            # The code averages over both sides at once: half of what a mean over one side is.
            return 0.5 * margin_loss(forward(), *false_ends)

        train(torch.optim.SGD([entities], self.options.learning_rate), loss, self.options.steps)
        with torch.no_grad():
            return graph.split(forward())

    def memory(self, task: AlignmentTask) -> int:
        nodes = task.source.num_entities + task.target.num_entities
        edges = 2 * (task.source.num_triples + task.target.num_triples)
        pairs = (1 + 2 * self.options.negatives) * len(task.seeds)
        return 4 * ((7 * nodes + 3 * pairs) * self.options.dimensions + 10 * edges)


def convolution(graph: StackedGraph) -> FixedSum:
    """Multiplication by the normalised adjacency of the module's text."""
    node, relation, neighbour = graph.triples.T
    # A relation and its inverse are numbered apart, so "distinct neighbours per triple" is the
    # inverse functionality of the one and the functionality of the other.
    _, relation_of, neighbour_of = graph.columns
    told, _ = distinct(relation_of, neighbour_of, graph.num_nodes)
    triples = np.bincount(relation, minlength=graph.num_relations)
    share = np.bincount(told.cpu(), minlength=graph.num_relations) / np.maximum(triples, 1)
    pair, place = np.unique(node * graph.num_nodes + neighbour, return_inverse=True)
    weight = np.bincount(place, weights=np.maximum(share, 0.3)[relation], minlength=len(pair))
    nodes = np.arange(graph.num_nodes)
    left = np.concatenate([pair // max(graph.num_nodes, 1), nodes])
    right = np.concatenate([pair % max(graph.num_nodes, 1), nodes])
    weight = np.concatenate([weight, np.ones(graph.num_nodes)])
    scale = np.bincount(left, weights=weight, minlength=graph.num_nodes) ** -0.5
    order = np.argsort(left, kind="stable")
    left, right, weight = left[order], right[order], weight[order]
    size = (graph.num_nodes, graph.num_nodes)
    return FixedSum(left, right, weight * scale[left] * scale[right], size, graph.device)
