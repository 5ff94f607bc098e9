"""Several tasks as one graph with a block for each: they train in one step and do not mix.

A task's two graphs become consecutive nodes, the source's first; the next task follows. No edge
crosses blocks, every parameter belongs to one block, and every random draw comes from its
block's own generator. So a task's result is the same whether it is stacked with others or not,
while the GPU sees few large operations instead of many small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.models.aggregation import EdgeIndex, FixedSum, sort, weighted_sum
from divea.types import Embeddings


@dataclass(frozen=True)
class Block:
    """Where one task lies in the stack: nodes `first..middle` are its source, `middle..last` its target."""

    first: int
    middle: int
    last: int
    first_relation: int
    last_relation: int

    @property
    def nodes(self) -> int:
        return self.last - self.first

    @property
    def relations(self) -> int:
        return self.last_relation - self.first_relation


class StackedGraph:
    """The union of tasks' graphs. Each relation stands twice, the second time for its inverse."""

    def __init__(self, tasks: Sequence[AlignmentTask], device: str | torch.device = "cpu"):
        self.device = torch.device(device)
        self.blocks: list[Block] = []
        triples: list[np.ndarray] = []
        nodes = relations = 0
        for task in tasks:
            first, first_relation = nodes, relations
            for graph in (task.source, task.target):
                found, relations = _both_directions(graph, nodes, relations)
                triples.append(found)
                nodes += graph.num_entities
            middle = first + task.source.num_entities
            self.blocks.append(Block(first, middle, nodes, first_relation, relations))
        self.num_nodes, self.num_relations = nodes, relations
        self.triples = np.concatenate(triples)
        """(node, relation, neighbour), each statement once from either end; no self-loops."""
        self.seeds = [
            torch.from_numpy(task.seeds.pairs + np.array([block.first, block.middle])).to(self.device)
            for task, block in zip(tasks, self.blocks, strict=True)
        ]
        """Per block, the seeds as two columns of nodes."""

    @cached_property
    def block_of_node(self) -> Tensor:
        """The number of each node's block."""
        sizes = torch.tensor([block.nodes for block in self.blocks])
        return torch.repeat_interleave(sizes).to(self.device)

    def split(self, rows: Tensor) -> list[Embeddings]:
        """A row per node, cut into the embeddings of each task."""
        return [Embeddings(rows[b.first : b.middle], rows[b.middle : b.last]) for b in self.blocks]

    def padded(self, rows: Tensor, multiple: int = 1) -> Tensor:
        """A row per node as blocks x nodes x columns, filled up with zeros to a multiple of nodes."""
        if self.equally_large:
            padded = torch.unflatten(rows, 0, (len(self.blocks), -1))
        else:
            padded = pad_sequence(list(torch.split(rows, [block.nodes for block in self.blocks])), True)
        missing = -padded.shape[1] % multiple
        return torch.nn.functional.pad(padded, (0, 0, 0, missing)) if missing else padded

    def unpadded(self, rows: Tensor) -> Tensor:
        """The inverse of `padded`."""
        if self.equally_large:
            return rows.flatten(0, 1)
        return torch.cat([part[: block.nodes] for part, block in zip(rows, self.blocks, strict=True)])

    @cached_property
    def equally_large(self) -> bool:
        """Whether all blocks have the same number of nodes."""
        return len({block.nodes for block in self.blocks}) == 1

    @cached_property
    def columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """Node, relation and neighbour of every triple, on the device: it sorts them faster than the host."""
        node, relation, neighbour = torch.from_numpy(self.triples).to(self.device).T.contiguous()
        return node, relation, neighbour

    def edges(self, left: Tensor, right: Tensor, size: tuple[int, int]) -> EdgeIndex:
        """An index of edges on the device of the stack."""
        return EdgeIndex.of(left, right, size, self.device)

    @cached_property
    def neighbour_mean(self) -> FixedSum:
        """The mean over a node and its neighbours, each once."""
        node, _, neighbour = self.columns
        nodes = torch.arange(self.num_nodes, device=self.device)
        return self._mean(torch.cat([nodes, node]), torch.cat([nodes, neighbour]), self.num_nodes)

    @cached_property
    def relation_mean(self) -> FixedSum:
        """The mean over the relations that lead to a node, each once.

        A relation leads to its tail and its inverse to its head: what a neighbour sees of the node
        when it looks along the edge, as in the public code of RREA and Dual-AMN.
        """
        _, relation, neighbour = self.columns
        return self._mean(neighbour, relation, self.num_relations)

    def _mean(self, left: Tensor, right: Tensor, size: int) -> FixedSum:
        left, right = distinct(left, right, size)
        weights = 1 / torch.bincount(left, minlength=self.num_nodes)[left]
        return FixedSum(left, right, weights, (self.num_nodes, size), self.device)

    @cached_property
    def typed_edges(self) -> TypedEdges:
        """Each pair of neighbours once, with a type for the set of relations that joins them."""
        return TypedEdges(self)


