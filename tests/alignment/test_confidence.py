"""Confidence means a probability, learned from held-back seeds only."""

import numpy as np
import pytest

from divea.alignment.confidence import LEAST, calibrate, hold_back
from divea.graphs import Links
from divea.graphs.synth import SynthConfig, synthesise


@pytest.fixture
def predictions():
    """A predictor that is right with the probability that it says; half of its pairs can be judged."""
    rng = np.random.default_rng(0)
    source = np.arange(8000, dtype=np.int32)
    score = rng.random(8000)
    right = rng.random(8000) < score
    target = np.where(right, source, 8000 + source).astype(np.int32)
    return source, target, score, right


def test_confidence_is_the_share_that_is_right(predictions):
    source, target, score, right = predictions
    line = calibrate(
        source[:4000], target[:4000], score[:4000], Links.from_pairs(np.stack([source, source], 1))
    )
    confidence = line(score[4000:])
    for low in (0.2, 0.5, 0.8):
        chosen = (confidence >= low) & (confidence < low + 0.2)
        assert right[4000:][chosen].mean() == pytest.approx(confidence[chosen].mean(), abs=0.05)
    assert (np.diff(line(np.linspace(0, 1, 50))) >= 0).all()


@pytest.mark.parametrize("precision", [0.6, 0.8, 0.9])
def test_a_threshold_means_a_precision(predictions, precision):
    source, target, score, right = predictions
    held = Links.from_pairs(np.stack([source, source], 1))
    line = calibrate(source[:4000], target[:4000], score[:4000], held)
    least = line.confidence_for(precision)
    assert least < precision
    assert right[4000:][line(score[4000:]) >= least].mean() == pytest.approx(precision, abs=0.03)


def test_a_precision_out_of_reach_takes_nothing(predictions):
    source, target, score, _ = predictions
    line = calibrate(source, target + 1, score, Links.from_pairs(np.stack([source, source], 1)))
    assert line.confidence_for(0.95) == 1.0


def test_a_target_of_a_held_back_seed_given_to_another_is_judged_wrong():
    held = Links.from_pairs([(i, i) for i in range(100)])
    # Sources that are in no seed claim the targets of seeds: every one of these pairs is wrong.
    line = calibrate(np.arange(200, 300), np.arange(100), np.ones(100), held)
    assert line(1.0) < 0.05


def test_too_few_judged_pairs_give_no_confidence():
    held = Links.from_pairs([(i, i) for i in range(LEAST - 1)])
    assert calibrate(np.arange(1000), np.arange(1000), np.ones(1000), held) is None


def test_held_back_seeds_leave_the_task():
    task = synthesise(SynthConfig(entities=300, seed=2)).task
    known, held = hold_back(task, 0.25, seed=1)
    assert len(held) == round(0.25 * len(task.seeds))
    together = np.concatenate([known.seeds.pairs, held.pairs])
    assert Links.from_pairs(together) == task.seeds
    assert np.isin(held.source, known.unmatched_source).all()
    assert hold_back(task, 0.25, seed=1)[1] == held != hold_back(task, 0.25, seed=2)[1]
