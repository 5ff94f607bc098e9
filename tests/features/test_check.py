"""`check_feature` accepts features that meet the contract, and names each way of breaking it."""

import re
import sys
from collections import Counter
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.sparse import csr_array

from divea import registry
from divea.config import FeatureSettings
from divea.errors import InputError
from divea.features import Feature, check_feature, make_features
from divea.features.check import checked_tasks
from divea.graphs.features import EntityVectors, PairScores, all_ids


@pytest.mark.parametrize("name", ["names", "attributes", "propagation"])
def test_built_in_features_meet_the_contract(name):
    (feature,) = make_features(FeatureSettings(name=name))
    check_feature(feature)


class Good(Feature):
    """The smallest useful feature: entities are similar if they have a literal in common."""

    name = "literals"

    @classmethod
    def from_settings(cls, settings):
        return cls()

    def compute(self, task, known, *, random_seed=0, device="cpu", memory=None):
        sides = [graph.attributes for graph in (task.source, task.target)]
        if any(side is None for side in sides):
            return None
        texts = [side.values.to_pylist() for side in sides]
        # A literal that many entities have says little, and makes many pairs.
        counts = [Counter(some) for some in texts]
        shared = sorted(
            text for text in counts[0].keys() & counts[1].keys() if sum(c[text] for c in counts) < 9
        )
        number = {text: column for column, text in enumerate(shared)}
        rows = []
        for side, values, graph in zip(sides, texts, (task.source, task.target), strict=True):
            pairs = {
                (e, number[t]) for e, t in zip(side.entities.tolist(), values, strict=True) if t in number
            }
            entity, column = np.array(sorted(pairs), dtype=np.int64).reshape(-1, 2).T
            ones = np.ones(len(entity), np.float32)
            rows.append(csr_array((ones, (entity, column)), shape=(graph.num_entities, len(number))))
        scores = csr_array(rows[0] @ rows[1].T)
        scores.sort_indices()
        return PairScores(self.name, *all_ids(task), scores)


class GoodVectors(Good):
    """A vector of the degree and the number of literals of each entity."""

    name = "sizes"

    def compute(self, task, known, *, random_seed=0, device="cpu", memory=None):
        sides = []
        for graph in (task.source, task.target):
            literals = [] if graph.attributes is None else graph.attributes.entities
            counts = np.bincount(literals, minlength=graph.num_entities)
            sides.append(np.stack([graph.degrees, counts], axis=1).astype(np.float16))
        return EntityVectors(self.name, *all_ids(task), *sides)


@pytest.mark.parametrize("feature_type", [Good, GoodVectors])
def test_a_feature_of_a_few_lines_meets_the_contract(feature_type):
    check_feature(feature_type())


def with_scores(rows, change):
    return rows and replace(rows, scores=csr_array(change(rows.scores)))


def with_bonus(rows, row, column, bonus):
    """The scores with a bonus for some pairs."""
    extra = csr_array((np.full(len(row), bonus, np.float32), (row, column)), shape=rows.scores.shape)
    return with_scores(rows, lambda scores: (scores + extra).astype(np.float32))


def changed(change, base=Good):
    """A feature that changes the result of a good one: `change(rows, task, known)`."""

    class Changed(base):
        def compute(self, task, known, **options):
            rows = super().compute(task, known, **options)
            return None if rows is None else change(rows, task, known)

    return Changed()


def changed_vectors(change):
    return changed(change, GoodVectors)


def with_bonus_for(pairs_of):
    """A feature with a bonus of 0.5 for the pairs that `pairs_of(task, known)` returns."""
    return changed(lambda rows, task, known: with_bonus(rows, *pairs_of(task, known), 0.5))


class OrderOfInput(Good):
    """Changes its result for a graph that is equal to the first one that it saw, but another object."""

    first = None

    def compute(self, task, known, **options):
        rows = super().compute(task, known, **options)
        if OrderOfInput.first is None:
            OrderOfInput.first = task.source
        if task.source is not OrderOfInput.first and task.source == OrderOfInput.first:
            rows = with_scores(rows, lambda scores: scores * np.float32(0.999))
        return rows


class UsesKnownPairs(Good):
    uses_known_pairs = True

    def compute(self, task, known, **options):
        rows = super().compute(task, known, **options)
        return rows and with_bonus(rows, known.source, known.target, 0.5)


class KeepsKnownPairs(UsesKnownPairs):
    kept = None

    def compute(self, task, known, **options):
        self.kept = known if self.kept is None else self.kept
        return super().compute(task, self.kept, **options)


class CountsCalls(Good):
    calls = 0

    def compute(self, task, known, **options):
        self.calls += 1
        rows = super().compute(task, known, **options)
        return with_scores(rows, lambda scores: scores * np.float32(1 + self.calls / 1000))


