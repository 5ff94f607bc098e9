"""The models' layers and losses against their equations written out edge by edge."""

import numpy as np
import pytest
import torch

from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.models.dual_amn import DualAmnEncoder, DualAmnOptions
from divea.models.gcn_align import convolution
from divea.models.rrea import RreaEncoder, RreaOptions
from divea.models.stacking import StackedGraph
from divea.models.training import Draws, hard_loss, l1_distances, margin_loss
from tests.models.planted import planted


@pytest.fixture(scope="module")
def stack():
    tasks = [planted(seed=seed, entities=15 + 4 * seed, triples=70, seeds=6 + seed)[0] for seed in range(2)]
    return StackedGraph(tasks)


def reflected(edges, rows, directions, node):
    """(neighbour's reflection, its relation's direction) for every edge of a node."""
    for edge in torch.nonzero(edges.neighbours.left == node)[:, 0]:
        neighbour, direction = rows[edges.neighbours.right[edge]], directions[edges.types.right[edge]]
        yield neighbour - 2 * (neighbour @ direction) * direction, direction


def test_rrea_layer(stack):
    encoder = RreaEncoder(stack, Draws(stack, [0, 1]), RreaOptions(dimensions=5))
    # Two copies of the graph, one for each channel.
    rows = torch.randn(2 * stack.num_nodes, 5, generator=torch.Generator().manual_seed(0))
    directions = encoder.edges.directions(encoder.relations)
    layer = encoder.layer(rows, directions, encoder.attention[0])
    for node in range(2 * stack.num_nodes):
        weights = encoder.attention[0][stack.block_of_node[node % stack.num_nodes]]
        found = list(reflected(encoder.edges, rows, directions, node))
        expected = torch.zeros(5)
        if found:
            logits = torch.stack([torch.cat([rows[node], mirror, way]) @ weights for mirror, way in found])
            expected = torch.softmax(logits, dim=0) @ torch.stack([mirror for mirror, _ in found])
        assert torch.allclose(layer[node], expected, atol=1e-5)
    embedded = encoder()
    assert embedded.shape == (stack.num_nodes, 2 * 3 * 5)
    # Side by side: three layers that start from neighbours, then three that start from relations.
    starts = stack.neighbour_mean(encoder.entities), stack.relation_mean(encoder.relations)
    for channel, start in zip(embedded.chunk(2, dim=1), starts, strict=True):
        assert torch.allclose(channel[:, :5], torch.relu(start))
    first = torch.relu(encoder.layer(torch.relu(torch.cat(starts)), directions, encoder.attention[0]))
    assert torch.allclose(embedded[:, 5:10], first[: stack.num_nodes], atol=1e-6)
    assert torch.allclose(embedded[:, 20:25], first[stack.num_nodes :], atol=1e-6)


def test_dual_amn_layer_and_gate(stack):
    encoder = DualAmnEncoder(stack, Draws(stack, [0, 1]), DualAmnOptions(dimensions=4, proxies=3))
    channel = encoder.from_neighbours
    rows = torch.randn(stack.num_nodes, 4, generator=torch.Generator().manual_seed(0))
    directions = stack.typed_edges.directions(encoder.relations)
    layer = channel.reflect(rows, directions, channel.attention[0])
    wide = torch.randn(stack.num_nodes, 12, generator=torch.Generator().manual_seed(1))
    gated = channel.gated(wide)
    for node in range(stack.num_nodes):
        block = int(stack.block_of_node[node])
        found = list(reflected(stack.typed_edges, rows, directions, node))
        if found:
            logits = torch.stack([way @ channel.attention[0][block] for _, way in found])
            expected = torch.softmax(logits, dim=0) @ torch.stack([mirror for mirror, _ in found])
            assert torch.allclose(layer[node], expected, atol=1e-5)
        proxies, gate = channel.proxies[3 * block : 3 * block + 3], channel.gate[12 * block : 12 * block + 12]
        cosine = torch.cosine_similarity(wide[node], proxies, dim=1)
        special = wide[node] - torch.softmax(cosine, dim=0) @ proxies
        share = torch.sigmoid(special @ gate + channel.bias[block, 0])
        assert torch.allclose(gated[node], share * wide[node] + (1 - share) * special, atol=1e-5)


