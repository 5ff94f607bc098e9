"""Several tasks as one graph with a block for each, so that they are trained together and stay separate.

The two graphs of a task become consecutive nodes, the source first; the next task follows. No edge connects
two blocks, every parameter belongs to one block, and every random draw comes from the block's own
generator. The result of a task is therefore the same whether it is stacked with others or not, while a GPU
gets few large operations instead of many small ones.
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
from divea.models.aggregation import EdgeIndex, FixedSum, sort_integers, weighted_sum
from divea.types import Embeddings


@dataclass(frozen=True)
class Block:
    """The position of one task in the stack.

    Nodes `first` to `middle` are its source entities, `middle` to `last` its target entities; the upper
    bounds are exclusive.
    """

    first: int
    middle: int
    last: int
    first_relation: int
    last_relation: int

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.last - self.first

    @property
    def relations(self) -> int:
        """The number of relations, inverses included."""
        return self.last_relation - self.first_relation


class StackedGraph:
    """The disjoint union of the graphs of some tasks.

    Every relation of a graph has two numbers here, one for itself and one for its inverse.

    >>> from divea.graphs.planted import planted_pair
    >>> stack = StackedGraph([planted_pair(entities=30).task, planted_pair(entities=40).task])
    >>> stack.num_nodes, [block.nodes for block in stack.blocks]
    (140, [60, 80])
    """

    def __init__(self, tasks: Sequence[AlignmentTask], device: str | torch.device = "cpu"):
        self.device = torch.device(device)
        blocks, triples = _stack(tasks)
        self.blocks = blocks
        self.triples = triples
        """(node, relation, neighbour): each triple once from either end, without self-loops."""
        self.num_nodes, self.num_relations = blocks[-1].last, blocks[-1].last_relation
        self.seeds, self.rejected = (
            [
                torch.from_numpy(pairs + np.array([block.first, block.middle])).to(self.device)
                for pairs, block in zip(links, blocks, strict=True)
            ]
            for links in ([task.seeds.pairs for task in tasks], [task.rejected.pairs for task in tasks])
        )
        """The seeds, and the rejected pairs, of each block as two columns of nodes."""

    def split(self, rows: Tensor) -> list[Embeddings]:
        """The embeddings of each task, from a matrix with a row per node."""
        return [Embeddings(rows[b.first : b.middle], rows[b.middle : b.last]) for b in self.blocks]

    @cached_property
    def block_of_node(self) -> Tensor:
        """The number of each node's block."""
        sizes = torch.tensor([block.nodes for block in self.blocks])
        return torch.repeat_interleave(sizes).to(self.device)

    @cached_property
    def has_equal_blocks(self) -> bool:
        """Whether all blocks have the same number of nodes."""
        return len({block.nodes for block in self.blocks}) == 1

    def padded(self, rows: Tensor, multiple: int = 1) -> Tensor:
        """A matrix with a row per node as blocks x nodes x columns, padded with zeros.

        The padded number of nodes is a multiple of `multiple`.
        """
        if self.has_equal_blocks:
            padded = torch.unflatten(rows, 0, (len(self.blocks), -1))
        else:
            padded = pad_sequence(list(torch.split(rows, [block.nodes for block in self.blocks])), True)
        missing = -padded.shape[1] % multiple
        return torch.nn.functional.pad(padded, (0, 0, 0, missing)) if missing else padded

    def unpadded(self, rows: Tensor) -> Tensor:
        """The inverse of `padded` with a multiple of 1."""
        if self.has_equal_blocks:
            return rows.flatten(0, 1)
        return torch.cat([part[: block.nodes] for part, block in zip(rows, self.blocks, strict=True)])

    @cached_property
    def triple_columns(self) -> tuple[Tensor, Tensor, Tensor]:
        """The node, relation and neighbour of every triple, on the device, where sorting them is faster."""
        node, relation, neighbour = torch.from_numpy(self.triples).to(self.device).T.contiguous()
        return node, relation, neighbour

    def edge_index(self, left: Tensor, right: Tensor, size: tuple[int, int]) -> EdgeIndex:
        """An index of edges, on the device of the stack."""
        return EdgeIndex.of(left, right, size, self.device)

    @cached_property
    def neighbour_mean(self) -> FixedSum:
        """The mean over a node and its neighbours, each counted once."""
        node, _, neighbour = self.triple_columns
        nodes = torch.arange(self.num_nodes, device=self.device)
        return self._mean(torch.cat([nodes, node]), torch.cat([nodes, neighbour]), self.num_nodes)

    @cached_property
    def relation_mean(self) -> FixedSum:
        """The mean over the relations that lead to a node, each counted once.

        A relation leads to its tail and its inverse leads to its head, as in the public code of RREA and
        Dual-AMN: the relations are those of the edges by which the neighbours reach the node.
        """
        _, relation, neighbour = self.triple_columns
        return self._mean(neighbour, relation, self.num_relations)

    def _mean(self, left: Tensor, right: Tensor, right_size: int) -> FixedSum:
        """For each left node, the mean over its distinct right ends."""
        left, right = distinct_pairs(left, right, right_size)
        weights = 1 / torch.bincount(left, minlength=self.num_nodes)[left]
        return FixedSum(left, right, weights, (self.num_nodes, right_size), self.device)

    @cached_property
    def typed_edges(self) -> TypedEdges:
        """The pairs of neighbours, with a type for the set of relations that connects them."""
        return TypedEdges(self)


