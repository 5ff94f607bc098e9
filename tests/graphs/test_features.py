"""Features of entities: what a subtask takes of them, and what all of them say together."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.graphs.features import (
    EntityVectors,
    PairScores,
    beside_structure,
    scores_at,
    take_features,
    total_scores,
)


def some_ids(draw, count, most=30):
    """`count` ids in ascending order, with gaps."""
    return np.sort(draw.permutation(most)[:count]).astype(np.int32)


def pair_scores(draw, weight=1.0, ids=None):
    """Scores of about a third of the pairs of some entities."""
    source, target = ids or (some_ids(draw, draw.integers(0, 12)), some_ids(draw, draw.integers(0, 12)))
    scores = draw.random((len(source), len(target)), dtype=np.float32)
    scores[draw.random(scores.shape) < 0.7] = 0
    return PairScores("names", source, target, csr_array(scores), weight)


def entity_vectors(draw, weight=1.0, is_structure=False):
    source, target = some_ids(draw, draw.integers(0, 12)), some_ids(draw, draw.integers(0, 12))
    rows = (draw.normal(size=(len(ids), 3)).astype(np.float16) for ids in (source, target))
    return EntityVectors("given", source, target, *rows, weight, is_structure)


def part_of(draw, ids):
    """Some of the ids, in ascending order."""
    return ids[draw.random(len(ids)) < 0.6]


random_seeds = st.integers(0, 100_000)


@given(random_seeds)
def test_scores_of_some_entities_are_those_rows_and_columns(random_seed):
    draw = np.random.default_rng(random_seed)
    whole = pair_scores(draw, 0.4)
    source, target = part_of(draw, whole.source_ids), part_of(draw, whole.target_ids)
    taken = whole.take(source, target)
    at = np.ix_(np.isin(whole.source_ids, source), np.isin(whole.target_ids, target))
    assert np.array_equal(taken.scores.toarray(), whole.scores.toarray()[at])
    assert np.array_equal(taken.source_ids, source) and np.array_equal(taken.target_ids, target)
    assert (taken.name, taken.weight, taken.scores.dtype) == ("names", 0.4, np.float32)
    # A score of a pair outside is dropped, not kept as a zero.
    assert taken.scores.nnz == np.count_nonzero(taken.scores.toarray())


@given(random_seeds)
def test_vectors_of_some_entities_are_those_rows(random_seed):
    draw = np.random.default_rng(random_seed)
    whole = entity_vectors(draw, 0.4, is_structure=True)
    source, target = part_of(draw, whole.source_ids), part_of(draw, whole.target_ids)
    taken = whole.take(source, target)
    assert np.array_equal(taken.source, whole.source[np.isin(whole.source_ids, source)])
    assert np.array_equal(taken.target, whole.target[np.isin(whole.target_ids, target)])
    assert np.array_equal(taken.source_ids, source) and np.array_equal(taken.target_ids, target)
    assert (taken.name, taken.weight, taken.is_structure) == ("given", 0.4, True)
    assert taken.source.dtype == np.float16


@pytest.mark.parametrize("make", [pair_scores, entity_vectors])
@given(random_seed=random_seeds)
def test_taking_twice_is_taking_once(make, random_seed):
    draw = np.random.default_rng(random_seed)
    whole = make(draw)
    outer = part_of(draw, whole.source_ids), part_of(draw, whole.target_ids)
    inner = tuple(part_of(draw, ids) for ids in outer)
    twice, once = whole.take(*outer).take(*inner), whole.take(*inner)
    assert all(map(np.array_equal, twice.arrays, once.arrays))


@pytest.mark.parametrize("make", [pair_scores, entity_vectors])
@given(random_seed=random_seeds)
def test_features_arrive_in_other_processes_as_they_are(make, random_seed):
    whole = make(np.random.default_rng(random_seed), 0.4)
    copy = pickle.loads(pickle.dumps(whole))  # noqa: S301
    assert type(copy) is type(whole)
    assert (copy.name, copy.weight) == (whole.name, whole.weight)
    assert len(copy.arrays) == len(whole.arrays)
    for one, other in zip(copy.arrays, whole.arrays, strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


@given(random_seeds)
def test_all_features_are_taken_alike_and_keep_their_order(random_seed):
    draw = np.random.default_rng(random_seed)
    ids = some_ids(draw, 8), some_ids(draw, 9)
    features = tuple(pair_scores(draw, weight, ids) for weight in (0.1, 0.2))
    inner = tuple(part_of(draw, side) for side in ids)
    taken = take_features(features, *inner)
    assert [item.weight for item in taken] == [0.1, 0.2]
    for before, after in zip(features, taken, strict=True):
        assert all(map(np.array_equal, after.arrays, before.take(*inner).arrays))
    assert take_features((), *inner) == ()


@given(random_seeds, st.lists(st.floats(0, 2), min_size=1, max_size=4))
def test_the_total_is_the_weighted_sum_of_all_scores_of_pairs(random_seed, weights):
    draw = np.random.default_rng(random_seed)
    ids = some_ids(draw, 7), some_ids(draw, 9)
    pairs = [pair_scores(draw, weight, ids) for weight in weights]
    total = total_scores((*pairs, entity_vectors(draw)))
    expected = sum(weight * item.scores.toarray() for weight, item in zip(weights, pairs, strict=True))
    assert isinstance(total, csr_array)
    assert np.allclose(total.toarray(), expected, atol=1e-6)


def test_without_scores_of_pairs_there_is_no_total():
    draw = np.random.default_rng(0)
    assert total_scores(()) is None
    assert total_scores((entity_vectors(draw),)) is None


@given(random_seeds)
def test_scores_of_single_pairs_are_those_of_the_dense_matrix(random_seed):
    draw = np.random.default_rng(random_seed)
    scores = pair_scores(draw, ids=(some_ids(draw, 6), some_ids(draw, 9))).scores
    count = draw.integers(0, 20)
    source, target = draw.integers(0, 6, count), draw.integers(0, 9, count)
    found = scores_at(scores, source, target)
    assert found.dtype == np.float64 and found.shape == (count,)
    assert np.array_equal(found, scores.toarray()[source, target])


def test_vectors_from_structure_and_no_others_are_left_out_beside_it():
    draw = np.random.default_rng(0)
    pairs, others, structure = (
        pair_scores(draw),
        entity_vectors(draw),
        entity_vectors(draw, is_structure=True),
    )
    assert beside_structure((pairs, structure, others)) == (pairs, others)
    assert beside_structure(()) == ()
