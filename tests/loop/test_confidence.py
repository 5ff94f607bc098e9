"""Confidence is a probability, and only held-back seeds decide it."""

import numpy as np
import pytest

from divea.graphs import Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.loop.assignment import assign
from divea.loop.confidence import (
    FEWEST_PAIRS,
    Judged,
    calibrate,
    folds,
    hold_back,
    judge,
    pair_features,
    threshold_for,
)
from divea.loop.lists import Lists, rank
from divea.types import Matches
from tests.loop.small_loops import assigned


@pytest.fixture
def predictions():
    """Pairs that are correct with the probability that their only feature implies."""
    rng = np.random.default_rng(0)
    source = np.arange(8000, dtype=np.int32)
    feature = rng.normal(1, 2, 8000)
    is_correct = rng.random(8000) < 1 / (1 + np.exp(-feature))
    target = np.where(is_correct, source, 8000 + source).astype(np.int32)
    return source, target, feature[:, None], is_correct


def fitted(predictions, count=4000):
    source, target, features, _ = predictions
    held_back = Links.from_pairs(np.stack([source[:count], source[:count]], 1))
    # Wrong targets are ends of further held-back seeds: each pair, correct or wrong, is judged at both ends.
    held_back = Links.from_pairs(np.concatenate([held_back.pairs, held_back.pairs + 20_000]))
    target = np.where(target >= 8000, target + 12_000, target)
    return calibrate(judge(features[:count], assigned(source[:count], target[:count]), held_back))


def test_confidence_is_the_share_of_correct_pairs(predictions):
    calibration = fitted(predictions)
    confidence, is_correct = calibration(predictions[2][4000:]), predictions[3][4000:]
    for low in (0.2, 0.5, 0.8):
        chosen = (confidence >= low) & (confidence < low + 0.2)
        assert is_correct[chosen].mean() == pytest.approx(confidence[chosen].mean(), abs=0.06)


@pytest.mark.parametrize("precision", [0.7, 0.8, 0.9])
def test_the_pairs_above_the_threshold_have_the_expected_precision(predictions, precision):
    confidence = fitted(predictions)(predictions[2][4000:])
    threshold = threshold_for(precision, confidence)
    assert threshold < precision
    assert predictions[3][4000:][confidence >= threshold].mean() == pytest.approx(precision, abs=0.03)


def test_a_wrong_pair_between_two_held_back_ends_counts_no_more_than_a_correct_one():
    # A third of the pairs are correct; the others swap two targets, so both of their ends show the mistake.
    count = 600
    source = np.arange(count, dtype=np.int32)
    target = np.where(source % 3 == 0, source, np.where(source % 3 == 1, source + 1, source - 1))
    rng = np.random.default_rng(1)
    held_back = Links.from_pairs(np.stack([source, source], 1)[rng.random(count) < 0.3])
    calibration = calibrate(judge(np.zeros((count, 1)), assigned(source, target), held_back))
    assert calibration(np.zeros((1, 1)))[0] == pytest.approx(1 / 3, abs=0.06)


def test_the_threshold_of_a_precision_out_of_reach_is_infinite(predictions):
    source, target, features, _ = predictions
    held_back = Links.from_pairs(np.stack([source, source], 1))
    calibration = calibrate(judge(features, assigned(source, target + 1), held_back))
    assert threshold_for(0.95, calibration(features)) == np.inf


def test_another_source_with_the_target_of_a_held_back_seed_is_wrong():
    held_back = Links.from_pairs([(i, i) for i in range(100)])
    # Sources without a seed are assigned the targets of seeds, so every pair is wrong.
    calibration = calibrate(
        judge(np.ones((100, 1)), assigned(np.arange(200, 300), np.arange(100)), held_back)
    )
    assert calibration(np.ones((1, 1)))[0] < 0.05


@pytest.mark.parametrize("is_correct", [True, False])
def test_judged_pairs_that_all_agree_leave_a_doubt(is_correct):
    """It shrinks with their number, as by the rule of three."""
    widths = []
    for count in (30, 300):
        features = np.random.default_rng(1).normal(size=(count, 3))
        judged = Judged(features, np.full(count, float(is_correct)), np.ones(count), np.arange(count))
        calibration = calibrate(judged)
        low, high = calibration.interval(features)
        assert 0 < low < calibration(features).mean() < high < 1
        assert len(calibration.judged) == count
        widths.append(high - low)
        assert (1 - low if is_correct else high) == pytest.approx(3 / count, rel=0.5)
    assert widths[1] < widths[0] / 5