def _stack(tasks: Sequence[AlignmentTask]) -> tuple[list[Block], np.ndarray]:
    """The blocks of the tasks, and all their triples in the numbers of the stack."""
    blocks: list[Block] = []
    triples: list[np.ndarray] = []
    nodes = relations = 0
    for task in tasks:
        first, first_relation = nodes, relations
        for graph in (task.source, task.target):
            renumbered, relations = _in_both_directions(graph, nodes, relations)
            triples.append(renumbered)
            nodes += graph.num_entities
        middle = first + task.source.num_entities
        blocks.append(Block(first, middle, nodes, first_relation, relations))
    return blocks, np.concatenate(triples)


def _in_both_directions(
    graph: KnowledgeGraph, first_node: int, first_relation: int
) -> tuple[np.ndarray, int]:
    """A graph's triples from either end, renumbered, and the next free relation number."""
    triples = graph.triples[graph.heads != graph.tails].astype(np.int64)
    # A subtask keeps the relation ids of the whole graph; only relations that occur get a number.
    occurs = np.bincount(triples[:, 1]) > 0
    num_relations = int(occurs.sum())
    head, tail = triples[:, 0] + first_node, triples[:, 2] + first_node
    relation = (np.cumsum(occurs) - 1)[triples[:, 1]] + first_relation
    forward = np.stack([head, relation, tail], axis=1)
    inverse = np.stack([tail, relation + num_relations, head], axis=1)
    return np.concatenate([forward, inverse]), first_relation + 2 * num_relations