def test_gcn_align_adjacency_by_hand():
    # r: two triples with one distinct tail (share .5) and two heads (share 1); s: one of each.
    graph = KnowledgeGraph.from_triples([("a", "r", "c"), ("b", "r", "c"), ("a", "s", "b")])
    empty = KnowledgeGraph.from_triples([], extra_entities=["x"])
    stack = StackedGraph([AlignmentTask(graph, empty)])
    a, b, c = graph.find(["a", "b", "c"])
    weights = np.eye(4)
    weights[a, c] = weights[b, c] = 0.5
    weights[c, a] = weights[c, b] = 1
    weights[a, b] = weights[b, a] = 1
    scale = weights.sum(axis=1) ** -0.5
    expected = weights * scale[:, None] * scale
    assert np.allclose(convolution(stack)(torch.eye(4)).numpy(), expected, atol=1e-6)


def test_l1_distances_and_their_gradient():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 300, generator=generator, requires_grad=True)
    left, right = torch.randint(9, (2, 5000), generator=generator)
    weights = torch.randn(5000, generator=generator)
    ours, plain = l1_distances(rows, left, right), (rows[left] - rows[right]).abs().sum(dim=1)
    assert torch.allclose(ours, plain, rtol=1e-5)
    gradients = [torch.autograd.grad((found * weights).sum(), rows)[0] for found in (ours, plain)]
    assert torch.allclose(*gradients, atol=1e-2)


def test_margin_loss(stack):
    draws = Draws(stack, [5, 6])
    rows = torch.randn(stack.num_nodes, 7, generator=torch.Generator().manual_seed(0))
    negatives = [(draws.nodes(b, 17), draws.nodes(b, 17)) for b in range(2)]
    expected = 0.0
    for seeds, (false_right, false_left) in zip(stack.seeds, negatives, strict=True):
        for k in range(17):
            left, right = seeds[k % len(seeds)].tolist()
            close = (rows[left] - rows[right]).abs().sum() + 3
            for far in (rows[left] - rows[false_right[k]], rows[false_left[k]] - rows[right]):
                expected += float(torch.relu(close - far.abs().sum())) / 17
    assert float(margin_loss(rows, stack, negatives, 3.0)) == pytest.approx(expected, rel=1e-4)


def test_hard_loss(stack):
    rows = torch.randn(stack.num_nodes, 7, generator=torch.Generator().manual_seed(0))
    expected = 0.0
    for block, seeds in zip(stack.blocks, stack.seeds, strict=True):
        nodes = rows[block.first : block.last]
        for left, right in seeds.tolist():
            close = (rows[left] - rows[right]).square().sum()
            for end in (left, right):
                violation = close + 1 - (rows[end] - nodes).square().sum(dim=1)
                violation[[left - block.first, right - block.first]] = 0
                scaled = (violation - violation.mean()) / violation.std(correction=0)
                expected += float(torch.logsumexp(30 * scaled + 10, dim=0)) / len(seeds)
    assert float(hard_loss(rows, stack, stack.seeds, 1.0, 30.0, 10.0)) == pytest.approx(expected, rel=1e-4)


def test_dropout_drops_its_share_and_keeps_the_mean(stack):
    rows = torch.ones(stack.num_nodes, 1003)
    dropped = Draws(stack, [0, 1]).dropout(rows.clone(), 0.3)
    assert dropped.unique().tolist() == pytest.approx([0, 256 / 179])
    assert float((dropped == 0).float().mean()) == pytest.approx(77 / 256, abs=0.01)
    again = Draws(stack, [0, 1]).dropout(rows.clone(), 0.3)
    assert torch.equal(dropped, again)
