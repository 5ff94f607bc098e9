"""Counterpart discovery: propagated locality, and the order and completeness of candidates.

test_equations.py compares hop locality and similarity weights with the paper's equations.
"""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.config import DivisionSettings
from divea.division.blocks import submatrix
from divea.division.discovery import counterpart_odds, discover_candidates, similarity_weights
from divea.division.groups import group_source
from divea.division.locality import HOPS, HUB_DAMPING, LOCALITIES, PropagatedLocality
from divea.errors import InputError
from divea.graphs import Links
from divea.graphs.synth import SynthConfig, synthesise


@st.composite
def graphs_with_anchors(draw):
    size = draw(st.integers(2, 15))
    pairs = draw(st.lists(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)), max_size=30))
    matrix = np.zeros((size, size), dtype=np.int32)
    for a, b in pairs:
        if a != b:
            matrix[a, b] += 1
            matrix[b, a] += 1
    anchors = np.array(sorted(draw(st.sets(st.integers(0, size - 1), min_size=1))), dtype=np.int32)
    parts = np.array([draw(st.integers(0, 2)) for _ in anchors], dtype=np.int32)
    return csr_array(matrix), anchors, parts


def all_scores(measure, matrix, anchors, parts, count=3):
    """The scores of all entities (rows) for all parts (columns), collected block by block."""
    table = np.full((matrix.shape[0], count), -np.inf, dtype=np.float32)
    locality = measure(measure.hop_matrix(matrix), anchors, parts, count)
    for block, rows in locality.regions():
        at = np.arange(matrix.shape[0]) if rows is None else rows
        table[at[:, None], np.array(block)] = locality.scores(block, rows).numpy()
    return table


@given(graphs_with_anchors())
def test_the_shares_of_all_parts_in_an_entity_add_up_to_one(problem):
    matrix, anchors, parts = problem
    found = all_scores(PropagatedLocality, matrix, anchors, parts)
    assert ((found > 0) | (found == -np.inf)).all()
    total = np.where(found > 0, found, 0).sum(axis=1)
    reached = (found > 0).any(axis=1)
    np.testing.assert_allclose(total[reached], 1, rtol=1e-5)
    for anchor, part in zip(anchors, parts, strict=True):
        assert found[anchor, part] == pytest.approx(1)


@given(graphs_with_anchors(), st.data())
def test_a_submatrix_keeps_the_edges_between_its_entities(problem, data):
    matrix, _, _ = problem
    ids = st.sets(st.integers(0, matrix.shape[0] - 1), min_size=1)
    rows = np.array(sorted(data.draw(ids)), dtype=np.int32)
    part = submatrix(matrix, rows)
    np.testing.assert_array_equal(part.toarray(), matrix.toarray()[rows][:, rows])
    assert part.nnz == np.count_nonzero(part.toarray())


@given(graphs_with_anchors(), st.data())
def test_propagation_follows_its_definition(problem, data):
    """In every hop, each entity takes the mean of its neighbours, and anchors are then set back."""
    matrix, anchors, parts = problem
    some = data.draw(st.sampled_from([1, 2, 3]))
    parts = np.where(parts < some, parts, -1)  # anchors of no part count only in the total
    weights = np.where(matrix.toarray() > 0, 1 + np.log(np.maximum(matrix.toarray(), 1)), 0)
    weights *= np.maximum(weights.sum(axis=1), 1e-9) ** -HUB_DAMPING
    mean = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
    held = np.zeros((len(anchors), some + 1))
    held[np.arange(len(anchors)), parts] = 1
    state = np.zeros((matrix.shape[0], some + 1))
    state[anchors] = held
    for _ in range(HOPS):
        state = mean @ state
        state[anchors] = held
    total = state.sum(axis=1, keepdims=True)
    expected = np.where(state[:, :some] > 0, state[:, :some] / np.where(total > 0, total, 1), -np.inf)
    with patch("divea.division.blocks._ROWS", data.draw(st.sampled_from([3, 1 << 15]))):
        hop_matrix = PropagatedLocality.hop_matrix(matrix)
        locality = PropagatedLocality(hop_matrix, anchors, parts, some)
    found = locality.scores(range(some), None).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("locality", LOCALITIES)
@given(problem=graphs_with_anchors(), random_seed=st.integers(0, 1000))
def test_scores_do_not_depend_on_the_ids_of_entities(locality, problem, random_seed):
    matrix, anchors, parts = problem
    order = np.random.default_rng(random_seed).permutation(matrix.shape[0])
    new_id = np.argsort(order)
    moved = csr_array(matrix.toarray()[order][:, order])
    before = all_scores(LOCALITIES[locality], matrix, anchors, parts)
    after = all_scores(LOCALITIES[locality], moved, new_id[anchors].astype(np.int32), parts)
    np.testing.assert_allclose(after, before[order], rtol=1e-4)


