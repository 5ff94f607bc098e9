"""The paper's equations by number: the code against tests/division/paper.py, which spells them out."""

import ast
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import divea
from divea.config import EvidenceSettings
from divea.division import Subtask
from divea.division.discovery import discover_candidates, similarity_weights
from divea.division.evidence import EvidenceModel, exact_drop_costs
from divea.division.informativeness import Informativeness
from divea.division.locality import MOST_PRODUCTS, HopLocality
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.loop.solve import solve
from divea.models import Model
from divea.types import Embeddings
from tests.division import paper
from tests.division.paper import graphs_with_parts, ids

PACKAGES = ("division", "loop")
"""Where the paper's method is implemented."""


@pytest.mark.parametrize("products", [0, 1, MOST_PRODUCTS])
@given(problem=graphs_with_parts())
def test_eq_2_locality_is_minus_the_distance_to_the_nearest_anchor(products, problem):
    size, edges, _, anchors_of_parts = problem
    anchors = np.array([e for own in anchors_of_parts for e in own], dtype=np.int32)
    parts = np.repeat(np.arange(3, dtype=np.int32), [len(own) for own in anchors_of_parts])
    near = HopLocality(HopLocality.hop_matrix(paper.adjacency(size, edges)), anchors, parts, 3)
    ((block, rows),) = near.regions()
    with mock.patch("divea.division.locality.MOST_PRODUCTS", products):
        found = near.scores(block, rows).numpy()
    for part, own in enumerate(anchors_of_parts):
        np.testing.assert_array_equal(found[:, part], paper.locality(size, edges, own))


class Fixed(Model):
    """Embeds entities as given vectors, one row per entity of each graph."""

    def __init__(self, source, target):
        self.embeddings = Embeddings(torch.from_numpy(source), torch.from_numpy(target))

    def embed(self, task, *, random_seed=0, device="cpu"):
        return self.embeddings


@given(random_seed=st.integers(0, 1000), unmatched=st.integers(1, 8), candidates=st.integers(1, 8))
def test_eq_3_sums_the_k_highest_similarities_to_the_unmatched_entities(random_seed, unmatched, candidates):
    graphs = [
        KnowledgeGraph.from_triples([], [f"{side}{i}" for i in range(count)])
        for side, count in (("s", unmatched + 2), ("t", candidates + 3))
    ]
    task = AlignmentTask(*graphs, Links.from_pairs([]))
    rng = np.random.default_rng(random_seed)
    source, target = (rng.normal(size=(graph.num_entities, 4)) for graph in graphs)
    # Two source and three target entities are context: they do not count.
    subtask = Subtask.of(
        0,
        task,
        source_entities=np.arange(unmatched + 2),
        target_entities=np.arange(candidates + 3),
        unmatched=rng.permutation(unmatched + 2)[:unmatched],
        candidates=rng.permutation(candidates + 3)[:candidates],
    )
    k = int(rng.integers(1, unmatched + 1))
    no_links = Links.from_pairs([])
    (solved,) = solve(Fixed(source, target), task, [subtask], no_links, random_seeds=[0], nearest=k)

    def cosine(s, t):
        return source[s] @ target[t] / np.linalg.norm(source[s]) / np.linalg.norm(target[t])

    expected = [paper.top_sum([cosine(s, t) for s in subtask.unmatched], k) for t in subtask.candidates]
    np.testing.assert_allclose(solved.top_sums, expected, rtol=1e-5, atol=1e-5)


@given(
    sums=st.lists(st.floats(-50, 50), min_size=2, max_size=8, unique=True),
    alpha=st.floats(0, 1),
    earlier=st.lists(st.floats(0.25, 1), min_size=12, max_size=12),
    data=st.data(),
)
def test_eq_4_scales_the_sums_of_a_part_and_keeps_earlier_weights(sums, alpha, earlier, data):
    candidates = np.array(data.draw(st.permutations(range(12)))[: len(sums)], dtype=np.int32)
    never = data.draw(st.sets(st.integers(0, 11)))
    previous = np.array([[0.0 if e in never else earlier[e] for e in range(12)], np.zeros(12)])
    nothing = np.zeros(0, dtype=np.int32)
    found = similarity_weights(csr_array(previous), [candidates, nothing], [np.array(sums), nothing], alpha)
    expected = previous[0].copy()
    expected[candidates] = paper.similarity_weight(sums, alpha)
    np.testing.assert_allclose(found.toarray()[0], expected, rtol=1e-5, atol=1e-6)
    assert not found.toarray()[1].any(), "entities that never were candidates have weight 0"


def test_eq_4_of_equal_sums_is_minus_alpha():
    """The paper's quotient is then 0 / 0; the candidates count as those with the lowest sum."""
    found = similarity_weights(csr_array((1, 3)), [np.array([0, 2])], [np.array([4.0, 4.0])], alpha=0.25)
    assert found.toarray().tolist() == [[-0.25, 0, -0.25]]