def test_too_few_judged_pairs_give_no_confidence():
    ids = np.arange(1000, dtype=np.int32)
    for judged, is_calibrated in ((FEWEST_PAIRS - 1, False), (FEWEST_PAIRS, True)):
        held_back = Links.from_pairs([(i, i) for i in range(judged)])
        calibration = calibrate(judge(np.ones((1000, 1)), assigned(ids, ids), held_back))
        assert (calibration is not None) == is_calibrated


def test_support_counts_the_neighbours_that_match_each_other():
    pair = synthesise(SynthConfig(entities=80, random_seed=3))
    task, gold = pair.task, pair.gold
    rng = np.random.default_rng(0)
    target = rng.permutation(gold.target)[:20][:, None].astype(np.int32)
    score = rng.random((20, 1)).astype(np.float32)
    matches = Matches(gold.source[:20], target, score, np.ones(20, bool))
    features = pair_features(assign(rank(Lists.of([matches])), one_to_one=False), task)
    weight = {(int(s), int(t)): 1.0 for s, t in task.seeds.pairs}
    weight |= {
        (int(s), int(t)): float(v) for s, (t,), (v,) in zip(matches.source, target, score, strict=True)
    }
    near_source, near_target = task.source.adjacency.toarray() > 0, task.target.adjacency.toarray() > 0
    for row, (s, (t,)) in enumerate(zip(matches.source, target, strict=True)):
        expected = sum(v for (a, b), v in weight.items() if near_source[s, a] and near_target[t, b])
        assert features[row, 4] == pytest.approx(np.log1p(expected), rel=1e-5)
        most = max(min(near_source[s].sum(), near_target[t].sum()), 1)
        assert features[row, 5] == pytest.approx(expected / most, rel=1e-5)


def test_held_back_seeds_are_unmatched_and_drawn_by_the_random_seed():
    task = synthesise(SynthConfig(entities=300, random_seed=2)).task
    known, held_back = hold_back(task, 0.25, random_seed=1)
    assert len(held_back) == round(0.25 * len(task.seeds))
    together = np.concatenate([known.seeds.pairs, held_back.pairs])
    assert Links.from_pairs(together) == task.seeds
    assert np.isin(held_back.source, known.unmatched_source).all()
    assert hold_back(task, 0.25, random_seed=1)[1] == held_back != hold_back(task, 0.25, random_seed=2)[1]


def test_every_seed_is_hidden_in_one_fold():
    task = synthesise(SynthConfig(entities=300, random_seed=2)).task
    parts = list(folds(task, 4, random_seed=1))
    sizes = [len(hidden) for _, hidden in parts]
    assert max(sizes) - min(sizes) <= 1
    assert Links.from_pairs(np.concatenate([hidden.pairs for _, hidden in parts])) == task.seeds
    for visible, hidden in parts:
        assert Links.from_pairs(np.concatenate([visible.seeds.pairs, hidden.pairs])) == task.seeds


def test_pairs_of_several_folds_keep_their_seeds_apart():
    hidden = Links.from_pairs([(1, 1), (2, 2)])
    pairs = assigned([1, 2, 7], [1, 9, 2])
    one = judge(np.arange(3.0)[:, None], pairs, hidden)
    assert one.is_correct.tolist() == [1, 0, 0] and one.counts.tolist() == [1, 0.5, 0.5]
    assert one.seed.tolist() == [0, 1, 1]
    assert Judged.join([one, one]).seed.tolist() == [0, 1, 1, 2, 3, 3]


def test_the_interval_holds_the_precision_and_narrows_with_more_seeds(predictions):
    """The share of correct pairs among all, from 40 judged pairs and from 4000."""
    _, _, features, is_correct = predictions
    widths = []
    for count in (40, 4000):
        calibration = fitted(predictions, count)
        low, high = calibration.interval(features[4000:])
        assert low < is_correct[4000:].mean() < high
        assert low < calibration(features[4000:]).mean() < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 4
    assert calibration.interval(features) == calibration.interval(features)


def test_the_interval_of_many_pairs_is_around_their_mean(predictions, monkeypatch):
    """It is computed on a sample, which may happen to hold the certain pairs alone."""
    features = predictions[2][:4000]
    calibration = fitted(predictions, 400)
    certain, uncertain = np.array_split(features[np.argsort(-calibration(features))], 2)
    alternating = np.stack([certain, uncertain], axis=1).reshape(features.shape)
    monkeypatch.setattr("divea.loop.confidence._MOST_PAIRS_OF_INTERVAL", 2000)
    low, high = calibration.interval(alternating)
    assert low < calibration(alternating).mean() < high
    assert high - low < 0.3
