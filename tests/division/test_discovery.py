"""Counterpart discovery: its scores against plain definitions, and its promises about ties and reach."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import shortest_path

from divea.division.columns import cut_out
from divea.division.discovery import discover, likelihood, similarity_weights
from divea.division.groups import group_source
from divea.division.locality import HUB_DAMPING, LOCALITY, STEPS, Hops, Propagated
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


def all_scores(scorer, matrix, anchors, parts, count=3):
    table = np.full((matrix.shape[0], count), -np.inf, dtype=np.float32)
    locality = scorer(scorer.passing(matrix), anchors, parts, count)
    for block, rows in locality.regions():
        at = np.arange(matrix.shape[0]) if rows is None else rows
        table[at[:, None], np.array(block)] = locality.scores(block, rows).numpy()
    return table


@given(graphs_with_anchors())
def test_bfs_is_the_distance(problem):
    matrix, anchors, parts = problem
    found = all_scores(Hops, matrix, anchors, parts)
    hops = shortest_path(matrix, unweighted=True, directed=False)
    for part in range(3):
        own = anchors[parts == part]
        expected = hops[own].min(axis=0) if len(own) else np.full(matrix.shape[0], np.inf)
        np.testing.assert_array_equal(-found[:, part], expected)


@given(graphs_with_anchors())
def test_propagated_shares_add_up_to_one(problem):
    matrix, anchors, parts = problem
    found = all_scores(Propagated, matrix, anchors, parts)
    assert ((found > 0) | (found == -np.inf)).all()
    total = np.where(found > 0, found, 0).sum(axis=1)
    reached = (found > 0).any(axis=1)
    np.testing.assert_allclose(total[reached], 1, rtol=1e-5)
    for anchor, part in zip(anchors, parts, strict=True):
        assert found[anchor, part] == pytest.approx(1)


@given(graphs_with_anchors(), st.data())
def test_cutting_out_keeps_what_lies_between(problem, data):
    matrix, _, _ = problem
    ids = st.sets(st.integers(0, matrix.shape[0] - 1), min_size=1)
    rows = np.array(sorted(data.draw(ids)), dtype=np.int32)
    part = cut_out(matrix, rows)
    np.testing.assert_array_equal(part.toarray(), matrix.toarray()[rows][:, rows])
    assert part.nnz == np.count_nonzero(part.toarray())


@given(graphs_with_anchors(), st.data())
def test_propagation_is_that_of_anchors_held_in_every_hop(problem, data):
    """Against the definition: every entity takes the mean of its neighbours, then anchors are put back."""
    matrix, anchors, parts = problem
    some = data.draw(st.sampled_from([1, 2, 3]))
    parts = np.where(parts < some, parts, -1)  # anchors of no part count in the total alone
    weights = np.where(matrix.toarray() > 0, 1 + np.log(np.maximum(matrix.toarray(), 1)), 0)
    weights *= np.maximum(weights.sum(axis=1), 1e-9) ** -HUB_DAMPING
    mean = weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)
    held = np.zeros((len(anchors), some + 1))
    held[np.arange(len(anchors)), parts] = 1
    state = np.zeros((matrix.shape[0], some + 1))
    state[anchors] = held
    for _ in range(STEPS):
        state = mean @ state
        state[anchors] = held
    total = state.sum(axis=1, keepdims=True)
    expected = np.where(state[:, :some] > 0, state[:, :some] / np.where(total > 0, total, 1), -np.inf)
    with patch("divea.division.columns.ROWS", data.draw(st.sampled_from([3, 1 << 15]))):
        locality = Propagated(Propagated.passing(matrix), anchors, parts, some)
    found = locality.scores(range(some), None).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("locality", LOCALITY)
@given(problem=graphs_with_anchors(), seed=st.integers(0, 1000))
def test_renumbering_the_entities_renumbers_the_scores(locality, problem, seed):
    matrix, anchors, parts = problem
    order = np.random.default_rng(seed).permutation(matrix.shape[0])
    place = np.argsort(order)
    moved = csr_array(matrix.toarray()[order][:, order])
    before = all_scores(LOCALITY[locality], matrix, anchors, parts)
    after = all_scores(LOCALITY[locality], moved, place[anchors].astype(np.int32), parts)
    np.testing.assert_allclose(after, before[order], rtol=1e-4)


@pytest.mark.parametrize("locality", LOCALITY)
@given(problem=graphs_with_anchors(), count=st.integers(0, 20))
def test_candidates_are_distinct_free_and_filled_up(locality, problem, count):
    matrix, anchors, parts = problem
    links = Links(np.arange(len(anchors), dtype=np.int32), anchors)
    lists = list(discover(matrix, links, parts, np.full(3, count), taken=anchors, locality=locality))
    scores = all_scores(LOCALITY[locality], matrix, anchors, parts)
    if locality == "propagate":
        scores *= likelihood(matrix, anchors)[:, None]
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
def test_a_degree_that_seeds_lack_is_less_likely_and_none_is_favoured(problem):
    matrix, anchors, _ = problem
    likely = likelihood(matrix, anchors)
    assert ((likely > 0) & (likely <= 1)).all()
    degree = np.diff(matrix.indptr)
    for one in np.unique(degree):
        assert len(set(likely[degree == one])) == 1
    # Where every entity is a seed, all degrees are as frequent among the seeds as in the graph.
    assert (likelihood(matrix, np.arange(matrix.shape[0])) == 1).all()


def test_a_near_entity_of_an_unlikely_degree_gives_way():
    """An anchor with leaves and a ring around it; the seeds say that leaves are never matched."""
    ring, leaves = 40, 40
    matrix = np.zeros((ring + leaves, ring + leaves), dtype=np.int32)
    for at in range(ring):
        for other in ((at + 1) % ring, ring + at):
            matrix[at, other] = matrix[other, at] = 1
    anchors = np.arange(0, ring, 2, dtype=np.int32)
    links = Links(np.arange(len(anchors), dtype=np.int32), anchors)
    groups = np.zeros(len(anchors), dtype=np.int32)
    found = next(discover(csr_array(matrix), links, groups, np.array([ring // 2]), taken=anchors))
    assert set(found) == set(range(1, ring, 2))


def test_ties_are_drawn_and_not_taken_in_order():
    """A star: all leaves are equal, so another seed must choose others, on no side the lowest ids."""
    size = 200
    matrix = np.zeros((size, size), dtype=np.int32)
    matrix[0, 1:] = matrix[1:, 0] = 1
    links = Links(np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int32))
    chosen = [
        set(
            next(
                discover(
                    csr_array(matrix), links, np.zeros(1, dtype=np.int32), [50], taken=links.target, seed=s
                )
            )
        )
        for s in (0, 0, 1)
    ]
    assert chosen[0] == chosen[1] != chosen[2]
    assert not any(found == set(range(1, 51)) for found in chosen)


@pytest.mark.parametrize("seeds", [0.2, 0.02])  # the fewer, the more hops until parts meet
def test_regions_give_the_candidates_of_the_whole_graph(monkeypatch, seeds):
    task = synthesise(SynthConfig(entities=6000, seeds=seeds, seed=2)).task
    groups, _ = group_source(task, 40)

    def candidates():
        return list(
            discover(task.target.adjacency, task.seeds, groups, np.full(40, 150), taken=task.seeds.target)
        )

    regional = candidates()
    monkeypatch.setattr("divea.division.locality.region", lambda matters: None)
    whole = candidates()
    same = np.mean([len(np.intersect1d(a, b)) / 150 for a, b in zip(regional, whole, strict=True)])
    assert same > 0.97


def test_what_a_model_learned_is_added():
    task = synthesise(SynthConfig(entities=300, seed=1)).task
    groups = np.zeros(task.source.num_entities, dtype=np.int32)
    args = task.target.adjacency, task.seeds, groups, np.array([40])
    plain = next(discover(*args, taken=task.seeds.target))
    worst = next(discover(*args[:3], np.array([150]), taken=task.seeds.target))[60:100]
    weights = similarity_weights(
        csr_array((1, task.target.num_entities)), [worst], [np.linspace(1, 5, len(worst))], alpha=0.0
    )
    helped = next(discover(*args, taken=task.seeds.target, similarity=weights, beta=10.0))
    assert not np.isin(worst[-5:], plain).any()
    assert np.isin(worst[-5:], helped).all()


def test_similarity_weights_keep_the_latest():
    nothing = np.zeros(0, np.int32), np.zeros(0)
    chosen, sums = [nothing[0], np.array([0, 1])], [nothing[1], np.array([2.0, 4.0])]
    first = similarity_weights(csr_array((2, 4)), chosen, sums)
    chosen, sums = [nothing[0], np.array([2, 1])], [nothing[1], np.array([1.0, 1.0])]
    second = similarity_weights(first, chosen, sums)
    np.testing.assert_allclose(second.toarray(), [[0, 0, 0, 0], [-0.9, -0.9, -0.9, 0]])


def test_an_unknown_locality_is_refused():
    links = Links.from_pairs([(0, 0)])
    with pytest.raises(InputError, match="unknown locality"):
        next(discover(csr_array((1, 1)), links, np.zeros(1, np.int32), [1], taken=links.target, locality="x"))
