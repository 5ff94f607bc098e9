"""A stack of tasks: the position of each task, and the edges between its nodes."""

import numpy as np
import torch

from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.planted import planted_pair
from divea.models.stacking import StackedGraph, TypedEdges


def test_blocks_do_not_overlap_and_no_edge_connects_two():
    tasks = [planted_pair(20 + number, 250, random_seed=number, seeds=20).task for number in range(3)]
    graph = StackedGraph(tasks)
    assert graph.num_nodes == 2 * (20 + 21 + 22)
    side_of_node, side_of_relation = np.zeros(graph.num_nodes), np.full(graph.num_relations, -1)
    for number, (block, task, seeds) in enumerate(zip(graph.blocks, tasks, graph.seeds, strict=True)):
        side_of_node[block.first : block.middle] = 2 * number
        side_of_node[block.middle : block.last] = 2 * number + 1
        assert block.nodes == task.source.num_entities + task.target.num_entities
        assert np.array_equal(seeds.numpy() - [block.first, block.middle], task.seeds.pairs)
        assert (graph.block_of_node[block.first : block.last] == number).all()
    node, relation, neighbour = graph.triples.T
    assert np.array_equal(side_of_node[node], side_of_node[neighbour])
    # A relation belongs to one graph of one task, whatever its id there.
    side_of_relation[relation] = side_of_node[node]
    assert np.array_equal(side_of_relation[relation], side_of_node[node])
    assert (side_of_relation >= 0).all()


def test_rows_are_padded_by_block_and_back():
    tasks = [planted_pair(10 + number, 30, seeds=3, random_seed=number).task for number in range(2)]
    for stack, size in ((StackedGraph(tasks), 22), (StackedGraph([tasks[0], tasks[0]]), 20)):
        rows = torch.arange(3.0 * stack.num_nodes).view(-1, 3)
        padded = stack.padded(rows)
        assert padded.shape == (2, size, 3)
        assert torch.equal(stack.unpadded(padded), rows)
        assert torch.equal(stack.padded(rows, multiple=8)[:, :size], padded)
        assert not stack.padded(rows, multiple=8)[:, size:].any()


def test_every_triple_is_in_the_stack_from_both_ends_and_self_loops_are_not():
    left = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "b"), ("b", "r", "a")])
    graph = StackedGraph([AlignmentTask(left, left)])
    assert len(graph.triples) == 2 * 2 * 2
    of_source = graph.triples[graph.triples[:, 0] < 2]
    # Relation r and its inverse have numbers 0 and 1; s occurs only in a self-loop.
    a, b = left.find(["a", "b"])
    assert {tuple(row) for row in of_source} == {(a, 0, b), (b, 1, a), (b, 0, a), (a, 1, b)}


def test_edges_with_the_same_set_of_relations_have_the_same_type():
    graph = StackedGraph([planted_pair(entities=12, triples=150, relations=3, seeds=12).task])
    edges = graph.typed_edges
    relations_of: dict[tuple[int, int], set[int]] = {}
    for node, relation, neighbour in graph.triples:
        relations_of.setdefault((node, neighbour), set()).add(relation)
    pairs = list(zip(edges.neighbours.left.tolist(), edges.neighbours.right.tolist(), strict=True))
    assert sorted(pairs) == sorted(relations_of)
    assert edges.num_types == len({frozenset(found) for found in relations_of.values()}) < len(pairs)
    vectors = torch.randn(graph.num_relations, 4, generator=torch.Generator().manual_seed(0))
    directions, sums = edges.directions(vectors), edges.relation_sum(vectors)
    for pair, edge_type in zip(pairs, edges.types.right.tolist(), strict=True):
        of_pair = vectors[sorted(relations_of[pair])]
        assert torch.allclose(
            directions[edge_type], of_pair.mean(dim=0) / of_pair.mean(dim=0).norm(), atol=1e-5
        )
        assert torch.allclose(sums[edge_type], of_pair.sum(dim=0), atol=1e-5)
    assert torch.equal(edges.neighbour_types.left, edges.neighbours.right)


def test_copies_repeat_nodes_and_edges_and_share_types():
    graph = StackedGraph([planted_pair(12, 60, seeds=6, random_seed=number).task for number in range(2)])
    once, twice = graph.typed_edges, TypedEdges(graph, copies=2)
    assert twice.num_types == once.num_types
    for name, shifts_right in (("neighbours", True), ("types", False), ("neighbour_types", False)):
        single, double = getattr(once, name), getattr(twice, name)
        shift = graph.num_nodes
        assert torch.equal(double.left, torch.cat([single.left, single.left + shift]))
        assert torch.equal(double.right, torch.cat([single.right, single.right + shift * shifts_right]))


def test_means_over_neighbours_and_relations():
    left = KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "s", "b"), ("a", "r", "c")], ["isolated"])
    graph = StackedGraph([AlignmentTask(left, left, Links.from_pairs([(0, 0)]))])
    a, b, c, isolated = left.find(["a", "b", "c", "isolated"])
    rows = torch.eye(graph.num_nodes)
    mean = graph.neighbour_mean(rows)
    assert torch.allclose(mean[a], (rows[a] + rows[b] + rows[c]) / 3)
    assert torch.allclose(mean[isolated], rows[isolated])
    relations = graph.relation_mean(torch.eye(graph.num_relations))
    assert torch.allclose(relations[a].sum(), torch.tensor(1.0))
    assert relations[a].count_nonzero() == 2
    assert not relations[isolated].any()
