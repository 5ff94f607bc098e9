"""A stack of tasks: what lies where, and what joins what."""

import numpy as np
import torch

from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.models.stacking import StackedGraph
from tests.models.planted import planted


def test_blocks_do_not_overlap_and_no_edge_crosses():
    tasks = [planted(seed=seed, entities=20 + seed)[0] for seed in range(3)]
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


def test_every_statement_stands_from_both_ends_and_self_loops_do_not():
    left = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "s", "b"), ("b", "r", "a")])
    graph = StackedGraph([AlignmentTask(left, left)])
    assert len(graph.triples) == 2 * 2 * 2
    half = graph.triples[graph.triples[:, 0] < 2]
    # Relation r and its inverse, numbered 0 and 1; s stands in a self-loop only.
    a, b = left.find(["a", "b"])
    assert {tuple(row) for row in half} == {(a, 0, b), (b, 1, a), (b, 0, a), (a, 1, b)}


def test_edges_are_typed_by_the_set_of_their_relations():
    task, _ = planted(entities=12, triples=150, relations=3)
    graph = StackedGraph([task])
    edges = graph.typed_edges
    relations_of: dict[tuple[int, int], set[int]] = {}
    for node, relation, neighbour in graph.triples:
        relations_of.setdefault((node, neighbour), set()).add(relation)
    pairs = list(zip(edges.neighbours.left.tolist(), edges.neighbours.right.tolist(), strict=True))
    assert sorted(pairs) == sorted(relations_of)
    assert edges.num_types == len({frozenset(found) for found in relations_of.values()}) < len(pairs)
    vectors = torch.randn(graph.num_relations, 4, generator=torch.Generator().manual_seed(0))
    directions = edges.directions(vectors)
    for pair, kind in zip(pairs, edges.types.right.tolist(), strict=True):
        mean = vectors[sorted(relations_of[pair])].mean(dim=0)
        assert torch.allclose(directions[kind], mean / mean.norm(), atol=1e-5)
    assert torch.equal(edges.neighbour_types.left, edges.neighbours.right)


def test_means_over_neighbours_and_relations():
    left = KnowledgeGraph.from_triples([("a", "r", "b"), ("a", "s", "b"), ("a", "r", "c")], ["lonely"])
    graph = StackedGraph([AlignmentTask(left, left, Links.from_pairs([(0, 0)]))])
    a, b, c, lonely = left.find(["a", "b", "c", "lonely"])
    rows = torch.eye(graph.num_nodes)
    mean = graph.neighbour_mean(rows)
    assert torch.allclose(mean[a], (rows[a] + rows[b] + rows[c]) / 3)
    assert torch.allclose(mean[lonely], rows[lonely])
    relations = graph.relation_mean(torch.eye(graph.num_relations))
    assert torch.allclose(relations[a].sum(), torch.tensor(1.0))
    assert relations[a].count_nonzero() == 2
    assert not relations[lonely].any()
