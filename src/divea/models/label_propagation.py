"""Label propagation, the algorithm of LightEA (Mao et al., EMNLP 2022): alignment without training.

1. Labels. Both ends of a seed get the same random unit vector x, a label. All other entities have x = 0.
2. Propagation, for two hops. Triples are read from either end, the second time with the inverse relation;
   N(i) are the triples (i, r, j) of entity i. A relation starts with y = 0. Every result is normalised to
   length one:

       x_i  <-  2 |N(i)| x_i  +  sum over N(i) of x_j  +  sum over distinct r with a triple (j, r, i) of y_r
       y_r  <-  sum over distinct i with a triple (i, r, j) of x_i

   The x and y of all hops are concatenated.
3. Projection. An entity is embedded by the sum over its triples of the outer product of y_r and x_j. This
   product has far too many dimensions, so random projections approximate it. Each of `heads` weighs a
   triple by one random direction of y_r and keeps `width` random directions of x_j:

       e_i[head]  =  sum over N(i) of  (u_head . y_r)  V_head x_j

Steps 1 to 3 are repeated for some rounds. Mutual pairs that Sinkhorn matching is confident of become
pseudo-seeds of the next round. They are one-to-one and chosen again in every round, so an early mistake can
be corrected.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from divea.config import LabelPropagationOptions
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import beside_structure
from divea.matching import match
from divea.matching.similarity import normalise_
from divea.models.aggregation import FixedSum, stable_order
from divea.models.base import Model
from divea.models.stacking import StackedGraph, distinct_pairs
from divea.models.steps import report_step
from divea.resources.budget import MATCHING_MEMORY
from divea.types import Embeddings

_HEADS_AT_A_TIME = 32
"""Heads that are projected in one product; one at a time would read all labels again for each head."""


class LabelPropagation(Model):
    """Propagates labels from the seeds; see the module's docstring and `LabelPropagationOptions`."""

    options_type = LabelPropagationOptions
    in_threads = ("cpu", "cuda")

    def __init__(self, options: LabelPropagationOptions | None = None):
        self.options = options or LabelPropagationOptions()

    @torch.no_grad()
    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        options = self.options
        propagation = _Propagation(task, options, random_seed, device)
        seeds = task.seeds
        for _ in range(options.rounds - 1):
            draft = propagation.embed(seeds, options.draft_heads)
            seeds = self._with_pseudo_seeds(task, draft, random_seed)
        return propagation.embed(seeds, options.heads)

    def _with_pseudo_seeds(self, task: AlignmentTask, embeddings: Embeddings, random_seed: int) -> Links:
        """The task's seeds and the mutual matches above the threshold."""
        sources, candidates = task.unmatched_source, task.unmatched_target
        matches = match(
            embeddings,
            sources,
            candidates,
            # Propagation over the whole graphs started from pseudo-seeds: it would confirm them here.
            beside_structure(task.features),
            task.rejected,
            method="sinkhorn",
            top=1,
            random_seed=random_seed,
        )
        if not len(candidates):
            return task.seeds
        is_confident = matches.mutual & (matches.score[:, 0] > self.options.threshold)
        return task.seeds.union(Links(matches.source[is_confident], matches.best[is_confident]))

    def memory(self, task: AlignmentTask) -> int:
        options, sizes = self.options, (task.source.num_entities, task.target.num_entities)
        labels = (options.hops + 1) * options.labels
        propagating = labels + 3 * options.labels
        # What is projected, its sums over pieces of rows, and those over rows.
        projecting = labels + (options.heads + 3 * _HEADS_AT_A_TIME) * options.width
        # Matching a draft needs the rows of one side once more, and scores.
        scores = min(8 * sizes[0] * sizes[1], MATCHING_MEMORY)
        matching = 4 * (sum(sizes) + sizes[1]) * options.draft_heads * options.width + scores
        return max(4 * sum(sizes) * max(propagating, projecting), matching)


