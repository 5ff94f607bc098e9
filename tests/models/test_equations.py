"""The layers and losses of the models give the same as their equations, written out edge by edge."""

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from divea.config import DualAmnOptions, LabelPropagationOptions, RreaOptions
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.planted import planted_pair
from divea.models.dual_amn import DualAmnEncoder
from divea.models.gcn_align import convolution
from divea.models.label_propagation import LabelPropagation, _Propagation
from divea.models.losses import HardLoss, MarginLoss, l1_distances, l1_gradient
from divea.models.rrea import RreaEncoder
from divea.models.stacking import StackedGraph
from divea.models.training import Draws


def task_with(entities, seeds, random_seed):
    return planted_pair(entities, triples=70, seeds=seeds, random_seed=random_seed).task


@pytest.fixture(scope="module")
def stack():
    return StackedGraph([task_with(15, 6, random_seed=0), task_with(19, 7, random_seed=1)])


def reflected_neighbours(edges, rows, directions, node):
    """(reflected neighbour, direction of the relation) for every edge of a node."""
    for edge in torch.nonzero(edges.neighbours.left == node)[:, 0]:
        neighbour, direction = rows[edges.neighbours.right[edge]], directions[edges.types.right[edge]]
        yield neighbour - 2 * (neighbour @ direction) * direction, direction


def test_rrea_layer(stack):
    encoder = RreaEncoder(stack, Draws(stack, [0, 1]), RreaOptions(dimensions=5))
    # Two copies of the graph, one for each channel.
    rows = torch.randn(2 * stack.num_nodes, 5, generator=torch.Generator().manual_seed(0))
    directions = encoder.edges.directions(encoder.relations)
    layer = encoder.layer(rows, directions, encoder.attention[0])
    # The attention of the paper also depends on the node itself, which must make no difference.
    for_self = torch.randn(2, 5, generator=torch.Generator().manual_seed(1))
    attention = torch.cat([for_self, encoder.attention[0]], dim=1)
    for node in range(2 * stack.num_nodes):
        weights = attention[stack.block_of_node[node % stack.num_nodes]]
        neighbours = list(reflected_neighbours(encoder.edges, rows, directions, node))
        expected = torch.zeros(5)
        if neighbours:
            logits = torch.stack(
                [torch.cat([rows[node], mirrored, direction]) @ weights for mirrored, direction in neighbours]
            )
            expected = torch.softmax(logits, dim=0) @ torch.stack([mirrored for mirrored, _ in neighbours])
        assert torch.allclose(layer[node], expected, atol=1e-5)


def test_rrea_embeddings_are_all_layers_of_both_channels(stack):
    encoder = RreaEncoder(stack, Draws(stack, [0, 1]), RreaOptions(dimensions=5))
    directions = encoder.edges.directions(encoder.relations)
    embedded = encoder()
    assert embedded.shape == (stack.num_nodes, 2 * 3 * 5)
    # Three layers that start from the neighbours, then three that start from the relations.
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
    concatenated = torch.randn(stack.num_nodes, 12, generator=torch.Generator().manual_seed(1))
    gated = channel.gated(concatenated)
    for node in range(stack.num_nodes):
        block = int(stack.block_of_node[node])
        neighbours = list(reflected_neighbours(stack.typed_edges, rows, directions, node))
        if neighbours:
            logits = torch.stack([direction @ channel.attention[0][block] for _, direction in neighbours])
            expected = torch.softmax(logits, dim=0) @ torch.stack([mirrored for mirrored, _ in neighbours])
            assert torch.allclose(layer[node], expected, atol=1e-5)
        proxies, gate = channel.proxies[3 * block : 3 * block + 3], channel.gate[12 * block : 12 * block + 12]
        description = concatenated[node]
        cosine = torch.cosine_similarity(description, proxies, dim=1)
        difference = description - torch.softmax(cosine, dim=0) @ proxies
        share = torch.sigmoid(difference @ gate + channel.bias[block, 0])
        expected = share * description + (1 - share) * difference
        assert torch.allclose(gated[node], expected, atol=1e-5)


def test_gcn_align_adjacency_by_hand():
    # r has two triples with one distinct tail (.5 per triple) and two heads (1 per triple); s has one each.
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


def propagated_by_hand(triples, nodes, relations):
    """One hop of label propagation: the new labels of nodes and relations."""
    new_nodes, new_relations = torch.zeros_like(nodes), torch.zeros_like(relations)
    for node, _, neighbour in triples:
        new_nodes[node] += 2 * nodes[node] + nodes[neighbour]
    for node, relation in {(neighbour, relation) for _, relation, neighbour in triples}:
        new_nodes[node] += relations[relation]
    for node, relation in {(node, relation) for node, relation, _ in triples}:
        new_relations[relation] += nodes[node]
    return normalize(new_nodes, dim=1), normalize(new_relations, dim=1)


