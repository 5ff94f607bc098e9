"""Contexts chosen by evidence: the first-order estimate, regions and limits.

test_equations.py compares the evidence model itself with the paper's equations.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from divea.config import EvidenceSettings
from divea.division.context import pick_contexts
from divea.division.evidence import EvidenceModel
from divea.division.groups import group_source, members_of
from divea.division.informativeness import Informativeness
from divea.division.selection import tie_breakers
from divea.errors import InputError
from divea.graphs.synth import SynthConfig, synthesise
from tests.division.paper import adjacency, graphs_with_parts, ids


@settings(max_examples=100)
@given(graphs_with_parts())
def test_the_first_order_cost_is_the_derivative_with_secant_slopes(problem):
    """Autograd through the same flow, in which each squash is replaced by its secant to zero."""
    size, edges, anchors, unmatched = problem
    matrix = torch.from_numpy(adjacency(size, edges).toarray()).to(torch.float64)
    start = torch.zeros((size, 1), dtype=torch.float64)
    start[anchors] = 1
    model = EvidenceModel.over(adjacency(size, edges), EvidenceSettings(), torch.float64)
    whole = model.flow(start)
    present = torch.ones((size, 1), dtype=torch.float64, requires_grad=True)

    def passed(value):
        # The paper's code masks the input of every layer and the last output. The output of training
        # is the input of inference, so it is masked once here.
        for _ in range(2):
            value = (value + matrix @ value) * present
        return value

    slopes = [
        torch.where(layer > 0, model.full_evidence / layer, 0)
        for layer in (whole.training[-1], whole.inference[-1])
    ]
    received = passed(passed(start * present) * slopes[0]) * slopes[1]
    costs = model.first_order_drop_costs(model.columns([ids(own) for own in unmatched]), whole)
    for part, own in enumerate(unmatched):
        (gradient,) = torch.autograd.grad(received[own].sum(), present, retain_graph=True)
        outside = [e for e in range(size) if e not in own]
        torch.testing.assert_close(costs[outside, part], gradient[outside, 0])


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1500, random_seed=3))


def contexts_by(method, pair, parts=3, count=90):
    """The contexts that a method picks for the parts of the source, and their informativeness."""
    task = pair.task
    groups, _ = group_source(task, parts)
    members = members_of(groups, task.unmatched_source)
    picked = list(
        pick_contexts(
            task.source.adjacency,
            members,
            task.seeds.source,
            [count] * len(members),
            tie_breakers(task.source.num_entities, 0, "source"),
            EvidenceSettings(method=method),
        )
    )
    measure = Informativeness.of(task.source.adjacency, task.seeds.source, EvidenceSettings())
    informative = [
        measure.share(np.union1d(own, context), own) for own, context in zip(members, picked, strict=True)
    ]
    return picked, informative


def test_first_order_picks_nearly_what_exact_picks_and_rounds_are_no_worse(pair):
    exact, informative_exact = contexts_by("exact", pair)
    first_order, informative_first_order = contexts_by("first_order", pair)
    _, informative_rounds = contexts_by("rounds", pair)
    shared = [len(np.intersect1d(a, b)) / len(a) for a, b in zip(exact, first_order, strict=True)]
    assert np.mean(shared) > 0.9
    assert sum(informative_first_order) > 0.995 * sum(informative_exact)
    assert sum(informative_rounds) >= sum(informative_exact)


def test_regions_give_nearly_the_same_contexts_as_the_whole_graph(monkeypatch):
    """With many parts, costs are computed in regions, unless regions are switched off."""
    pair = synthesise(SynthConfig(entities=6000, random_seed=5))
    in_regions, informative_regions = contexts_by("first_order", pair, parts=40, count=30)
    monkeypatch.setattr("divea.division.drop_costs.region_rows", lambda concerned: None)
    in_whole_graph, informative_whole = contexts_by("first_order", pair, parts=40, count=30)
    shared = [
        len(np.intersect1d(a, b)) / max(len(b), 1) for a, b in zip(in_regions, in_whole_graph, strict=True)
    ]
    assert np.mean(shared) > 0.93
    assert sum(informative_regions) > 0.998 * sum(informative_whole)


@pytest.mark.parametrize("method", ["first_order", "rounds"])
def test_a_context_holds_no_more_anchors_than_allowed(pair, method):
    task = pair.task
    (context,) = pick_contexts(
        task.source.adjacency,
        [task.unmatched_source],
        task.seeds.source,
        [60],
        tie_breakers(task.source.num_entities, 0, "source"),
        EvidenceSettings(method=method),
        anchor_limits=[7],
    )
    assert np.isin(context, task.seeds.source).sum() == 7


def test_an_unknown_evidence_method_is_refused():
    with pytest.raises(InputError, match="method: expected one of 'first_order', 'rounds', 'exact'"):
        EvidenceSettings(method="guess")