class TypedEdges:
    """Pairs of neighbours, and a type for every distinct set of relations that joins a pair.

    Models give an edge the mean embedding of its relations. Most pairs are joined by one, and
    sets of several repeat, so there are far fewer types than edges: what a model computes of an
    edge's relations it computes once per type.
    """

    def __init__(self, graph: StackedGraph, copies: int = 1):
        """With several copies, each has its own nodes, one copy after the other; types are shared."""
        node, relation, neighbour = graph.columns
        nodes, relations, device = graph.num_nodes, max(graph.num_relations, 1), graph.device
        # In the order of node, neighbour and relation, so that the relations of a pair stand together.
        key = sort((node * nodes + neighbour) * relations + relation)
        pair, counts = torch.unique_consecutive(key // relations, return_counts=True)
        relation, starts = key % relations, counts.cumsum(0) - counts
        # A set of relations is known by the sum of one random number for each.
        marks = np.random.default_rng(0).integers(0, 1 << 63, relations, dtype=np.int64)
        mark = torch.from_numpy(marks).to(device)[relation]
        sums = mark.cumsum(0)
        known, type_of_edge = torch.unique(
            sums[starts + counts - 1] - sums[starts] + mark[starts], return_inverse=True
        )
        self.num_types = len(known)
        # The relations of a type are those of its first pair.
        numbers = torch.arange(len(pair), device=device)
        example = torch.full_like(known, len(pair)).scatter_reduce_(0, type_of_edge, numbers, "amin")
        lengths = counts[example]
        types = torch.repeat_interleave(lengths)
        within = torch.arange(len(types), device=device) - (lengths.cumsum(0) - lengths)[types]
        members = relation[starts[example][types] + within]
        shift = nodes * torch.arange(copies, device=device)[:, None]
        left, right = (pair // nodes + shift).flatten(), (pair % nodes + shift).flatten()
        kind = type_of_edge.repeat(copies)
        nodes *= copies
        self.neighbours = graph.edges(left, right, (nodes, nodes))
        """Edges from a node to its neighbour."""
        self.types = graph.edges(left, kind, (nodes, self.num_types))
        """The same edges from the node to the edge's type."""
        self.neighbour_types = graph.edges(right, kind, (nodes, self.num_types))
        """The same edges from the neighbour to the edge's type."""
        # Each edge twice, to the neighbour and to the type, which stand one after the other.
        both = torch.stack([right, nodes + kind], dim=1).flatten()
        self._reflections = graph.edges(left.repeat_interleave(2), both, (nodes, nodes + self.num_types))
        self._block_of_node = graph.block_of_node.repeat(copies)
        size = (self.num_types, graph.num_relations)
        self._relation_mean = FixedSum(types, members, 1 / lengths[types], size, device)
        self.totals = FixedSum(types, members, torch.ones(len(types)), size, device)
        """For each type the sum over its relations."""
        last = torch.tensor([block.last_relation for block in graph.blocks], device=device)
        self._block_of_type = torch.searchsorted(last, relation[starts[example]], right=True)

    def directions(self, relations: Tensor) -> Tensor:
        """For each type the mean of its relations' vectors, brought to length one."""
        return torch.nn.functional.normalize(self._relation_mean(relations), dim=1)

    def reflected_sum(self, weights: Tensor, along: Tensor, rows: Tensor, types: Tensor) -> Tensor:
        """For each node the weighted sum of its neighbours' rows h, each reflected by its edge's type r.

        `along` is h . r, so that the sum of  w (h - 2 (h . r) r)  is one sparse product.
        """
        both = torch.stack([weights, -2 * weights * along], dim=1).flatten()
        return weighted_sum(self._reflections, both, torch.cat([rows, types]))

    def of_nodes(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The product of each node's row with the weights of its block."""
        return _product_with_own(rows, weights, self._block_of_node)

    def of_types(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The product of each type's row with the weights of its block."""
        return _product_with_own(rows, weights, self._block_of_type)


def distinct(left: Tensor, right: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Distinct pairs, sorted; `size` is above every right end.

    >>> [ends.tolist() for ends in distinct(torch.tensor([1, 0, 1]), torch.tensor([2, 3, 2]), 4)]
    [[0, 1], [3, 2]]
    """
    keys = torch.unique_consecutive(sort(left * max(size, 1) + right))
    return keys // max(size, 1), keys % max(size, 1)


def _product_with_own(rows: Tensor, weights: Tensor, block: Tensor) -> Tensor:
    products = rows @ weights.T
    # With one block there is nothing to choose.
    return products[:, 0] if len(weights) == 1 else products.gather(1, block[:, None])[:, 0]


def _both_directions(graph: KnowledgeGraph, nodes: int, relations: int) -> tuple[np.ndarray, int]:
    """A graph's triples from either end, renumbered; and the next free relation number."""
    triples = graph.triples[graph.heads != graph.tails].astype(np.int64)
    # A subtask keeps the relation ids of the whole graph: number those that occur.
    occurs = np.bincount(triples[:, 1]) > 0
    used = int(occurs.sum())
    head, tail = triples[:, 0] + nodes, triples[:, 2] + nodes
    relation = (np.cumsum(occurs) - 1)[triples[:, 1]] + relations
    forth = np.stack([head, relation, tail], axis=1)
    back = np.stack([tail, relation + used, head], axis=1)
    return np.concatenate([forth, back]), relations + 2 * used
