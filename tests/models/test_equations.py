"""The models' layers and losses against their equations written out edge by edge."""

import numpy as np
import pytest
import torch

from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.models.dual_amn import DualAmnEncoder, DualAmnOptions
from divea.models.gcn_align import convolution
from divea.models.losses import HardLoss, MarginLoss, l1_distances, l1_gradient
from divea.models.rrea import RreaEncoder, RreaOptions
from divea.models.stacking import StackedGraph
from divea.models.training import Draws
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
    # The paper's attention sees the node itself as well, which must make no difference.
    of_self = torch.randn(2, 5, generator=torch.Generator().manual_seed(1))
    attention = torch.cat([of_self, encoder.attention[0]], dim=1)
    for node in range(2 * stack.num_nodes):
        weights = attention[stack.block_of_node[node % stack.num_nodes]]
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
    plain = (rows[left] - rows[right]).abs().sum(dim=1)
    assert torch.allclose(l1_distances(rows, left, right), plain, rtol=1e-5)
    (expected,) = torch.autograd.grad((plain * weights).sum(), rows)
    assert torch.allclose(l1_gradient(rows.detach(), left, right, weights), expected, atol=1e-2)


def agree(ours, plain, rows):
    """The same loss and the same gradient."""
    assert ours.item() == pytest.approx(plain.item(), rel=1e-6)
    gradients = [torch.autograd.grad(loss, rows)[0] for loss in (ours, plain)]
    assert torch.allclose(*gradients, rtol=1e-6, atol=1e-9)
    assert gradients[0].any()


@pytest.fixture(params=["both blocks", "a block without seeds"])
def seeded(stack, request):
    """The stack, and the same with one block that has no seeds."""
    if request.param == "both blocks":
        return stack
    tasks = [planted(seed=seed, entities=15 + 4 * seed, triples=70, seeds=6 * seed)[0] for seed in range(2)]
    return StackedGraph(tasks)


def normal(graph, columns=7):
    shape, generator = (graph.num_nodes, columns), torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).requires_grad_()


@pytest.mark.usefixtures("double_precision")
def test_margin_loss(seeded):
    rows, counts = normal(seeded), [17, 5]
    # Some pairs violate the margin, others do not.
    margin_loss = MarginLoss(seeded, counts, 0.5)
    false_right, false_left = margin_loss.draw(Draws(seeded, [5, 6]))
    expected, at = 0.0, 0
    for seeds, count in zip(seeded.seeds, counts, strict=True):
        for k in range(count if len(seeds) else 0):
            left, right = seeds[k % len(seeds)].tolist()
            close = (rows[left] - rows[right]).abs().sum() + 0.5
            for far in (rows[left] - rows[false_right[at]], rows[false_left[at]] - rows[right]):
                expected += torch.relu(close - far.abs().sum()) / count
            at += 1
    assert at == len(false_right) == len(false_left)
    agree(margin_loss(rows, false_right, false_left), expected, rows)


def test_random_ends_are_of_their_block(stack):
    drawn = Draws(stack, [5, 6]).nodes([40, 60])
    assert torch.equal(stack.block_of_node[drawn], torch.tensor([0] * 40 + [1] * 60))


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("batch", [100, 5], ids=["all seeds", "a batch of them"])
@pytest.mark.parametrize("equal", [False, True], ids=["padded", "blocks of one size"])
def test_hard_loss(seeded, batch, equal):
    if equal:
        tasks = [planted(seed=seed, entities=15, triples=70, seeds=6 + seed)[0] for seed in range(2)]
        seeded = StackedGraph(tasks)
    assert seeded.equally_large == equal
    rows, expected = normal(seeded), 0.0
    hard_loss = HardLoss(seeded, batch, 1.0, 30.0, 10.0)
    chosen = Draws(seeded, [3, 4]).sample([batch, batch])
    for block, every, some in zip(seeded.blocks, seeded.seeds, chosen, strict=True):
        nodes, seeds = rows[block.first : block.last], every[some]
        for left, right in seeds.tolist():
            close = (rows[left] - rows[right]).square().sum()
            for end in (left, right):
                violation = close + 1 - (rows[end] - nodes).square().sum(dim=1)
                own = torch.zeros(block.nodes, dtype=torch.bool)
                own[[left - block.first, right - block.first]] = True
                violation = violation.masked_fill(own, 0)
                mean, deviation = violation.detach().mean(), violation.detach().std(correction=0)
                logits = 30 * (violation - mean) / deviation + 10
                expected = expected + torch.logsumexp(logits, dim=0) / len(seeds)
    agree(hard_loss(rows, Draws(seeded, [3, 4])), expected, rows)


def test_dropout_drops_its_share_and_keeps_the_mean(stack):
    rows = torch.ones(stack.num_nodes, 1003)
    dropped = Draws(stack, [0, 1]).dropout(rows.clone(), 0.3)
    assert dropped.unique().tolist() == pytest.approx([0, 256 / 179])
    assert float((dropped == 0).float().mean()) == pytest.approx(77 / 256, abs=0.01)
    again = Draws(stack, [0, 1]).dropout(rows.clone(), 0.3)
    assert torch.equal(dropped, again)
