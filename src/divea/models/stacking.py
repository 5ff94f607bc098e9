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
from divea.matching import Embeddings
from divea.models.aggregation import EdgeIndex, FixedSum, weighted_sum


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

    def padded(self, rows: Tensor) -> Tensor:
        """A row per node as blocks x nodes x columns, small blocks filled up with zeros."""
        if self.padding is None:
            return torch.unflatten(rows, 0, (len(self.blocks), -1))
        return pad_sequence(list(torch.split(rows, [block.nodes for block in self.blocks])), True)

    def unpadded(self, rows: Tensor) -> Tensor:
        """The inverse of `padded`."""
        if self.padding is None:
            return rows.flatten(0, 1)
        return torch.cat([part[: block.nodes] for part, block in zip(rows, self.blocks, strict=True)])

    @cached_property
    def padding(self) -> Tensor | None:
        """Blocks x 1 x nodes: what `padded` filled up; None where blocks are equally large."""
        sizes = torch.tensor([block.nodes for block in self.blocks], device=self.device)
        place = torch.arange(max(block.nodes for block in self.blocks), device=self.device)
        filled = place >= sizes[:, None, None]
        return filled if filled.any() else None

    def edges(self, left: np.ndarray, right: np.ndarray, size: tuple[int, int]) -> EdgeIndex:
        """An index of edges on the device of the stack."""
        return EdgeIndex.of(left, right, size, self.device)

    @cached_property
    def neighbour_mean(self) -> FixedSum:
        """The mean over a node and its neighbours, each once."""
        nodes = np.arange(self.num_nodes)
        pairs = np.concatenate([np.stack([nodes, nodes], axis=1), self.triples[:, [0, 2]]])
        return self._mean(pairs, self.num_nodes)

    @cached_property
    def relation_mean(self) -> FixedSum:
        """The mean over the relations that lead to a node, each once.

        A relation leads to its tail and its inverse to its head: what a neighbour sees of the node
        when it looks along the edge, as in the public code of RREA and Dual-AMN.
        """
        return self._mean(self.triples[:, [2, 1]], self.num_relations)

    def _mean(self, pairs: np.ndarray, size: int) -> FixedSum:
        left, right = distinct(pairs[:, 0], pairs[:, 1], size)
        weights = 1 / np.bincount(left, minlength=self.num_nodes)[left]
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
        node, relation, neighbour = graph.triples.T.astype(np.int64)
        pair = node * graph.num_nodes + neighbour
        order = np.argsort(pair * max(graph.num_relations, 1) + relation)
        node, relation, neighbour, pair = node[order], relation[order], neighbour[order], pair[order]
        is_first = np.concatenate([[True], pair[1:] != pair[:-1]])[: len(pair)]
        starts = np.flatnonzero(is_first)
        # A set of relations is known by the sum of one random 64-bit number for each.
        marks = np.random.default_rng(0).integers(0, 1 << 63, graph.num_relations, dtype=np.uint64)
        key = np.add.reduceat(marks[relation], starts) if len(starts) else marks[:0]
        _, example, type_of_edge = np.unique(key, return_index=True, return_inverse=True)
        lengths = np.diff(np.append(starts, len(pair)))[example]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        members = relation[np.repeat(starts[example], lengths) + within]
        self.num_types = len(example)
        nodes, shift = copies * graph.num_nodes, graph.num_nodes * np.arange(copies)[:, None]
        left, right = (node[starts] + shift).ravel(), (neighbour[starts] + shift).ravel()
        kind = np.tile(type_of_edge, copies)
        self.neighbours = graph.edges(left, right, (nodes, nodes))
        """Edges from a node to its neighbour."""
        self.types = graph.edges(left, kind, (nodes, self.num_types))
        """The same edges from the node to the edge's type."""
        self.neighbour_types = graph.edges(right, kind, (nodes, self.num_types))
        """The same edges from the neighbour to the edge's type."""
        # Each edge twice, to the neighbour and to the type, which stand one after the other.
        both = np.stack([right, nodes + kind], axis=1).ravel()
        self._reflections = graph.edges(np.repeat(left, 2), both, (nodes, nodes + self.num_types))
        self._block_of_node = graph.block_of_node.repeat(copies)
        types = np.repeat(np.arange(self.num_types), lengths)
        shares = np.repeat(1 / lengths, lengths)
        size = (self.num_types, graph.num_relations)
        self._relation_mean = FixedSum(types, members, shares, size, graph.device)
        self.totals = FixedSum(types, members, np.ones(len(types)), size, graph.device)
        """For each type the sum over its relations."""
        last = [block.last_relation for block in graph.blocks]
        of_type = np.searchsorted(last, relation[starts[example]], side="right")
        self._block_of_type = torch.from_numpy(of_type).to(graph.device)

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


def distinct(left: np.ndarray, right: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs, sorted; `size` is above every right end.

    >>> [ends.tolist() for ends in distinct(np.array([1, 0, 1]), np.array([2, 3, 2]), 4)]
    [[0, 1], [3, 2]]
    """
    # One integer per pair sorts many times faster than rows of two. np.unique would hash the
    # integers, which takes a hundred times longer than sorting them.
    keys = np.sort(left.astype(np.int64) * max(size, 1) + right)
    keys = keys[np.diff(keys, prepend=-1) > 0]
    return keys // max(size, 1), keys % max(size, 1)


def _product_with_own(rows: Tensor, weights: Tensor, block: Tensor) -> Tensor:
    products = rows @ weights.T
    # With one block there is nothing to choose.
    return products[:, 0] if len(weights) == 1 else products.gather(1, block[:, None])[:, 0]


def _both_directions(graph: KnowledgeGraph, nodes: int, relations: int) -> tuple[np.ndarray, int]:
    """A graph's triples from either end, renumbered; and the next free relation number."""
    triples = graph.triples[graph.heads != graph.tails].astype(np.int64)
    # A subtask keeps the relation ids of the whole graph: number those that occur.
    used, relation = np.unique(triples[:, 1], return_inverse=True)
    head, tail, relation = triples[:, 0] + nodes, triples[:, 2] + nodes, relation + relations
    forth = np.stack([head, relation, tail], axis=1)
    back = np.stack([tail, relation + len(used), head], axis=1)
    return np.concatenate([forth, back]), relations + 2 * len(used)