@st.composite
def connected_graphs(draw):
    """A tree with some further edges."""
    size = draw(st.integers(4, 12))
    tree = [(draw(st.integers(0, e - 1)), e) for e in range(1, size)]
    end = st.integers(0, size - 1)
    more = draw(st.lists(st.tuples(end, end).filter(lambda edge: edge[0] != edge[1]), max_size=8))
    return size, tree + more


@given(connected_graphs(), st.floats(0, 5), st.data())
def test_eq_5_candidates_are_ranked_by_locality_plus_beta_times_similarity(graph, beta, data):
    size, edges = graph
    anchors = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=3))
    weight = st.sampled_from([-0.9, -0.5, 0.0, 0.05, 0.1])
    w_sim = np.array(data.draw(st.lists(weight, min_size=size, max_size=size)), dtype=np.float32)
    expected = paper.locality(size, edges, anchors) + beta * w_sim
    free = np.setdiff1d(np.arange(size), ids(anchors))
    count = data.draw(st.integers(0, len(free)))
    links = Links(np.arange(len(anchors), dtype=np.int32), ids(anchors))
    (found,) = discover_candidates(
        paper.adjacency(size, edges),
        links,
        np.zeros(len(anchors), dtype=np.int32),
        np.array([count]),
        taken=ids(anchors),
        locality="bfs",
        bonus=csr_array(w_sim[None]),
        beta=beta,
    )
    assert len(set(found.tolist())) == count
    np.testing.assert_allclose(expected[found], np.sort(expected[free])[::-1][:count], atol=1e-5)


@settings(max_examples=100)
@given(graphs_with_parts(), st.integers(1, 3), st.sampled_from([0.5, 2.0, 7.0]))
def test_eqs_6_to_8_over_the_whole_graph(problem, layers, strength):
    size, edges, anchors, _ = problem
    choices = EvidenceSettings(layers=layers, strength=strength)
    model = EvidenceModel.over(paper.adjacency(size, edges), choices, torch.float64)
    flow = model.flow(model.column(ids(anchors)))
    everything = set(range(size))
    whole = paper.pass_evidence(size, edges, everything, anchors, layers=layers, strength=strength)
    np.testing.assert_allclose(flow.training[-1].ravel(), whole.training)
    np.testing.assert_allclose(flow.inference[-1].ravel(), whole.inference)
    np.testing.assert_allclose(model.received(flow).ravel(), whole.received)


@settings(max_examples=150)
@given(graphs_with_parts(), st.sets(st.integers(0, 11)))
def test_eq_9_informativeness_of_a_context_graph(problem, dropped):
    """It is given as a share of the whole graph's informativeness."""
    size, edges, anchors, parts = problem
    unmatched = sorted(set().union(*parts))
    context = set(range(size)) - dropped | set(unmatched)
    whole = paper.pass_evidence(size, edges, set(range(size)), anchors)
    left = paper.pass_evidence(size, edges, context, anchors, whole=whole)
    complete = whole.informativeness(unmatched)
    expected = left.informativeness(unmatched) / complete if complete else 0.0
    measure = Informativeness.of(paper.adjacency(size, edges), ids(anchors), EvidenceSettings())
    assert measure.share(ids(context), ids(unmatched)) == pytest.approx(expected, abs=1e-9)
    np.testing.assert_allclose(
        measure.evidence(ids(context), ids(unmatched)) * np.tanh(1.0), left.received[unmatched], atol=1e-9
    )


@settings(max_examples=150)
@given(graphs_with_parts(), st.integers(1, 3))
def test_eq_10_exact_drop_costs_equal_passing_evidence_again_without_each_entity(problem, layers):
    size, edges, anchors, parts = problem
    model = EvidenceModel.over(paper.adjacency(size, edges), EvidenceSettings(layers=layers), torch.float64)
    receivers = model.columns([ids(own) for own in parts])
    costs = exact_drop_costs(model, model.column(ids(anchors)), receivers, batch=5).numpy()
    for part, own in enumerate(parts):
        for entity in range(size):
            expected = paper.drop_cost(size, edges, anchors, own, entity, layers=layers)
            assert costs[entity, part] == pytest.approx(expected, abs=1e-9)


def equations_named_in(text):
    """The numbers of the equations that a text names, as "Eq. 6" or as "Eqs. 6 to 9"."""
    numbers = {int(number) for number in re.findall(r"\bEq\.\s+(\d+)", text)}
    for first, last in re.findall(r"\bEqs\.\s+(\d+)\s+to\s+(\d+)", text):
        numbers |= set(range(int(first), int(last) + 1))
    return numbers


def docstrings(path):
    """All docstrings of a module, including those below fields and constants."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


def test_every_equation_is_named_in_a_docstring():
    root = Path(divea.__file__).parent
    paths = [path for package in PACKAGES for path in sorted((root / package).glob("*.py"))]
    named = [equations_named_in(text) for path in paths for text in docstrings(path)]
    assert set(range(2, 11)) <= set().union(*named)
    assert set().union(*named) <= set(range(1, 11)), "the paper's method has no other equations"
