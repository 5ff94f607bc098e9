"""The evidence model against a naive reading of the paper's equations, entity by entity."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.division.columns import tie_draw
from divea.division.context import pick_contexts
from divea.division.evidence import EvidenceModel, EvidenceSettings, exact_costs
from divea.division.groups import group_source, members_of
from divea.division.yardstick import Yardstick
from divea.errors import InputError
from divea.graphs.synth import SynthConfig, synthesise

STRENGTH = 2.0


def naive_informativeness(edges, entities, anchors, wanted, whole=None, layers=2):
    """Eqs. 6-9 with dictionaries; `edges` is a list of triples' ends, each counted both ways."""

    def passed(start):
        layer = dict(start)
        for _ in range(layers):
            after = {e: layer[e] for e in entities}
            for head, tail in edges:
                if head in entities and tail in entities:
                    after[tail] += layer[head]
                    after[head] += layer[tail]
            layer = after
        return layer

    def squash(value, of):
        return 0.0 if of == 0 else 2 / (1 + math.exp(-STRENGTH * value / of)) - 1

    training = passed({e: float(e in anchors) for e in entities})
    learned = {e: squash(training[e], (whole[0] if whole else training)[e]) for e in entities}
    inference = passed(learned)
    received = {e: squash(inference[e], (whole[1] if whole else inference)[e]) for e in entities}
    return sum(received[e] for e in wanted if e in entities), (training, inference)


@st.composite
def problems(draw):
    size = draw(st.integers(2, 12))
    end = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(end, end), max_size=30))
    edges = [(head, tail) for head, tail in pairs if head != tail]
    anchors = draw(st.sets(end, max_size=size))
    parts = draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size))
    members = [[e for e in range(size) if parts[e] == part and e not in anchors] for part in range(3)]
    return size, edges, sorted(anchors), members


def adjacency_of(size, edges):
    matrix = np.zeros((size, size), dtype=np.int32)
    for head, tail in edges:
        matrix[head, tail] += 1
        matrix[tail, head] += 1
    return csr_array(matrix)


def ids(values):
    return np.array(sorted(values), dtype=np.int32)


@settings(max_examples=150)
@given(problems(), st.integers(1, 3))
def test_exact_equals_the_paper_entity_by_entity(problem, layers):
    size, edges, anchors, members = problem
    model = EvidenceModel.over(adjacency_of(size, edges), layers=layers, dtype=torch.float64)
    wanted = model.columns([ids(own) for own in members])
    costs = exact_costs(model, model.column(ids(anchors)), wanted, batch=5).numpy()
    everyone = set(range(size))
    for part, own in enumerate(members):
        complete, whole = naive_informativeness(edges, everyone, set(anchors), own, layers=layers)
        for e in everyone:
            left, _ = naive_informativeness(edges, everyone - {e}, set(anchors), own, whole, layers)
            assert costs[e, part] == pytest.approx(complete - left, abs=1e-9)


@settings(max_examples=150)
@given(problems(), st.sets(st.integers(0, 11)))
def test_a_context_is_measured_as_the_paper_does(problem, dropped):
    size, edges, anchors, members = problem
    own = sorted(set().union(*members))
    context = set(range(size)) - dropped | set(own)
    complete, whole = naive_informativeness(edges, set(range(size)), set(anchors), own)
    left, _ = naive_informativeness(edges, context, set(anchors), own, whole)
    yardstick = Yardstick.of(adjacency_of(size, edges), ids(anchors), EvidenceSettings())
    expected = left / complete if complete else 0.0
    assert yardstick.informativeness(ids(context), ids(own)) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=100)
@given(problems())
def test_first_order_is_the_derivative_with_secant_slopes(problem):
    """Autograd through the same flow, with squashes replaced by the lines to their ends."""
    size, edges, anchors, members = problem
    matrix = torch.from_numpy(adjacency_of(size, edges).toarray()).to(torch.float64)
    start = torch.zeros((size, 1), dtype=torch.float64)
    start[anchors] = 1
    model = EvidenceModel.over(adjacency_of(size, edges), dtype=torch.float64)
    whole = model.flow(start)
    present = torch.ones((size, 1), dtype=torch.float64, requires_grad=True)

    def passed(value):
        # The paper's code masks the input of every layer and the last output. The output of
        # training and the input of inference are one visit, which is counted once here.
        for _ in range(2):
            value = (value + matrix @ value) * present
        return value

    slope = [
        torch.where(layer > 0, model.full / layer, 0) for layer in (whole.training[-1], whole.inference[-1])
    ]
    received = passed(passed(start * present) * slope[0]) * slope[1]
    costs = model.first_order(model.columns([ids(own) for own in members]), whole)
    for part, own in enumerate(members):
        (gradient,) = torch.autograd.grad(received[own].sum(), present, retain_graph=True)
        outside = [e for e in range(size) if e not in own]
        torch.testing.assert_close(costs[outside, part], gradient[outside, 0])


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1500, seed=3))


def contexts_by(method, pair, parts=3, count=90):
    task = pair.task
    groups, _ = group_source(task, parts)
    members = members_of(groups, task.unmatched_source)
    picked = list(
        pick_contexts(
            task.source.adjacency,
            members,
            [task.seeds.source],
            [count] * len(members),
            tie_draw(task.source.num_entities, 0, "source"),
            EvidenceSettings(method=method),
        )
    )
    yardstick = Yardstick.of(task.source.adjacency, task.seeds.source, EvidenceSettings())
    informative = [
        yardstick.informativeness(np.union1d(own, context), own)
        for own, context in zip(members, picked, strict=True)
    ]
    return picked, informative


def test_first_order_picks_what_exact_picks_and_rounds_do_better(pair):
    exact, exactly = contexts_by("exact", pair)
    first, nearly = contexts_by("first_order", pair)
    _, rounds = contexts_by("rounds", pair)
    same = np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(exact, first, strict=True)])
    assert same > 0.9
    assert sum(nearly) > 0.995 * sum(exactly)
    assert sum(rounds) >= sum(exactly)


def test_a_region_finds_what_the_whole_graph_finds(monkeypatch):
    """Many parts are done in regions, unless regions are switched off."""
    pair = synthesise(SynthConfig(entities=6000, seed=5))
    regional, in_regions = contexts_by("first_order", pair, parts=40, count=30)
    monkeypatch.setattr("divea.division.drop_costs.region", lambda matters: None)
    whole, exactly = contexts_by("first_order", pair, parts=40, count=30)
    same = np.mean([len(np.intersect1d(a, b)) / max(len(b), 1) for a, b in zip(regional, whole, strict=True)])
    assert same > 0.93
    assert sum(in_regions) > 0.998 * sum(exactly)


def test_the_anchor_limit_is_kept(pair):
    task = pair.task
    for method in ("first_order", "rounds"):
        (context,) = pick_contexts(
            task.source.adjacency,
            [task.unmatched_source],
            [task.seeds.source],
            [60],
            tie_draw(task.source.num_entities, 0, "source"),
            EvidenceSettings(method=method),
            anchor_limits=[7],
        )
        assert np.isin(context, task.seeds.source).sum() == 7


def test_an_unknown_method_is_refused():
    with pytest.raises(InputError, match="unknown evidence method"):
        EvidenceSettings(method="guess")