class ReusesItsResult(UsesKnownPairs):
    """Returns the same array in every call, with new content."""

    buffer = None

    def compute(self, task, known, **options):
        rows = super().compute(task, known, **options)
        if rows is None:
            return None
        dense = rows.scores.toarray() + np.float32(1e-3)
        if self.buffer is None or self.buffer.shape != dense.shape:
            self.buffer = csr_array(dense)
        self.buffer.data[:] = dense.ravel()
        return replace(rows, scores=self.buffer)


class ChangesKnownPairs(Good):
    def compute(self, task, known, **options):
        known.source[:] = np.roll(known.source, 1)
        return super().compute(task, known, **options)


class ChangesTriples(Good):
    def compute(self, task, known, **options):
        task.source.triples[:, 1] = 0
        return super().compute(task, known, **options)


class NeedsTwoEntities(Good):
    def compute(self, task, known, **options):
        if task.source.num_entities == 1:
            raise IndexError("no second entity")
        return super().compute(task, known, **options)


class ComparesAllPairs(Good):
    def compute(self, task, known, **options):
        np.ones((task.source.num_entities, task.target.num_entities), np.float32)
        return super().compute(task, known, **options)


class Views(EntityVectors):
    def take(self, source, target):
        sides = self.source[: len(source)], self.target[: len(target)]
        return EntityVectors(self.name, source, target, *sides)


class Slices(EntityVectors):
    """Cuts contiguous views if it can."""

    def take(self, source, target):
        return EntityVectors(self.name, source, target, self.source[::3], self.target[1::2])


def as_type(rows_type):
    return changed_vectors(
        lambda rows, *_: rows_type(rows.name, rows.source_ids, rows.target_ids, rows.source, rows.target)
    )


def noisy(rows, task, known):
    noise = np.float32(1 + 1e-3 * np.random.default_rng().random())
    return with_scores(rows, lambda scores: scores * noise)


def same_ids(task, known):
    ids = np.arange(min(task.source.num_entities, task.target.num_entities))
    return ids, ids


def unsorted_columns(rows, task, known):
    scores = csr_array(np.ones(rows.scores.shape, np.float32))
    scores.indices = scores.indices[::-1].copy()
    scores.has_canonical_format = scores.has_sorted_indices = True
    return replace(rows, scores=scores)


def backwards(ids):
    return np.ascontiguousarray(ids[::-1])


BROKEN = {
    "random": (changed(noisy), "same task, known pairs and random seed gave different results"),
    "order of the input": (OrderOfInput(), "the order of triples, literals and entities changed the result"),
    "keeps known pairs": (KeepsKnownPairs(), "the result depends on what was computed before"),
    "counts calls": (CountsCalls(), "the result depends on what was computed before"),
    "reuses its result": (ReusesItsResult(), "a later call changed an earlier result"),
    "uses known pairs": (
        with_bonus_for(lambda task, known: (known.source, known.target)),
        "uses the known pairs, but `uses_known_pairs` is False",
    ),
    "uses the seeds": (
        with_bonus_for(lambda task, known: (task.seeds.source, task.seeds.target)),
        "the feature uses the seeds of the task",
    ),
    "uses the order of ids": (
        changed(lambda rows, task, known: with_bonus(rows, *same_ids(task, known), 3)),
        "under other ids, scores change by .*: the feature uses the order of ids",
    ),
    "uses the order of ids a little": (
        changed(lambda rows, task, known: with_bonus(rows, *same_ids(task, known), 0.05)),
        "unrelated graphs: .* are most similar to the entity of the same id",
    ),
    "changes known pairs": (ChangesKnownPairs(), "changed the graphs or the known pairs that it was given"),
    "changes triples": (ChangesTriples(), "changed the graphs or the known pairs that it was given"),
    "fails for one entity": (NeedsTwoEntities(), "graphs of one entity: IndexError: no second entity"),
    "compares all pairs": (ComparesAllPairs(), "as if there were a number for every pair"),
    "nothing": (changed(lambda *_: None), "the result is None for two graphs with triples"),
    "another type": (changed(lambda rows, *_: rows.scores), "of type csr_array, not PairScores"),
    "another name": (
        changed(lambda rows, *_: replace(rows, name="x")),
        "the result is named 'x', the feature",
    ),
    "ids of 64 bits": (
        changed(lambda rows, *_: replace(rows, source_ids=rows.source_ids.astype(np.int64))),
        "source ids are not int32",
    ),
    "unsorted ids": (
        changed(lambda rows, *_: replace(rows, target_ids=backwards(rows.target_ids))),
        "target ids are not in ascending order",
    ),
    "an entity is missing": (
        changed(lambda rows, *_: replace(rows, source_ids=rows.source_ids[1:])),
        "the source has 100 entities, the result has 99 of them",
    ),
    "a wrong shape": (
        changed(lambda rows, *_: with_scores(rows, lambda scores: scores.T)),
        r"the graphs have \(100, 120\) entities, scores are \(120, 100\)",
    ),
    "a dense matrix": (
        changed(lambda rows, *_: replace(rows, scores=rows.scores.toarray())),
        "scores are of type ndarray, not csr_array",
    ),
    "float64": (
        changed(lambda rows, *_: with_scores(rows, lambda scores: scores.astype(np.float64))),
        "scores are float64, not float32",
    ),
    "NaN": (
        changed(lambda rows, *_: with_scores(rows, lambda scores: scores * np.float32(np.nan))),
        "scores are not all finite",
    ),
    "large scores": (
        changed(lambda rows, *_: with_scores(rows, lambda scores: scores * np.float32(1000))),
        "a score is .*; scores are from -10 to 10",
    ),
    "unsorted columns": (
        changed(unsorted_columns),
        "the columns of a row are not in ascending order and distinct",
    ),
    "vectors of one dimension": (
        changed_vectors(lambda rows, *_: replace(rows, source=rows.source[:, 0])),
        r"the source has 100 entities, its vectors are \(100,\)",
    ),
    "missing vectors": (
        changed_vectors(lambda rows, *_: replace(rows, target=rows.target[1:])),
        r"the target has 120 entities, its vectors are \(119, 2\)",
    ),
    "vectors of float64": (
        changed_vectors(lambda rows, *_: replace(rows, source=rows.source.astype(np.float64))),
        "source vectors are float64, not float16 or float32",
    ),
    "vectors of infinity": (
        changed_vectors(lambda rows, *_: replace(rows, target=rows.target + np.float16(np.inf))),
        "target vectors are not all finite",
    ),
    "sides differ": (
        changed_vectors(lambda rows, *_: replace(rows, target=rows.target[:, :1])),
        "sides differ in dimensions",
    ),
    "wrong slices": (as_type(Views), "`take` of some entities gives other scores than the whole"),
    "views": (as_type(Slices), "`take` returns views of the whole"),
}


