"""Sure pairs: each other's best by far, and at most one for each entity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.features.start import LEAST_PROBABILITY, sure_pairs
from divea.graphs.features import EntityVectors, PairScores
from divea.matching.sinkhorn import TEMPERATURE


def feature(scores, weight=1.0):
    scores = np.asarray(scores, dtype=np.float32)
    source, target = (np.arange(count, dtype=np.int32) for count in scores.shape)
    return PairScores("names", source, target, csr_array(scores), weight)


def sure(*features):
    return sure_pairs(features).pairs.tolist()


@st.composite
def matrices(draw):
    """Scores with many ties and many zeros."""
    shape = draw(st.tuples(st.integers(1, 8), st.integers(1, 8)))
    values = st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.3, 0.5, 0.52, 0.9, 1.0])
    return np.array([[draw(values) for _ in range(shape[1])] for _ in range(shape[0])])


def softmax(scores, axis):
    odds = np.exp((scores - scores.max(axis=axis, keepdims=True)) / TEMPERATURE)
    return odds / odds.sum(axis=axis, keepdims=True)


@given(matrices(), matrices(), st.floats(0, 2), st.floats(0, 2))
def test_sure_pairs_are_those_of_the_dense_softmax_of_both_sides(one, other, first, second):
    """All pairs count, also those that no feature lists."""
    shape = tuple(map(min, one.shape, other.shape))
    one, other = one[: shape[0], : shape[1]], other[: shape[0], : shape[1]]
    total = np.float32(first) * one + np.float32(second) * other
    by_row, by_column = softmax(total, 1), softmax(total, 0)
    is_near = (np.abs(by_row - LEAST_PROBABILITY) < 1e-3) | (np.abs(by_column - LEAST_PROBABILITY) < 1e-3)
    expected = (by_row > LEAST_PROBABILITY) & (by_column > LEAST_PROBABILITY) & (total > 0)
    found = np.zeros(shape, dtype=bool)
    pairs = sure_pairs((feature(one, first), feature(other, second))).pairs
    found[pairs[:, 0], pairs[:, 1]] = True
    # A weight of 0 leaves listed pairs with a score of 0, which is sure only among a single pair.
    assert np.array_equal((found & (total > 0))[~is_near], expected[~is_near])


@given(matrices())
def test_sure_pairs_are_one_to_one(scores):
    found = sure_pairs((feature(scores),))
    assert len(set(found.source)) == len(set(found.target)) == len(found)


@given(matrices(), st.data())
def test_of_a_tie_nothing_is_sure(scores, data):
    row, column = (
        data.draw(st.integers(0, scores.shape[0] - 1)),
        data.draw(st.integers(0, scores.shape[1] - 1)),
    )
    twice = np.concatenate([scores, scores[:, [column]]], axis=1)
    assert not {column, scores.shape[1]} & {target for _, target in sure(feature(twice))}
    twice = np.concatenate([scores, scores[[row]]], axis=0)
    assert not {row, scores.shape[0]} & {source for source, _ in sure(feature(twice))}


@pytest.mark.parametrize(("score", "is_sure"), [(0.05, False), (0.1, False), (0.2, True), (0.9, True)])
def test_targets_that_are_not_listed_count(score, is_sure):
    """Among 1000 targets without a score, a low score says little: log(1000) x .02 is .14."""
    scores = np.zeros((1, 1001))
    scores[0, 5] = score
    assert sure(feature(scores)) == ([[0, 5]] if is_sure else [])
    assert sure(feature(scores.T)) == ([[5, 0]] if is_sure else [])
    assert sure(feature(scores[:, [5]])) == [[0, 0]]


def test_weights_decide_what_is_sure():
    scores = np.diag([0.3, 0.3])
    assert sure(feature(scores)) == [[0, 0], [1, 1]]
    assert sure(feature(scores, weight=0.0)) == []
    # Two features that contradict each other are sure of nothing.
    assert sure(feature(scores), feature(scores[::-1])) == []
    assert sure(feature(scores), feature(scores[::-1], 0.5)) == [[0, 0], [1, 1]]


def test_pairs_have_the_ids_of_the_entities():
    ids = np.array([3, 8], dtype=np.int32), np.array([1, 5, 6], dtype=np.int32)
    scores = csr_array(np.array([[0, 0.9, 0], [0, 0, 0.9]], dtype=np.float32))
    assert sure(PairScores("names", *ids, scores)) == [[3, 5], [8, 6]]


def test_without_scores_of_pairs_nothing_is_sure():
    ids = np.arange(2, dtype=np.int32)
    rows = np.eye(2, dtype=np.float16)
    assert sure() == sure(EntityVectors("given", ids, ids, rows, rows)) == []
    assert sure(feature(np.zeros((3, 3)))) == []
