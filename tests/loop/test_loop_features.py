"""The features of a loop: what they are told, who judges them, and how much they count."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

from divea.config import Settings
from divea.errors import InputError
from divea.features import Feature
from divea.features.fusion import DEFAULT_WEIGHT, FEWEST_PAIRS
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, PairScores, all_ids
from divea.graphs.planted import planted_pair
from divea.graphs.synth import SynthConfig, synthesise
from divea.loop import features as module
from divea.loop.features import (
    DEFAULT_WEIGHT_OF_STRUCTURE,
    GOOD_STRUCTURE,
    HERE,
    HIGHEST_SCALE,
    Computing,
    LoopFeatures,
    starting_pairs,
)
from divea.loop.loop import Runtime, run_loop
from tests.loop.small_loops import SMALL, align, solver_of, with_shuffled_literals

PAIR = planted_pair(120, 500, 4, 40, random_seed=3)
LINKS = np.concatenate([PAIR.task.seeds.pairs, PAIR.gold.pairs])
NONE = Links.from_pairs([])


def task_with(seeds):
    return AlignmentTask(PAIR.task.source, PAIR.task.target, Links.from_pairs(LINKS[:seeds]))


class Fake(Feature):
    """A feature that remembers what it was told."""

    def __init__(self, name, *, uses_known_pairs=False, is_structural=False, made_from=None, has_data=True):
        self.name, self.has_data, self.told = name, has_data, []
        self.uses_known_pairs, self.is_structural = uses_known_pairs, is_structural
        self._made_from = made_from

    @classmethod
    def from_settings(cls, settings):
        raise NotImplementedError

    def compute(self, task, known, **options):
        self.told.append(known)
        if not self.has_data:
            return None
        ids = all_ids(task)
        if self.is_structural:
            rows = (np.ones((len(side), 2), np.float16) for side in ids)
            return EntityVectors(self.name, *ids, *rows, is_structure=True)
        return PairScores(self.name, *ids, csr_array(np.eye(*map(len, ids), dtype=np.float32)))

    def made_from(self, task):
        return self._made_from

    def describe(self):
        return {"told": len(self.told)}


@pytest.fixture
def judged(monkeypatch):
    """The judges of each feature whose weight was learned; all weights are .4."""
    calls = []

    def learned_weights(features, judges):
        calls.extend((feature.name, judges) for feature in features)
        return (0.4,) * len(features)

    monkeypatch.setattr(module, "learned_weights", learned_weights)
    return calls


@pytest.fixture
def loop_with(monkeypatch):
    """Makes the features of a loop from fakes."""

    def make(*fakes, task=PAIR.task, computing=HERE):
        monkeypatch.setattr(module, "make_features", lambda settings: list(fakes))
        return LoopFeatures(task, Settings(), computing)

    return make


def weights(features):
    return {feature.name: feature.weight for feature in features}


def test_seeds_judge_features_if_there_are_enough(loop_with, judged):
    task = task_with(FEWEST_PAIRS)
    found = loop_with(Fake("names")).at(task, Links.from_pairs(LINKS[50:60]), NONE)
    assert judged == [("names", task.seeds)]
    assert weights(found) == {"names": 0.4}


@pytest.mark.parametrize("count", [FEWEST_PAIRS - 1, FEWEST_PAIRS])
def test_structure_judges_features_if_seeds_are_few(loop_with, judged, monkeypatch, count):
    task, pseudo_seeds = task_with(FEWEST_PAIRS - 1), Links.from_pairs(LINKS[50:60])
    sure = Links.from_pairs(LINKS[60 : 60 + count])

    def structure_of(visible, told, **options):
        assert visible is task and told == pseudo_seeds
        return SimpleNamespace(sure=sure, weight=lambda judges: None)

    monkeypatch.setattr(module.Structure, "of", structure_of)
    found = loop_with(Fake("names")).at(task, pseudo_seeds, NONE)
    is_enough = count >= FEWEST_PAIRS
    assert judged == ([("names", sure)] if is_enough else [])
    assert weights(found) == {"names": 0.4 if is_enough else DEFAULT_WEIGHT}


@pytest.fixture
def structure_worth(monkeypatch):
    """Structure that is sure of ten pairs and worth what the function returns; who judged it."""
    calls = []

    def make(worth):
        def weight(judges):
            calls.append(judges)
            return worth

        sure = Links.from_pairs(LINKS[60 : 60 + FEWEST_PAIRS])
        structure = SimpleNamespace(sure=sure, weight=weight)
        monkeypatch.setattr(module.Structure, "of", lambda *told, **options: structure)
        return calls

    return make


@pytest.mark.parametrize(
    ("worth", "scale"),
    [(GOOD_STRUCTURE / 2, 2.0), (None, 1.0), (0.0, HIGHEST_SCALE), (GOOD_STRUCTURE, 1.0), (2.0, 1.0)],
)
def test_the_less_structure_is_worth_the_more_other_features_count(
    loop_with, judged, structure_worth, worth, scale
):
    """Without seeds, pairs that the features are sure of judge structure."""
    judges = structure_worth(worth)
    found = loop_with(Fake("names")).at(task_with(0), Links.from_pairs(LINKS[50:60]), NONE)
    assert weights(found) == {"names": pytest.approx(0.4 * scale)}
    ids = np.arange(PAIR.task.source.num_entities)
    assert judges == [Links(ids, ids)]


def test_where_seeds_judge_features_structure_is_not_judged(loop_with, judged, structure_worth):
    judges = structure_worth(0.1)
    found = loop_with(Fake("names")).at(task_with(30), Links.from_pairs(LINKS[50:60]), NONE)
    assert weights(found) == {"names": 0.4}
    assert not judges


def test_without_seeds_and_pseudo_seeds_features_have_their_default_weights(loop_with, judged):
    found = loop_with(Fake("names"), Fake("propagation", is_structural=True)).at(task_with(0), NONE, NONE)
    assert judged == []
    # Names have to outweigh the model and the structural feature together.
    assert weights(found) == {
        "names": DEFAULT_WEIGHT * (1 + DEFAULT_WEIGHT_OF_STRUCTURE),
        "propagation": DEFAULT_WEIGHT_OF_STRUCTURE,
    }


def test_only_hidden_seeds_judge_structural_features(loop_with, judged):
    features = loop_with(Fake("names"), Fake("propagation", is_structural=True, uses_known_pairs=True))
    visible, hidden = task_with(30), Links.from_pairs(LINKS[30:42])
    found = features.at(visible, NONE, hidden)
    assert judged == [("names", visible.seeds), ("propagation", hidden)]
    assert weights(found) == {"names": pytest.approx(0.4 * 1.4), "propagation": 0.4}
    # In the last iteration no seed is hidden: the weight stays what it was.
    judged.clear()
    found = features.at(task_with(42), NONE, NONE)
    assert [name for name, _ in judged] == ["names"]
    assert weights(found)["propagation"] == 0.4


def test_hidden_seeds_are_never_known(loop_with, judged):
    """Pseudo-seeds may be a hidden seed, or share an end with one: none of these may be learned from."""
    visible, hidden = task_with(20), Links.from_pairs(LINKS[20:40])
    wrong = (
        np.stack([LINKS[20:25, 0], LINKS[70:75, 1]], axis=1),
        np.stack([LINKS[75:80, 0], LINKS[25:30, 1]], 1),
    )
    pseudo_seeds = Links.from_pairs(np.concatenate([LINKS[30:35], *wrong, LINKS[50:60]]))
    learner = Fake("attributes", uses_known_pairs=True)
    loop_with(learner).at(visible, pseudo_seeds, hidden)
    (known,) = learner.told
    assert known == Links.from_pairs(np.concatenate([LINKS[:20], LINKS[50:60]]))
    assert not np.isin(known.source, hidden.source).any()
    assert not np.isin(known.target, hidden.target).any()


@pytest.mark.parametrize("has_threshold", [False, True])
def test_no_seed_that_calibrates_confidence_is_known_to_a_feature(monkeypatch, has_threshold):
    """In a whole loop, with held-back seeds or with folds."""
    learner = Fake("attributes", uses_known_pairs=True)
    monkeypatch.setattr(module, "make_features", lambda settings: [learner])
    confidence = {"folds": 2} if has_threshold else {"held_back": 0.5}
    settings = Settings(subtasks=1, iterations=2, model=SMALL, confidence=confidence)
    seeds = []

    def spy(work):
        seeds.append(work.task.seeds)
        return solver(work)

    solver = solver_of(settings)
    run_loop(task_with(40), settings, Runtime(spy))
    assert len(learner.told) == len(seeds)
    assert min(map(len, seeds)) == 20 and max(map(len, seeds)) == 40
    everything = set(map(tuple, LINKS[:40].tolist()))
    for known, visible in zip(learner.told, seeds, strict=True):
        seen = set(map(tuple, known.pairs.tolist()))
        hidden = Links.from_pairs(sorted(everything - set(map(tuple, visible.pairs.tolist()))))
        assert set(map(tuple, visible.pairs.tolist())) <= seen
        assert not np.isin(known.source, hidden.source).any()
        assert not np.isin(known.target, hidden.target).any()


def test_loops_with_the_same_graphs_share_what_does_not_depend_on_known_pairs(loop_with, judged, monkeypatch):
    """The names of both graphs are compared once for all folds, and features stay in their order."""
    made = []

    def make(settings):
        made.append([Fake("attributes", uses_known_pairs=True), Fake("names")])
        return made[-1]

    loop_with()
    monkeypatch.setattr(module, "make_features", make)
    pseudo_seeds = Links.from_pairs(LINKS[50:60])
    before, found = None, []
    for _ in range(3):
        before = LoopFeatures(PAIR.task, Settings(), HERE, before)
        found += [before.at(task_with(20), pseudo_seeds, NONE) for _ in range(2)]
    assert [[len(fake.told) for fake in fakes] for fakes in made] == [[1, 1], [1, 0], [1, 0]]
    assert {tuple(feature.name for feature in features) for features in found} == {("attributes", "names")}
    assert before.describe(found[-1])["names"] == {"told": 1}


def test_structural_features_that_appear_later_have_a_weight(loop_with, judged):
    """A second one has no data before there are pseudo-seeds."""
    first, second = (Fake(name, uses_known_pairs=True, is_structural=True) for name in ("one", "two"))
    second.has_data = False
    features = loop_with(first, second)
    assert weights(features.at(task_with(0), NONE, NONE)).keys() == {"one"}
    second.has_data = True
    assert weights(features.at(task_with(0), Links.from_pairs(LINKS[50:60]), NONE)).keys() == {"one", "two"}


def test_a_feature_is_computed_again_only_if_what_it_learns_from_has_changed(loop_with, judged):
    learner, fixed = Fake("attributes", uses_known_pairs=True), Fake("names")
    features = loop_with(learner, fixed)
    for end in (60, 60, 70):
        features.at(task_with(20), Links.from_pairs(LINKS[50:end]), NONE)
    assert [len(known) for known in learner.told] == [30, 40]
    assert len(fixed.told) == 1


@pytest.mark.parametrize(
    ("seeds", "known"), [(FEWEST_PAIRS - 1, FEWEST_PAIRS + 9), (FEWEST_PAIRS, FEWEST_PAIRS)]
)
def test_structural_features_start_from_seeds_alone_if_there_are_enough(loop_with, judged, seeds, known):
    propagation = Fake("propagation", is_structural=True, uses_known_pairs=True)
    loop_with(propagation).at(task_with(seeds), Links.from_pairs(LINKS[50:60]), NONE)
    assert [len(links) for links in propagation.told] == [known]


def test_features_that_the_task_has_no_data_for_are_left_out(loop_with, judged):
    features = loop_with(Fake("names", has_data=False), Fake("attributes"))
    found = features.at(task_with(20), NONE, NONE)
    assert weights(found) == {"attributes": 0.4}
    assert features.describe(found) == {
        "weights": {"names": 0.0, "attributes": 0.4},
        "names": {"told": 1},
        "attributes": {"told": 1},
    }


def test_features_that_are_worth_nothing_are_left_out(loop_with, monkeypatch):
    monkeypatch.setattr(module, "learned_weights", lambda features, judges: (0.4, 0.0))
    features = loop_with(Fake("names"), Fake("attributes"))
    found = features.at(task_with(20), NONE, NONE)
    assert weights(found) == {"names": 0.4}
    assert features.describe(found)["weights"] == {"names": 0.4, "attributes": 0.0}


def test_what_is_expensive_is_kept_by_what_it_was_made_from(loop_with, judged):
    kept = []

    def keep(name, made_from, compute):
        kept.append((name, made_from))
        return compute()

    fakes = Fake("names"), Fake("encoder", made_from="a checksum"), Fake("given", made_from="another")
    loop = loop_with(*fakes, computing=Computing(keep=keep))
    found = loop.at(task_with(20), NONE, NONE)
    loop.at(task_with(20), NONE, NONE)
    assert kept == [("encoder", "a checksum"), ("given", "another")]
    assert list(weights(found)) == ["names", "encoder", "given"]


def test_names_that_are_wrong_change_nothing_where_seeds_judge_them():
    pair = synthesise(SynthConfig(entities=500, names=True, seed_share=0.3, random_seed=5))
    task = AlignmentTask(pair.task.source, with_shuffled_literals(pair.task.target), pair.task.seeds)
    found, expected = (
        align(task, Settings(subtasks=2, iterations=2, model=SMALL, features=features))
        for features in ("names+attributes", "none")
    )
    assert found.learned["weights"] == {"names": 0.0, "attributes": 0.0}
    assert found.matches.score.tobytes() == expected.matches.score.tobytes()
    assert np.array_equal(found.assignment.target, expected.assignment.target)
    assert np.array_equal(found.confidence, expected.confidence, equal_nan=True)
    # The same seeds find names that are right.
    right = align(pair.task, Settings(subtasks=2, iterations=1, model=SMALL, features="names+attributes"))
    assert all(weight > 0.1 for weight in right.learned["weights"].values())


def test_nothing_to_start_from_is_an_error_without_seeds_only():
    task = task_with(0)
    empty = PairScores("names", *all_ids(task), csr_array((120, 120), dtype=np.float32))
    for features in ((), (empty,)):
        with pytest.raises(InputError, match="nothing to start from: the task has no seeds"):
            starting_pairs(task, features)
        assert not len(starting_pairs(task_with(1), features))
