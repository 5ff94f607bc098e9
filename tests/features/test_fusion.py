"""Weights of features: they follow the odds that scores give, and useless scores get none."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.features.fusion import HIGHEST_WEIGHT, MOST_PAIRS, cosines, learned_weights, nearest_vectors
from divea.graphs import Links
from divea.graphs.features import EntityVectors, PairScores
from divea.matching.sinkhorn import TEMPERATURE

COUNT = 600
IDS = np.arange(COUNT, dtype=np.int32)


def weight_of(feature, judges, random_seed=0):
    return learned_weights((feature,), judges, random_seed)[0]


def names(quality=1.0, random_seed=0, listed=10, noise=0.1):
    """Scores of `listed` targets of each source; the right one is a share `quality` of an average above."""
    draw = np.random.default_rng(random_seed)
    scores = np.zeros((COUNT, COUNT), dtype=np.float32)
    for row in range(COUNT):
        scores[row, draw.choice(COUNT, listed, replace=False)] = 0.4 + noise * draw.normal(size=listed)
        scores[row, row] = 0.4 + noise * draw.normal() + 0.5 * quality
    return PairScores("names", IDS, IDS, csr_array(np.clip(scores, 0, 1)))


def judges(count=300, wrong=0.0, random_seed=0):
    """Pairs that are known to match, of which a share is wrong."""
    target = IDS[:count].copy()
    is_wrong = np.arange(count) < wrong * count
    target[is_wrong] = np.roll(target[is_wrong], 7)
    return Links(IDS[:count], target)


def shuffled(feature, random_seed=0):
    """The same scores for other targets."""
    order = np.random.default_rng(random_seed).permutation(COUNT)
    return replace(feature, scores=csr_array(feature.scores.toarray()[:, order]))


@settings(max_examples=15)
@given(st.integers(0, 1000), st.sampled_from([20, 100, 500]))
def test_shuffled_scores_have_no_weight(random_seed, count):
    feature = shuffled(names(random_seed=random_seed), random_seed)
    assert weight_of(feature, judges(count)) == 0


def test_scores_of_nothing_have_no_weight():
    empty = PairScores("names", IDS, IDS, csr_array((COUNT, COUNT), dtype=np.float32))
    assert weight_of(empty, judges()) == 0


def test_the_weight_grows_with_the_quality_of_the_scores():
    found = [weight_of(names(quality), judges()) for quality in (0.0, 0.2, 0.5, 1.0)]
    assert found == sorted(found)
    assert len(set(found)) == 4
    # That a target is listed at all says something, so the lowest weight is not 0.
    assert 0 < found[0] < 0.7 * found[-1] < HIGHEST_WEIGHT


def test_wrong_judges_lower_the_weight_and_leave_it_positive():
    found = [weight_of(names(), judges(wrong=share)) for share in (0.0, 0.3, 0.6)]
    assert found[0] > found[1] > found[2]
    assert found[1] > 0.1
    assert weight_of(names(), judges(wrong=1.0)) == 0


@pytest.mark.parametrize("weight", [0.05, 0.1, 0.2])
def test_the_weight_gives_the_odds_of_the_choices(weight):
    """Judges are drawn with probabilities proportional to exp(weight x score / temperature): many of them
    find that weight again.
    """
    draw = np.random.default_rng(1)
    scores = draw.random((COUNT, 40))
    odds = np.exp(weight * scores / TEMPERATURE)
    target = [draw.choice(40, p=row / row.sum()) for row in odds]
    feature = PairScores("names", IDS, IDS[:40], csr_array(scores.astype(np.float32)))
    found = weight_of(feature, Links(IDS, np.array(target, dtype=np.int32)))
    assert found == pytest.approx(weight, rel=0.15)


def test_the_weight_does_not_depend_on_the_order_of_entities_and_is_the_same_again():
    feature, known = names(0.5), judges()
    order = np.random.default_rng(3).permutation(COUNT)
    rank = np.argsort(order).astype(np.int32)
    moved = replace(feature, scores=csr_array(feature.scores.toarray()[order][:, order]))
    pairs = Links.from_pairs(np.stack([rank[known.source], rank[known.target]], axis=1))
    assert weight_of(feature, known) == weight_of(feature, known)
    assert weight_of(moved, pairs) == pytest.approx(weight_of(feature, known), abs=1e-3)


def test_a_sample_of_many_judges_is_enough(monkeypatch):
    every = weight_of(names(0.5), judges(600))
    monkeypatch.setattr("divea.features.fusion.MOST_PAIRS", 200)
    some = [weight_of(names(0.5), judges(600), random_seed) for random_seed in (0, 0, 1)]
    assert some[0] == some[1] != some[2]
    assert np.allclose(some, every, atol=0.1)
    assert MOST_PAIRS > 600


def test_features_that_say_the_same_share_a_weight():
    feature, known = names(0.5), judges()
    alone = weight_of(feature, known)
    both = learned_weights((feature, replace(feature, name="again")), known)
    assert both[0] == pytest.approx(both[1], abs=1e-3)
    assert sum(both) == pytest.approx(alone, rel=0.1)


def test_features_that_do_not_depend_on_each_other_keep_their_weights():
    known, features = judges(600), (names(0.5, 1), names(0.5, 2))
    alone = [weight_of(feature, known) for feature in features]
    assert learned_weights(features, known) == pytest.approx(alone, rel=0.35)


def test_a_useless_feature_does_not_change_the_others():
    feature, known = names(0.5), judges()
    useless = shuffled(names(0.5, 1), 1)
    assert learned_weights((useless, feature), known) == (
        0.0,
        pytest.approx(weight_of(feature, known), rel=0.05),
    )


@pytest.mark.parametrize("weights", [(0.05, 0.1), (0.2, 0.05)])
def test_two_weights_give_the_odds_of_the_choices(weights):
    draw = np.random.default_rng(1)
    scores = draw.random((2, COUNT, 40))
    odds = np.exp(np.tensordot(weights, scores, 1) / TEMPERATURE)
    target = [draw.choice(40, p=row / row.sum()) for row in odds]
    features = [PairScores(str(i), IDS, IDS[:40], csr_array(scores[i].astype(np.float32))) for i in (0, 1)]
    found = learned_weights(tuple(features), Links(IDS, np.array(target, dtype=np.int32)))
    assert found == pytest.approx(weights, rel=0.2, abs=0.01)


def test_scores_and_vectors_are_weighed_together(monkeypatch):
    """What one of them lists is compared by the other as well, in blocks of any size."""
    known, features = judges(), (names(0.5), vectors(1.0))
    together = learned_weights(features, known)
    assert all(weight > 0.02 for weight in together)
    monkeypatch.setattr("divea.features.fusion._BLOCK", 7)
    assert learned_weights(features, known) == together
    source, target = np.arange(50), np.arange(50)[::-1]
    left, right = (np.float64(side) for side in (vectors(1.0).source[source], vectors(1.0).target[target]))
    expected = (left * right).sum(axis=1) / np.linalg.norm(left, axis=1) / np.linalg.norm(right, axis=1)
    assert np.allclose(cosines(vectors(1.0), source, target), expected, atol=1e-3)


def vectors(noise, random_seed=0):
    draw = np.random.default_rng(random_seed)
    source = draw.normal(size=(COUNT, 16))
    target = source + noise * draw.normal(size=source.shape)
    return EntityVectors("given", IDS, IDS, source.astype(np.float16), target.astype(np.float16))


def test_vectors_are_judged_as_scores_are():
    found = [weight_of(vectors(noise), judges()) for noise in (0.3, 1.0, 3.0)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 0.1
    wrong = replace(vectors(0.3), target=np.roll(vectors(0.3).target, 1, axis=0))
    assert weight_of(wrong, judges()) == 0


@given(st.integers(1, 30), st.integers(1, 40), st.integers(0, 1000))
@settings(max_examples=30)
def test_the_nearest_vectors_are_those_of_the_dense_cosine(sources, count, random_seed):
    draw = np.random.default_rng(random_seed)
    feature = vectors(1.0).take(IDS[:100:2], IDS[:90:3])
    chosen = np.sort(draw.permutation(feature.source_ids)[:sources])
    found = nearest_vectors(feature, chosen, count=count)
    left, right = (np.float64(side) for side in (feature.source, feature.target))
    left /= np.linalg.norm(left, axis=1, keepdims=True)
    right /= np.linalg.norm(right, axis=1, keepdims=True)
    dense = (left @ right.T)[np.searchsorted(feature.source_ids, chosen)]
    assert found.shape == dense.shape
    assert (np.diff(found.indptr) == min(count, 30)).all()
    row = np.repeat(np.arange(len(chosen)), np.diff(found.indptr))
    assert np.allclose(found.data, dense[row, found.indices], atol=1e-3)
    smallest = np.minimum.reduceat(found.data, found.indptr[:-1])
    assert np.allclose(smallest, -np.sort(-dense, axis=1)[:, min(count, 30) - 1], atol=1e-3)