class _Propagation:
    """Propagation and projection over one task, for any seeds."""

    def __init__(self, task: AlignmentTask, options: LabelPropagationOptions, random_seed: int, device: str):
        self.graph, self.options = StackedGraph([task], device), options
        self._projected, self._heads = 0, (options.rounds - 1) * options.draft_heads + options.heads
        """The number of heads that are done, and of all heads, over all rounds."""
        self.generator = torch.Generator(device).manual_seed(random_seed)
        self.edges = self.graph.typed_edges
        node, relation, neighbour = self.graph.triple_columns
        self.nodes_to_nodes = _nodes_to_nodes(self.graph)
        self.nodes_to_relations = _distinct_sum(
            relation, node, (self.graph.num_relations, self.graph.num_nodes), device
        )
        self.relations_to_nodes = _distinct_sum(
            neighbour, relation, (self.graph.num_nodes, self.graph.num_relations), device
        )

    def embed(self, seeds: Links, heads: int) -> Embeddings:
        """Propagate labels from the seeds and project them."""
        nodes, relations = self._propagate(seeds)
        # The weight of an edge is the sum over its relations.
        directions = self._standard_normal(relations.shape[1], heads)
        type_weights = self.edges.relation_sum(relations @ directions)
        return self.graph.split(normalise_(self._project(nodes, type_weights)))[0]

    def _propagate(self, seeds: Links) -> tuple[Tensor, Tensor]:
        """The labels of nodes and relations, with those of all hops concatenated."""
        block, size = self.graph.blocks[0], self.options.labels
        labels = normalize(self._standard_normal(len(seeds), size), dim=1)
        # All hops share one matrix from the start, because nodes x labels is too large to concatenate.
        columns = (self.options.hops + 1) * size
        all_nodes = torch.zeros(self.graph.num_nodes, columns, device=labels.device)
        all_relations = torch.zeros(self.graph.num_relations, columns, device=labels.device)
        all_nodes[torch.from_numpy(seeds.source.astype(np.int64)), :size] = labels
        all_nodes[torch.from_numpy(seeds.target.astype(np.int64)) + block.middle, :size] = labels
        nodes, relations = all_nodes[:, :size].contiguous(), all_relations[:, :size].contiguous()
        for hop in range(1, self.options.hops + 1):
            new_relations = normalise_(self.nodes_to_relations(nodes))
            nodes = normalise_(self.nodes_to_nodes(nodes).add_(self.relations_to_nodes(relations)))
            relations = new_relations
            all_nodes[:, hop * size : (hop + 1) * size] = nodes
            all_relations[:, hop * size : (hop + 1) * size] = relations
        return normalise_(all_nodes), normalise_(all_relations)

    def _project(self, nodes: Tensor, type_weights: Tensor) -> Tensor:
        """For each node and head, the weighted sum of random directions of the neighbours' labels.

        `type_weights` has a row per edge type and a column per head.
        """
        neighbours, types = self.edges.neighbours.by_left, self.edges.types.right
        heads, width = type_weights.shape[1], self.options.width
        out = torch.empty(len(nodes), heads * width, device=nodes.device)
        for weights, columns in zip(
            torch.split(type_weights, _HEADS_AT_A_TIME, dim=1),
            torch.split(out, _HEADS_AT_A_TIME * width, dim=1),
            strict=True,
        ):
            projected = nodes @ self._standard_normal(nodes.shape[1], columns.shape[1])
            columns.copy_(neighbours.head_products(types, weights, projected))
            self._projected += weights.shape[1]
            report_step(self._projected, self._heads)
        return out

    def _standard_normal(self, rows: int, columns: int) -> Tensor:
        shape, device = (rows, columns), self.graph.device
        return torch.randn(shape, generator=self.generator, device=device)


def _nodes_to_nodes(graph: StackedGraph) -> FixedSum:
    """A node's own label with twice the weight of all its triples, plus its neighbours', once per triple."""
    node, _, neighbour = graph.triple_columns
    nodes = torch.arange(graph.num_nodes, device=graph.device)
    own_weight = 2.0 * torch.bincount(node, minlength=graph.num_nodes)
    left, right = torch.cat([node, nodes]), torch.cat([neighbour, nodes])
    weights = torch.cat([torch.ones_like(node, dtype=own_weight.dtype), own_weight])
    order = stable_order(left)
    size = (graph.num_nodes, graph.num_nodes)
    return FixedSum(left[order], right[order], weights[order], size, graph.device)


def _distinct_sum(left: Tensor, right: Tensor, size: tuple[int, int], device: str) -> FixedSum:
    """For each left end, the sum over its distinct right ends."""
    left, right = distinct_pairs(left, right, size[1])
    return FixedSum(left, right, torch.ones(len(left)), size, device)