@pytest.mark.usefixtures("double_precision")
def test_label_propagation():
    task, options = (
        task_with(15, 6, random_seed=0),
        LabelPropagationOptions(labels=7, heads=3, width=2, rounds=1),
    )
    graph = _Propagation(task, options, 5, "cpu").graph
    triples = [tuple(triple) for triple in graph.triples.tolist()]
    draw = torch.Generator().manual_seed(5)
    nodes, relations = torch.zeros(graph.num_nodes, 7), torch.zeros(graph.num_relations, 7)
    labels = normalize(torch.randn(6, 7, generator=draw), dim=1)
    for (source, target), label in zip(graph.seeds[0].tolist(), labels, strict=True):
        nodes[source] = nodes[target] = label
    node_hops, relation_hops = [nodes], [relations]
    for _ in range(2):
        nodes, relations = propagated_by_hand(triples, nodes, relations)
        node_hops.append(nodes)
        relation_hops.append(relations)
    nodes = normalize(torch.cat(node_hops, dim=1), dim=1)
    relations = normalize(torch.cat(relation_hops, dim=1), dim=1)
    head_directions = torch.randn(21, 3, generator=draw)
    neighbour_directions = torch.randn(21, 3 * 2, generator=draw).view(21, 3, 2)
    expected = torch.zeros(graph.num_nodes, 3, 2)
    for node, relation, neighbour in triples:
        weight = relations[relation] @ head_directions
        expected[node] += weight[:, None] * torch.einsum("d,dhw->hw", nodes[neighbour], neighbour_directions)
    expected = normalize(expected.flatten(1), dim=1)
    found = LabelPropagation(options).embed(task, random_seed=5)
    assert torch.allclose(torch.cat([found.source, found.target]), expected, atol=1e-9)
    assert expected.any()


def test_l1_distances_and_their_gradient():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 300, generator=generator, requires_grad=True)
    left, right = torch.randint(9, (2, 5000), generator=generator)
    weights = torch.randn(5000, generator=generator)
    distances = (rows[left] - rows[right]).abs().sum(dim=1)
    assert torch.allclose(l1_distances(rows, left, right), distances, rtol=1e-5)
    (expected,) = torch.autograd.grad((distances * weights).sum(), rows)
    assert torch.allclose(l1_gradient(rows.detach(), left, right, weights), expected, atol=1e-2)


def assert_same_loss_and_gradient(found, expected, rows):
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    gradients = [torch.autograd.grad(loss, rows)[0] for loss in (found, expected)]
    assert torch.allclose(*gradients, rtol=1e-6, atol=1e-9)
    assert gradients[0].any()


@pytest.fixture(params=["both blocks have seeds", "one block has no seeds"])
def seeded(stack, request):
    """The stack, and a similar one with a block without seeds."""
    if request.param == "both blocks have seeds":
        return stack
    return StackedGraph([task_with(15, 0, random_seed=0), task_with(19, 6, random_seed=1)])


def random_rows(graph, columns=7):
    shape, generator = (graph.num_nodes, columns), torch.Generator().manual_seed(0)
    return torch.randn(shape, generator=generator).requires_grad_()


@pytest.mark.usefixtures("double_precision")
def test_margin_loss(seeded):
    rows, counts = random_rows(seeded), [17, 5]
    # With this margin, some pairs violate it and others do not.
    margin_loss = MarginLoss(seeded, counts, 0.5)
    false_right, false_left = margin_loss.draw(Draws(seeded, [5, 6]))
    expected, negative = 0.0, 0
    for seeds, count in zip(seeded.seeds, counts, strict=True):
        for k in range(count if len(seeds) else 0):
            left, right = seeds[k % len(seeds)].tolist()
            limit = (rows[left] - rows[right]).abs().sum() + 0.5
            for far in (rows[left] - rows[false_right[negative]], rows[false_left[negative]] - rows[right]):
                expected += torch.relu(limit - far.abs().sum()) / count
            negative += 1
    assert negative == len(false_right) == len(false_left)
    assert_same_loss_and_gradient(margin_loss(rows, false_right, false_left), expected, rows)


def test_random_nodes_are_in_their_block(stack):
    drawn = Draws(stack, [5, 6]).nodes([40, 60])
    assert torch.equal(stack.block_of_node[drawn], torch.tensor([0] * 40 + [1] * 60))


@pytest.mark.usefixtures("double_precision")
@pytest.mark.parametrize("batch", [100, 5], ids=["all seeds", "a batch of seeds"])
@pytest.mark.parametrize("has_equal_blocks", [False, True], ids=["padded blocks", "equal blocks"])
def test_hard_loss(seeded, batch, has_equal_blocks):
    if has_equal_blocks:
        seeded = StackedGraph([task_with(15, 6, random_seed=0), task_with(15, 7, random_seed=1)])
    assert seeded.has_equal_blocks == has_equal_blocks
    rows, expected = random_rows(seeded), 0.0
    hard_loss = HardLoss(seeded, batch, 1.0, 30.0, 10.0)
    positions = Draws(seeded, [3, 4]).sample([batch, batch])
    for block, all_seeds, some in zip(seeded.blocks, seeded.seeds, positions, strict=True):
        nodes, seeds = rows[block.first : block.last], all_seeds[some]
        for left, right in seeds.tolist():
            limit = (rows[left] - rows[right]).square().sum() + 1
            for end in (left, right):
                violation = limit - (rows[end] - nodes).square().sum(dim=1)
                is_own = torch.zeros(block.nodes, dtype=torch.bool)
                is_own[[left - block.first, right - block.first]] = True
                violation = violation.masked_fill(is_own, 0)
                mean, deviation = violation.detach().mean(), violation.detach().std(correction=0)
                logits = 30 * (violation - mean) / deviation + 10
                expected = expected + torch.logsumexp(logits, dim=0) / len(seeds)
    assert_same_loss_and_gradient(hard_loss(rows, Draws(seeded, [3, 4])), expected, rows)


def test_dropout_drops_its_share_and_keeps_the_mean(stack):
    rows = torch.ones(stack.num_nodes, 1003)
    dropped = Draws(stack, [0, 1]).dropout(rows.clone(), 0.3)
    assert dropped.unique().tolist() == pytest.approx([0, 256 / 179])
    assert float((dropped == 0).float().mean()) == pytest.approx(77 / 256, abs=0.01)
    again = Draws(stack, [0, 1]).dropout(rows.clone(), 0.3)
    assert torch.equal(dropped, again)