class TypedEdges:
    """The pairs of neighbours as edges, with a type for every distinct set of relations between two nodes.

    Models represent an edge by the mean embedding of its relations. Most pairs are connected by one
    relation, and sets of several relations repeat, so there are far fewer types than edges. Whatever a
    model computes from the relations of an edge, it computes once per type.

    Parameters
    ----------
    copies
        The nodes and edges are repeated this many times, one copy after the other; the types are shared.
    """

    def __init__(self, graph: StackedGraph, copies: int = 1):
        pairs = _pairs_of_neighbours(graph)
        type_of_pair, example_of_type = _types_of_pairs(pairs, graph.num_relations)
        self.num_types = len(example_of_type)

        node, neighbour, edge_type = _copied_edges(pairs, type_of_pair, graph.num_nodes, copies)
        nodes = copies * graph.num_nodes
        self.neighbours = graph.edge_index(node, neighbour, (nodes, nodes))
        """The edges from a node to its neighbour."""
        self.types = graph.edge_index(node, edge_type, (nodes, self.num_types))
        """The same edges from the node to the edge's type."""
        self.neighbour_types = graph.edge_index(neighbour, edge_type, (nodes, self.num_types))
        """The same edges from the neighbour to the edge's type."""
        self._nodes = nodes

        types, relations = _relations_of_types(pairs, example_of_type)
        size = (self.num_types, graph.num_relations)
        self._relation_mean = FixedSum(
            types, relations, 1 / pairs.count[example_of_type][types], size, graph.device
        )
        self.relation_sum = FixedSum(types, relations, torch.ones(len(types)), size, graph.device)
        """For each type, the sum over its relations."""

        self._block_of_node = graph.block_of_node.repeat(copies)
        last_relations = torch.tensor([block.last_relation for block in graph.blocks], device=graph.device)
        any_relation = pairs.relations[pairs.first[example_of_type]]
        self._block_of_type = torch.searchsorted(last_relations, any_relation, right=True)

    @cached_property
    def _reflections(self) -> EdgeIndex:
        """Each edge twice, to its neighbour and to its type; types are numbered after the nodes."""
        ends = torch.stack([self.neighbours.right, self._nodes + self.types.right], dim=1).flatten()
        size = (self._nodes, self._nodes + self.num_types)
        return EdgeIndex(self.neighbours.left.repeat_interleave(2), ends, size)

    def directions(self, relations: Tensor) -> Tensor:
        """For each type, the mean of its relations' vectors, normalised to length one."""
        return torch.nn.functional.normalize(self._relation_mean(relations), dim=1)

    def reflected_sum(self, weights: Tensor, dots: Tensor, rows: Tensor, directions: Tensor) -> Tensor:
        """For each node, the weighted sum of its neighbours' vectors h, each reflected by its edge's type r.

        Since the sum of  w (h - 2 (h . r) r)  is  sum w h - sum 2 w (h . r) r,  it is one sparse product.

        Parameters
        ----------
        weights
            The weight w of each edge.
        dots
            The dot product h . r of each edge.
        rows, directions
            The vectors h of the nodes and the unit vectors r of the types.
        """
        both = torch.stack([weights, -2 * weights * dots], dim=1).flatten()
        return weighted_sum(self._reflections, both, torch.cat([rows, directions]))

    def node_products(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The dot product of each node's row with its block's row of `weights`."""
        return _product_with_own_block(rows, weights, self._block_of_node)

    def type_products(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The dot product of each type's row with its block's row of `weights`."""
        return _product_with_own_block(rows, weights, self._block_of_type)


@dataclass(frozen=True)
class _NeighbourPairs:
    """Every pair of neighbours once, sorted by node and neighbour, with the relations that connect it."""

    node: Tensor
    neighbour: Tensor
    relations: Tensor
    """The relations of all pairs, one pair after the other."""
    first: Tensor
    """The position of each pair's first relation."""
    count: Tensor
    """The number of each pair's relations."""

    @property
    def last(self) -> Tensor:
        """The position of each pair's last relation."""
        return self.first + self.count - 1


def _pairs_of_neighbours(graph: StackedGraph) -> _NeighbourPairs:
    """Group the triples by the two nodes that they connect."""
    node, relation, neighbour = graph.triple_columns
    nodes, relations = graph.num_nodes, max(graph.num_relations, 1)
    # Sorted by node, neighbour and relation, so the relations of a pair are consecutive.
    key = sort_integers((node * nodes + neighbour) * relations + relation)
    pair, count = torch.unique_consecutive(key // relations, return_counts=True)
    return _NeighbourPairs(
        node=pair // nodes,
        neighbour=pair % nodes,
        relations=key % relations,
        first=count.cumsum(0) - count,
        count=count,
    )


def _types_of_pairs(pairs: _NeighbourPairs, num_relations: int) -> tuple[Tensor, Tensor]:
    """The type of each pair, and an example pair for each type: the first one."""
    marks, type_of_pair = torch.unique(_marks_of_relation_sets(pairs, num_relations), return_inverse=True)
    positions = torch.arange(len(type_of_pair), device=marks.device)
    example_of_type = torch.full_like(marks, len(type_of_pair))
    return type_of_pair, example_of_type.scatter_reduce_(0, type_of_pair, positions, "amin")


def _marks_of_relation_sets(pairs: _NeighbourPairs, num_relations: int) -> Tensor:
    """A number for each pair that identifies its set of relations.

    It is the sum of a random 63-bit mark per relation, so two different sets practically never have the
    same number. Sums that overflow wrap around, so differences of running sums stay exact.
    """
    marks = np.random.default_rng(0).integers(0, 1 << 63, max(num_relations, 1), dtype=np.int64)
    mark = torch.from_numpy(marks).to(pairs.relations.device)[pairs.relations]
    running_sum = mark.cumsum(0)
    return running_sum[pairs.last] - running_sum[pairs.first] + mark[pairs.first]


def _copied_edges(
    pairs: _NeighbourPairs, type_of_pair: Tensor, num_nodes: int, copies: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The node, neighbour and type of every edge of all copies, one copy after the other."""
    first_node = num_nodes * torch.arange(copies, device=pairs.node.device)[:, None]
    node, neighbour = (pairs.node + first_node).flatten(), (pairs.neighbour + first_node).flatten()
    return node, neighbour, type_of_pair.repeat(copies)


def _relations_of_types(pairs: _NeighbourPairs, example_of_type: Tensor) -> tuple[Tensor, Tensor]:
    """The type and the relation of every element of the types' sets of relations, sorted by type."""
    count = pairs.count[example_of_type]
    types = torch.repeat_interleave(count)
    first_of_type = count.cumsum(0) - count
    position_in_set = torch.arange(len(types), device=types.device) - first_of_type[types]
    return types, pairs.relations[pairs.first[example_of_type][types] + position_in_set]


def _product_with_own_block(rows: Tensor, weights: Tensor, block: Tensor) -> Tensor:
    products = rows @ weights.T
    return products[:, 0] if len(weights) == 1 else products.gather(1, block[:, None])[:, 0]


def distinct_pairs(left: Tensor, right: Tensor, right_size: int) -> tuple[Tensor, Tensor]:
    """The distinct pairs of two columns of ids, sorted; every right id is below `right_size`.

    >>> left, right = distinct_pairs(torch.tensor([1, 0, 1]), torch.tensor([2, 3, 2]), 4)
    >>> left.tolist(), right.tolist()
    ([0, 1], [3, 2])
    """
    keys = torch.unique_consecutive(sort_integers(left * max(right_size, 1) + right))
    return keys // max(right_size, 1), keys % max(right_size, 1)