@pytest.mark.parametrize("locality", LOCALITIES)
@given(problem=graphs_with_anchors(), count=st.integers(0, 20))
def test_candidates_are_the_best_free_entities_and_as_many_as_requested(locality, problem, count):
    matrix, anchors, parts = problem
    links = Links(np.arange(len(anchors), dtype=np.int32), anchors)
    counts = np.full(3, count)
    lists = list(discover_candidates(matrix, links, parts, counts, taken=anchors, locality=locality))
    scores = all_scores(LOCALITIES[locality], matrix, anchors, parts)
    if locality == "propagate":
        scores *= counterpart_odds(matrix, anchors)[:, None]
    free = np.setdiff1d(np.arange(matrix.shape[0]), anchors)
    for part, candidates in enumerate(lists):
        assert len(set(candidates)) == len(candidates) == min(count, len(free))
        assert np.isin(candidates, free).all()
        own = scores[candidates, part]
        assert (np.diff(own) <= 0).all() if np.isfinite(own).all() else True
        left_out = np.setdiff1d(free, candidates)
        if len(left_out) and len(candidates):
            assert scores[left_out, part].max() <= own.min()


@given(graphs_with_anchors())
def test_odds_depend_on_the_degree_and_are_at_most_one(problem):
    matrix, anchors, _ = problem
    odds = counterpart_odds(matrix, anchors)
    assert ((odds > 0) & (odds <= 1)).all()
    degrees = np.diff(matrix.indptr)
    for degree in np.unique(degrees):
        assert len(set(odds[degrees == degree])) == 1
    # If every entity is a seed, all degrees are as frequent among the seeds as in the graph.
    assert (counterpart_odds(matrix, np.arange(matrix.shape[0])) == 1).all()


def test_near_entities_with_an_unlikely_degree_rank_lower():
    """A ring with a leaf at each entity: no leaf is among the seeds, so no leaf becomes a candidate."""
    ring, leaves = 40, 40
    matrix = np.zeros((ring + leaves, ring + leaves), dtype=np.int32)
    for at in range(ring):
        for other in ((at + 1) % ring, ring + at):
            matrix[at, other] = matrix[other, at] = 1
    anchors = np.arange(0, ring, 2, dtype=np.int32)
    links = Links(np.arange(len(anchors), dtype=np.int32), anchors)
    groups = np.zeros(len(anchors), dtype=np.int32)
    counts = np.array([ring // 2])
    found = next(discover_candidates(csr_array(matrix), links, groups, counts, taken=anchors))
    assert set(found) == set(range(1, ring, 2))


def test_ties_are_broken_by_a_seeded_draw_and_not_by_id():
    """All leaves of a star are equally near, so another random seed must choose others."""
    size = 200
    matrix = np.zeros((size, size), dtype=np.int32)
    matrix[0, 1:] = matrix[1:, 0] = 1
    links = Links(np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))
    groups = np.zeros(1, dtype=np.int32)

    def chosen(random_seed):
        lists = discover_candidates(
            csr_array(matrix), links, groups, [50], taken=links.target, random_seed=random_seed
        )
        return set(next(lists))

    assert chosen(0) == chosen(0) != chosen(1)
    assert set(range(1, 51)) not in (chosen(0), chosen(1))


@pytest.mark.parametrize("seed_share", [0.2, 0.02])  # with fewer seeds, parts meet after more hops
def test_regions_give_nearly_the_same_candidates_as_the_whole_graph(monkeypatch, seed_share):
    task = synthesise(SynthConfig(entities=6000, seed_share=seed_share, random_seed=2)).task
    groups, _ = group_source(task, 40)
    counts = np.full(40, 150)

    def candidates():
        return list(
            discover_candidates(task.target.adjacency, task.seeds, groups, counts, taken=task.seeds.target)
        )

    in_regions = candidates()
    monkeypatch.setattr("divea.division.locality.region_rows", lambda concerned: None)
    in_whole_graph = candidates()
    shared = [len(np.intersect1d(a, b)) / 150 for a, b in zip(in_regions, in_whole_graph, strict=True)]
    assert np.mean(shared) > 0.97


def test_a_high_similarity_weight_makes_an_entity_a_candidate():
    task = synthesise(SynthConfig(entities=300, random_seed=1)).task
    groups = np.zeros(task.source.num_entities, dtype=np.int32)

    def candidates(count, **more):
        graph, counts = task.target.adjacency, np.array([count])
        return next(discover_candidates(graph, task.seeds, groups, counts, taken=task.seeds.target, **more))

    without_weights = candidates(40)
    far = candidates(150)[60:100]
    weights = similarity_weights(
        csr_array((1, task.target.num_entities)), [far], [np.linspace(1, 5, len(far))], alpha=0.0
    )
    with_weights = candidates(40, bonus=weights, beta=10.0)
    assert not np.isin(far[-5:], without_weights).any()
    assert np.isin(far[-5:], with_weights).all()


def test_similarity_weights_keep_the_latest_value_of_every_entity():
    nothing = np.zeros(0, np.int32), np.zeros(0)
    candidates, sums = [nothing[0], np.array([0, 1])], [nothing[1], np.array([2.0, 4.0])]
    first = similarity_weights(csr_array((2, 4)), candidates, sums)
    candidates, sums = [nothing[0], np.array([2, 1])], [nothing[1], np.array([1.0, 1.0])]
    second = similarity_weights(first, candidates, sums)
    np.testing.assert_allclose(second.toarray(), [[0, 0, 0, 0], [-0.9, -0.9, -0.9, 0]])


def test_an_unknown_locality_is_refused():
    with pytest.raises(InputError, match="locality: expected one of 'propagate', 'bfs'; found 'near'"):
        DivisionSettings(locality="near")