@pytest.mark.parametrize(("feature", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_contract_is_named(feature, message):
    with pytest.raises(AssertionError, match=message):
        check_feature(feature)


def test_a_feature_that_uses_known_pairs_and_says_so_meets_the_contract():
    check_feature(UsesKnownPairs())


@pytest.mark.parametrize("name", ["", "names+mine"])
def test_a_name_that_cannot_be_used_in_settings_is_refused(name):
    feature = Good()
    feature.name = name
    with pytest.raises(AssertionError, match="the name of a feature must not be empty or contain"):
        check_feature(feature)


def test_the_checked_feature_itself_computes_nothing():
    feature = CountsCalls()
    with pytest.raises(AssertionError):
        check_feature(feature)
    assert feature.calls == 0


def test_counterparts_of_the_checked_tasks_have_equal_numbers():
    for case in checked_tasks().values():
        labels = case.known.labels(case.task.source, case.task.target)
        left, right = (side.to_pylist() for side in labels)
        assert [label.removeprefix("left") for label in left] == [
            label.removeprefix("right") for label in right
        ]


NOT_A_CLASS = "a string"


@pytest.fixture
def plug_ins(monkeypatch):
    """Offers the classes above as entry points, and one feature under the name of a built-in one."""
    names = {"literals": "Good", "string": "NOT_A_CLASS", "scores": "PairScores", "names": "Good"}
    points = EntryPoints(
        EntryPoint(name, f"{__name__}:{attribute}", "divea.features") for name, attribute in names.items()
    )
    monkeypatch.setattr(registry, "entry_points", points.select)


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_is_used_by_its_name():
    made = make_features(FeatureSettings(name="literals+names"))
    assert [type(feature).__name__ for feature in made] == ["Good", "Names"]


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize("name", ["string", "scores"])
def test_a_plug_in_that_is_not_a_feature_is_rejected(name):
    with pytest.raises(InputError, match=rf"the plug-in feature '{name}' is not a divea\.features\.Feature"):
        make_features(FeatureSettings(name=name))


def test_an_unknown_feature_is_rejected():
    with pytest.raises(InputError, match="unknown feature 'literals'; choose from names, attributes"):
        FeatureSettings(name="literals")


def test_the_example_of_the_features_page_meets_the_contract(monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "guide" / "features.md"
    examples = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    (code,) = [example for example in examples if "(Feature):" in example]
    assert "check_feature(" in code
    module = ModuleType("features_page")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, page, "exec"), vars(module))
