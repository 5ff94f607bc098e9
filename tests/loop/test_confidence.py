"""Confidence means a probability, learned from held-back seeds only."""

import numpy as np
import pytest

from divea.alignment.confidence import LEAST, Given, calibrate, hold_back, signs_of
from divea.graphs import Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.matching import Matches


@pytest.fixture
def predictions():
    """A predictor that is right with the probability that its sign says."""
    rng = np.random.default_rng(0)
    source = np.arange(8000, dtype=np.int32)
    sign = rng.normal(1, 2, 8000)
    right = rng.random(8000) < 1 / (1 + np.exp(-sign))
    target = np.where(right, source, 8000 + source).astype(np.int32)
    return source, target, sign[:, None], right


def fitted(predictions, count=4000):
    source, target, sign, _ = predictions
    held = Links.from_pairs(np.stack([source[:count], source[:count]], 1))
    # Targets beyond 8000 stand in no seed, so that a wrong pair is noticed by its source alone: no bias.
    held = Links.from_pairs(np.concatenate([held.pairs, held.pairs + 20_000]))
    return calibrate(
        sign[:count], source[:count], np.where(target >= 8000, target + 12_000, target)[:count], held
    )


def test_confidence_is_the_share_that_is_right(predictions):
    line = fitted(predictions)
    confidence, right = line(predictions[2][4000:]), predictions[3][4000:]
    for low in (0.2, 0.5, 0.8):
        chosen = (confidence >= low) & (confidence < low + 0.2)
        assert right[chosen].mean() == pytest.approx(confidence[chosen].mean(), abs=0.06)


@pytest.mark.parametrize("precision", [0.7, 0.8, 0.9])
def test_a_threshold_means_a_precision(predictions, precision):
    line = fitted(predictions)
    least = line.confidence_for(precision)
    assert least < precision
    sure = line(predictions[2][4000:]) >= least
    assert predictions[3][4000:][sure].mean() == pytest.approx(precision, abs=0.03)


def test_a_wrong_pair_between_two_held_back_ends_counts_as_often_as_a_right_one():
    # A third of the links is right; the others are swapped in twos, so that both ends notice.
    count = 600
    source = np.arange(count, dtype=np.int32)
    target = np.where(source % 3 == 0, source, np.where(source % 3 == 1, source + 1, source - 1))
    rng = np.random.default_rng(1)
    held = Links.from_pairs(np.stack([source, source], 1)[rng.random(count) < 0.3])
    line = calibrate(np.zeros((count, 1)), source, target.astype(np.int32), held)
    assert line(np.zeros((1, 1)))[0] == pytest.approx(1 / 3, abs=0.06)


def test_a_precision_out_of_reach_takes_nothing(predictions):
    source, target, sign, _ = predictions
    line = calibrate(sign, source, target + 1, Links.from_pairs(np.stack([source, source], 1)))
    assert line.confidence_for(0.95) == 1.0


def test_a_target_of_a_held_back_seed_given_to_another_is_judged_wrong():
    held = Links.from_pairs([(i, i) for i in range(100)])
    # Sources that are in no seed claim the targets of seeds: every one of these pairs is wrong.
    line = calibrate(np.ones((100, 1)), np.arange(200, 300), np.arange(100), held)
    assert line(np.ones((1, 1)))[0] < 0.05


def test_too_few_judged_pairs_give_no_confidence():
    held = Links.from_pairs([(i, i) for i in range(LEAST - 1)])
    ids = np.arange(1000, dtype=np.int32)
    assert calibrate(np.ones((1000, 1)), ids, ids, held) is None


def test_support_counts_the_neighbours_that_are_matched_with_each_other():
    pair = synthesise(SynthConfig(entities=80, seed=3))
    task, gold = pair.task, pair.gold
    rng = np.random.default_rng(0)
    target = rng.permutation(gold.target)[:20][:, None].astype(np.int32)
    score = rng.random((20, 1)).astype(np.float32)
    matches = Matches(gold.source[:20], target, score, np.ones(20, bool))
    signs = signs_of(Given.of(matches, target[:, 0]), matches, task)
    known = {(int(s), int(t)): 1.0 for s, t in task.seeds.pairs}
    known |= {(int(s), int(t)): float(v) for s, (t,), (v,) in zip(matches.source, target, score, strict=True)}
    near_source, near_target = task.source.adjacency.toarray() > 0, task.target.adjacency.toarray() > 0
    for row, (s, (t,)) in enumerate(zip(matches.source, target, strict=True)):
        expected = sum(v for (a, b), v in known.items() if near_source[s, a] and near_target[t, b])
        assert signs[row, 4] == pytest.approx(np.log1p(expected), rel=1e-5)
        most = max(min(near_source[s].sum(), near_target[t].sum()), 1)
        assert signs[row, 5] == pytest.approx(expected / most, rel=1e-5)


def test_held_back_seeds_leave_the_task():
    task = synthesise(SynthConfig(entities=300, seed=2)).task
    known, held = hold_back(task, 0.25, seed=1)
    assert len(held) == round(0.25 * len(task.seeds))
    together = np.concatenate([known.seeds.pairs, held.pairs])
    assert Links.from_pairs(together) == task.seeds
    assert np.isin(held.source, known.unmatched_source).all()
    assert hold_back(task, 0.25, seed=1)[1] == held != hold_back(task, 0.25, seed=2)[1]
