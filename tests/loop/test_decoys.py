"""Confidence without seeds: it is close to the truth if names are true, and refused if they are not."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.config import Settings
from divea.errors import CalibrationError
from divea.features import judges
from divea.features.judges import Structure
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, PairScores, all_ids
from divea.graphs.planted import planted_pair
from divea.graphs.synth import SynthConfig, synthesise
from divea.loop import decoys, loop
from divea.loop.confidence import judge as loop_judge
from divea.loop.confidence import threshold_for
from divea.loop.decoys import calibrate_without_seeds
from tests.loop.small_loops import SMALL, align, assigned, with_shuffled_literals

CLOSE = 0.05


def settings(**more):
    return Settings(iterations=2, model=SMALL, output={"top": 10}, **more)


def is_correct(outcome, gold, entities):
    """Whether each assigned pair is a gold link."""
    target_of = np.full(entities, -2)
    target_of[gold.source] = gold.target
    return target_of[outcome.assignment.source] == outcome.assignment.target


@pytest.fixture(
    scope="module",
    params=[
        (0.3, 1, "names+attributes", 0.0),
        (0.7, 4, "names+attributes", 0.0),
        (0.7, 1, "names", 0.0),
        (0.3, 1, "names+attributes", 0.2),
    ],
    ids=[
        "few wrong names",
        "many wrong names in four subtasks",
        "many wrong names alone",
        "seeds that find no wrong pair",
    ],
)
def judged(request):
    """The confidence of each assigned pair, learned without seeds, and whether the pair is correct."""
    noise, subtasks, features, seeds = request.param
    config = SynthConfig(entities=1500, names=True, seed_share=seeds, name_noise=noise, random_seed=1)
    pair = synthesise(config)
    options = settings(subtasks=subtasks, features=features, confidence={"held_back": 0.2})
    outcome = align(pair.task, options if seeds else settings(subtasks=subtasks, features=features))
    assert outcome.without_seeds
    return outcome.calibration(outcome.features), is_correct(outcome, pair.gold, 1500)


def test_seeds_that_find_every_pair_wrong_are_believed(monkeypatch):
    """Features may be sure of these pairs nevertheless."""
    pair = synthesise(SynthConfig(entities=400, names=True, seed_share=0.3, random_seed=1))

    def judge(*args):
        found = loop_judge(*args)
        return replace(found, is_correct=np.zeros(len(found)))

    monkeypatch.setattr(loop, "judge", judge)
    outcome = align(pair.task, settings(subtasks=1, confidence={"held_back": 0.4}))
    assert not outcome.without_seeds
    assert 0 < outcome.confidence.max() < 0.1


@pytest.mark.parametrize("precision", [0.9, 0.95])
def test_the_precision_of_the_kept_pairs_is_as_expected(judged, precision):
    confidence, correct = judged
    is_kept = confidence >= threshold_for(precision, confidence)
    assert is_kept.sum() > 900
    assert confidence[is_kept].mean() == pytest.approx(precision, abs=0.01)
    assert correct[is_kept].mean() == pytest.approx(precision, abs=CLOSE)


def test_the_mean_confidence_is_the_share_of_correct_pairs(judged):
    confidence, correct = judged
    assert confidence.mean() == pytest.approx(correct.mean(), abs=CLOSE)
    # The share itself says something: a quarter of the entities have no counterpart.
    assert 0.6 < correct.mean() < 0.85


def test_correct_pairs_have_a_higher_confidence_than_wrong_ones(judged):
    confidence, correct = judged
    rank = confidence.argsort().argsort() + 1
    right, wrong = correct.sum(), (~correct).sum()
    area = (rank[correct].sum() - right * (right + 1) / 2) / (right * wrong)
    assert area > 0.9


@pytest.mark.parametrize("features", ["names", "names+attributes"])
def test_names_without_truth_give_no_confidence(features):
    """Every target entity has the name of another one: names are sure of pairs, and all of them are wrong."""
    config = SynthConfig(entities=700, names=True, seed_share=0, random_seed=2)
    pair = synthesise(config)
    task = AlignmentTask(pair.task.source, with_shuffled_literals(pair.task.target))
    outcome = align(task, settings(subtasks=1, features=features))
    assert is_correct(outcome, pair.gold, 700).mean() < 0.05
    if outcome.calibration is not None:
        assert outcome.calibration(outcome.features).mean() < 0.3
    with pytest.raises(CalibrationError, match="confidence cannot be calibrated"):
        align(task, settings(subtasks=1, features=features, confidence={"precision": 0.9}))


@pytest.mark.parametrize(
    ("preferred", "tied", "is_enough"),
    [(40, 0, True), (29, 0, True), (26, 0, False), (0, 40, False), (20, 20, True), (0, 0, False)],
)
def test_structure_must_prefer_the_pairs_that_features_are_sure_of(preferred, tied, is_enough):
    """There are 40 pairs with a decoy: .7 of them is 28, and ties count half."""
    pairs = np.zeros(45)
    pairs[:preferred] = 1
    other = np.where(np.arange(40) < preferred + tied, 0, 2)
    other[:preferred] = 0
    by_features = np.arange(45) < 40
    found = decoys._agree(np.concatenate([pairs, other]), 45, np.arange(40), by_features)
    assert found == is_enough
    # Pairs that structure itself is sure of say nothing about features, and few pairs say nothing at all.
    assert not decoys._agree(np.concatenate([pairs, other]), 45, np.arange(40), ~by_features)
    assert not decoys._agree(np.concatenate([pairs, other]), 45, np.arange(40), np.arange(45) < 29)


@given(st.floats(0.05, 0.95), st.integers(0, 1000))
def test_the_share_of_correct_pairs_is_found_from_balanced_probabilities(share, random_seed):
    """Scores of correct and wrong pairs are normal with means 1 and -1, so their log odds are twice the score
    if half of the pairs are correct.
    """
    draw = np.random.default_rng(random_seed)
    correct = draw.random(4000) < share
    score = draw.normal(np.where(correct, 1, -1), 1)
    found = decoys._share_of_correct(1 / (1 + np.exp(-2 * score)))
    assert found == pytest.approx(correct.mean(), abs=0.04)


@given(st.integers(1, 50), st.integers(1, 50), st.floats(0.001, 0.999))
def test_examples_count_so_that_correct_ones_have_their_share(right, wrong, share):
    correct = np.repeat([1.0, 0.0], [right, wrong])
    counts = decoys._counts(correct, share)
    assert counts.sum() == pytest.approx(right + wrong)
    assert counts @ correct / counts.sum() == pytest.approx(share)
    assert len(set(counts[correct > 0])) == len(set(counts[correct == 0])) == 1


def evidence_of(task, listed, similarity):
    """Evidence in which structure is a dense matrix of similarities: those of targets are unit vectors."""
    count = task.target.num_entities
    source = np.concatenate([similarity, np.sqrt(1 - (similarity**2).sum(axis=1, keepdims=True))], axis=1)
    target = np.eye(count, count + 1)
    vectors = EntityVectors("structure", *all_ids(task), source.astype(np.float32), target.astype(np.float32))
    half_of = np.zeros(task.source.num_entities, dtype=np.int8)
    structure = Structure(
        task, Links.from_pairs([]), [judges._Half(0, all_ids(task)[0], vectors)], half_of, "cpu", 0
    )
    return decoys._Evidence(task, csr_array(listed.astype(np.float32)), structure, csr_array(listed.shape))


def test_a_decoy_is_the_best_of_the_targets_that_are_left_over():
    task = planted_pair(12, 40, 2, 2, random_seed=1).task
    task = AlignmentTask(task.source, task.target)
    listed, similarity = np.zeros((12, 12)), np.zeros((12, 12))
    # Source 0: target 1 is taken by a sure pair, and target 5 is better than target 6 by name and structure
    # together. Source 1 has only a target that is taken.
    listed[0, [0, 1, 5, 6]] = 1, 0.9, 0.5, 0.6
    similarity[0, 5] = 0.2
    listed[1, [1, 0]] = 1, 0.3
    sure = np.array([0, 1]), np.array([0, 1])
    (source, target), row = decoys._decoys(sure, evidence_of(task, listed, similarity))
    assert row.tolist() == [0, 1]
    assert source[0] == 0 and target[0] == 5
    assert len(source) == 2 and source[1] == 1 and target[1] not in (0, 1)


@given(st.integers(0, 1000))
def test_every_sure_pair_has_at_most_one_decoy_and_never_itself(random_seed):
    task = planted_pair(12, 40, 2, 2, random_seed=1).task
    task = AlignmentTask(task.source, task.target)
    draw = np.random.default_rng(random_seed)
    listed = np.where(draw.random((12, 12)) < 0.3, draw.random((12, 12)), 0)
    sure = np.sort(draw.permutation(12)[:6]), draw.permutation(12)[:6]
    (source, target), row = decoys._decoys(sure, evidence_of(task, listed, np.zeros((12, 12))))
    assert np.array_equal(source, sure[0][row])
    assert len(set(source)) == len(source) and set(source) <= set(sure[0])
    own = dict(zip(*sure, strict=True))
    assert all(own[one] != other for one, other in zip(source, target, strict=True))


def test_too_few_sure_pairs_give_no_calibration():
    task = planted_pair(60, 200, 2, 2, random_seed=1).task
    scores = PairScores("names", *all_ids(task), csr_array((60, 60), dtype=np.float32))
    ids = np.arange(60, dtype=np.int32)
    assignment = assigned(ids, ids)
    structure = Structure.of(AlignmentTask(task.source, task.target), Links.from_pairs([]))
    calibration, columns = calibrate_without_seeds(assignment, task, (scores,), structure)
    assert calibration is None
    assert columns.shape[0] == 60
