"""Label propagation, the algorithm of LightEA (Mao et al., EMNLP 2022): alignment without training.

Both ends of a seed get the same random unit vector, a label. Labels spread for two hops over
entities and relations. Then every entity sums, over its statements, the product of what the
relation and what the neighbour have received; that product lives in a space far too wide, so
random projections stand for it: each of `heads` weighs statements by one random direction of the
relation's labels and keeps `width` random directions of the neighbour's.

Repeated: pairs that Sinkhorn matching is sure of become pseudo-seeds of the next round. They are
one-to-one and chosen anew every round, so an early mistake can be taken back.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from divea.config import LabelPropagationOptions
from divea.graphs import AlignmentTask, Links
from divea.matching import match
from divea.matching.similarity import normalise_
from divea.models.aggregation import FixedSum, weighted_sum
from divea.models.base import Model
from divea.models.stacking import StackedGraph, distinct
from divea.resources.budget import MATCHING_MEMORY
from divea.types import Embeddings

_HEADS = 32  # projected in one product: one at a time would read all labels anew for each


class LabelPropagation(Model):
    """Propagates labels; see the module's text and `LabelPropagationOptions`."""

    options_type = LabelPropagationOptions

    def __init__(self, options: LabelPropagationOptions | None = None):
        self.options = options or LabelPropagationOptions()

    @torch.no_grad()
    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        options = self.options
        spread = _Propagation(task, options, random_seed, device)
        seeds = task.seeds
        for _ in range(options.rounds - 1):
            seeds = self._with_pseudo_seeds(task, spread(seeds, options.draft_heads), random_seed)
        return spread(seeds, options.heads)

    def _with_pseudo_seeds(self, task: AlignmentTask, embeddings: Embeddings, random_seed: int) -> Links:
        sources, candidates = task.unmatched_source, task.unmatched_target
        matches = match(embeddings, sources, candidates, method="sinkhorn", top=1, random_seed=random_seed)
        if not len(candidates):
            return task.seeds
        sure = matches.mutual & (matches.score[:, 0] > self.options.threshold)
        return task.seeds.union(Links(matches.source[sure], matches.best[sure]))

    def memory(self, task: AlignmentTask) -> int:
        options, sizes = self.options, (task.source.num_entities, task.target.num_entities)
        received = (options.hops + 1) * options.labels
        spreading = received + 3 * options.labels
        projecting = received + (options.heads + _HEADS) * options.width
        # Drafts are matched: the rows of one side once more, and scores.
        scores = min(8 * sizes[0] * sizes[1], MATCHING_MEMORY)
        matching = 4 * (sum(sizes) + sizes[1]) * options.draft_heads * options.width + scores
        return max(4 * sum(sizes) * max(spreading, projecting), matching)


class _Propagation:
    """One round, ready to be called with the seeds of the round."""

    def __init__(self, task: AlignmentTask, options: LabelPropagationOptions, random_seed: int, device: str):
        self.graph, self.options = StackedGraph([task], device), options
        self.generator = torch.Generator(device).manual_seed(random_seed)
        self.edges = self.graph.typed_edges
        node, _, neighbour = self.graph.triples.T
        nodes, relations = self.graph.num_nodes, self.graph.num_relations
        # A node keeps what it has with twice the weight of all that its neighbours send.
        own = 2.0 * np.bincount(node, minlength=nodes)
        ends = np.concatenate([node, np.arange(nodes)]), np.concatenate([neighbour, np.arange(nodes)])
        order = np.argsort(ends[0], kind="stable")
        weights = np.concatenate([np.ones(len(node)), own])[order]
        self.to_nodes = FixedSum(ends[0][order], ends[1][order], weights, (nodes, nodes), device)
        node_of, relation_of, neighbour_of = self.graph.columns
        told, by = distinct(relation_of, node_of, nodes)
        self.to_relations = FixedSum(told, by, torch.ones(len(told)), (relations, nodes), device)
        told, by = distinct(neighbour_of, relation_of, relations)
        self.from_relations = FixedSum(told, by, torch.ones(len(told)), (nodes, relations), device)

    def __call__(self, seeds: Links, heads: int) -> Embeddings:
        nodes, relations = self._spread(seeds)
        options, edges = self.options, self.edges
        # What a head thinks of an edge: the sum over the edge's relations.
        weights = edges.totals(relations @ self._normal(relations.shape[1], heads)).T.contiguous()
        projected = torch.empty(len(nodes), heads * options.width, device=nodes.device)
        for some, columns in zip(
            torch.split(weights, _HEADS), torch.split(projected, _HEADS * options.width, dim=1), strict=True
        ):
            kept = nodes @ self._normal(nodes.shape[1], len(some) * options.width)
            for head, own, column in zip(
                some,
                torch.split(kept, options.width, dim=1),
                torch.split(columns, options.width, dim=1),
                strict=True,
            ):
                column.copy_(weighted_sum(edges.neighbours, head[edges.types.right], own.contiguous()))
        return self.graph.split(normalise_(projected))[0]

    def _spread(self, seeds: Links) -> tuple[Tensor, Tensor]:
        """The labels that nodes and relations have received, hop by hop side by side."""
        block, size = self.graph.blocks[0], self.options.labels
        labels = normalize(self._normal(len(seeds), size), dim=1)
        # All hops in one matrix from the start: nodes x labels is too large to be copied together.
        columns = (self.options.hops + 1) * size
        nodes = torch.zeros(self.graph.num_nodes, columns, device=labels.device)
        relations = torch.zeros(self.graph.num_relations, columns, device=labels.device)
        nodes[torch.from_numpy(seeds.source.astype(np.int64)), :size] = labels
        nodes[torch.from_numpy(seeds.target.astype(np.int64)) + block.middle, :size] = labels
        node, relation = nodes[:, :size].contiguous(), relations[:, :size].contiguous()
        for hop in range(1, self.options.hops + 1):
            told = normalise_(self.to_relations(node))
            node = normalise_(self.to_nodes(node).add_(self.from_relations(relation)))
            relation = told
            nodes[:, hop * size : (hop + 1) * size] = node
            relations[:, hop * size : (hop + 1) * size] = relation
        return normalise_(nodes), normalise_(relations)

    def _normal(self, rows: int, columns: int) -> Tensor:
        shape, device = (rows, columns), self.graph.device
        return torch.randn(shape, generator=self.generator, device=device)
