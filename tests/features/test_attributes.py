"""Attribute values: which properties say the same is learned from known pairs, and what each is worth."""

import numpy as np
import pytest

from divea.config import FeatureSettings
from divea.features.attributes import FEWEST_KNOWN, AttributeValues, read_properties
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.features import scores_at
from tests.features.cases import books, films, graph_of

COUNT = 300
IDENTIFIER, YEAR, GENRE, NOISE = "identifier", "year", "genre", "noise"
NONE = Links.from_pairs([])


def catalogue(random_seed=0, *, is_reversed=False):
    """A task and its gold links: codes, years and genres, in other properties, and some that mean nothing.

    A tenth of the years differs. Most entities have the genre g0, and few have one of the other 19.
    """
    draw = np.random.default_rng(random_seed)
    codes = draw.choice(10**9, COUNT, replace=False)
    years = draw.integers(1900, 2000, COUNT)
    genres = np.where(draw.random(COUNT) < 0.6, 0, draw.integers(1, 20, COUNT))
    graphs, labels = [], []
    for side in "ab":
        label = [f"http://{side}.org/{number}" for number in draw.permutation(COUNT)]
        seen = np.where(draw.random(COUNT) < 0.1, draw.integers(1900, 2000, COUNT), years)
        rows = [(label[i], f"{side}-{IDENTIFIER}", str(codes[i]), "") for i in range(COUNT)]
        rows += [(label[i], f"{side}-{YEAR}", str(seen[i]), "") for i in range(COUNT)]
        rows += [(label[i], f"{side}-{GENRE}", f"g{genres[i]}", "") for i in range(COUNT)]
        rows += [(label[i], f"{side}-{NOISE}", str(draw.integers(1900, 2000)), "") for i in range(COUNT)]
        graphs.append(graph_of([], rows[::-1] if is_reversed else rows))
        labels.append(label)
    gold = Links.from_pairs(
        np.stack([graph.find(label) for graph, label in zip(graphs, labels, strict=True)], axis=1)
    )
    return AlignmentTask(*graphs), gold


@pytest.fixture(scope="module")
def learned():
    """The properties that 150 known pairs find, by the pair of their labels; and the scores."""
    task, gold = catalogue()
    feature = AttributeValues()
    scores = feature.compute(task, Links.from_pairs(gold.pairs[:150]))
    return {(pair.source, pair.target): pair for pair in feature.learned}, scores, gold


def test_the_right_pairs_of_properties_are_found_among_others(learned):
    properties, _, _ = learned
    expected = {(f"a-{name}", f"b-{name}") for name in (IDENTIFIER, YEAR, GENRE)}
    assert set(properties) == expected


def test_matches_agree_more_often_than_others(learned):
    properties, _, _ = learned
    assert all(1 >= pair.m > pair.u >= 0 for pair in properties.values())
    assert properties["a-identifier", "b-identifier"].m == pytest.approx(1)
    assert 0.7 < properties["a-year", "b-year"].m < 0.95


def weight(pair, rarity):
    """What agreement on a value of some rarity is worth."""
    return pair.agreement + rarity * pair.rare_agreement + pair.presence


def test_an_identifier_is_worth_most_and_disagreement_counts_against_a_pair(learned):
    properties, _, _ = learned
    code, year, genre = (properties[f"a-{name}", f"b-{name}"] for name in (IDENTIFIER, YEAR, GENRE))
    assert weight(code, 1.0) > weight(year, 0.6) > 0
    assert weight(code, 1.0) > weight(genre, 0.2)
    assert all(pair.presence < 0 for pair in (code, year, genre))
    # An identifier that differs says more than a genre that differs.
    assert code.presence < genre.presence


def test_scores_prefer_the_pairs_that_were_not_known(learned):
    _, scores, gold = learned
    hidden = gold.pairs[150:]
    dense = scores.scores.toarray()
    assert ((dense >= 0) & (dense <= 1)).all() and scores.scores.dtype == np.float32
    assert np.array_equal(dense[hidden[:, 0]].argmax(axis=1), hidden[:, 1])
    others = np.sort(dense[hidden[:, 0]], axis=1)[:, -2]
    assert (dense[hidden[:, 0], hidden[:, 1]] - others).mean() > 0.3


def test_a_rare_value_counts_more_than_a_common_one():
    """Two sources have a genre and nothing else, one of them a common genre; so have their counterparts."""
    task, gold = catalogue()
    graphs = []
    for side, graph in (("a", task.source), ("b", task.target)):
        attributes = graph.attributes
        predicates = attributes.predicate_labels.to_pylist()
        rows = [
            (graph.label([row["entity"]])[0], predicates[row["predicate"]], row["value"], row["kind"])
            for row in attributes.table().to_pylist()
        ]
        rows += [(f"http://{side}.org/{name}", f"{side}-genre", name, "") for name in ("g0", "g7")]
        graphs.append(graph_of([], rows))
    known = Links(
        *(
            graph.find(old.label(ids))
            for graph, old, ids in zip(
                graphs, (task.source, task.target), (gold.source, gold.target), strict=True
            )
        )
    )
    # All pairs are compared, also those that share a common value alone.
    feature = AttributeValues(FeatureSettings(nearest=1000))
    scores = feature.compute(AlignmentTask(*graphs), Links.from_pairs(known.pairs)).scores
    ends = (
        [graph.find([f"http://{side}.org/{name}"])[0] for name in ("g0", "g7")]
        for side, graph in zip("ab", graphs, strict=True)
    )
    common, rare = scores_at(scores, *map(np.array, ends))
    assert rare > common


@pytest.mark.parametrize("count", [0, FEWEST_KNOWN - 1, FEWEST_KNOWN])
def test_properties_are_learned_from_enough_known_pairs(count):
    task, gold = catalogue()
    feature = AttributeValues()
    feature.compute(task, Links.from_pairs(gold.pairs[:count]))
    assert bool(feature.learned) == (count >= FEWEST_KNOWN)


def test_without_known_pairs_codes_find_their_like():
    task, gold = catalogue()
    dense = AttributeValues().compute(task, NONE).scores.toarray()
    assert (dense[gold.source].argmax(axis=1) == gold.target).mean() > 0.9
    case = books()
    dense = AttributeValues().compute(case.task, NONE).scores.toarray()
    assert np.array_equal(dense[case.gold.source].argmax(axis=1), case.gold.target)


def test_known_pairs_that_are_wrong_find_no_properties():
    task, gold = catalogue()
    wrong = Links(gold.source, np.random.default_rng(0).permutation(gold.target))
    feature = AttributeValues()
    found = feature.compute(task, wrong)
    assert feature.learned == [] and feature.describe() == []
    assert np.array_equal(found.scores.toarray(), AttributeValues().compute(task, NONE).scores.toarray())


def assert_same(one, other):
    assert all(map(np.array_equal, one.arrays, other.arrays))


def test_the_order_of_literals_does_not_matter_and_the_same_call_gives_the_same():
    known = Links.from_pairs(catalogue()[1].pairs[:100])
    tasks = [catalogue()[0], catalogue()[0], catalogue(is_reversed=True)[0]]
    first, *others = (AttributeValues().compute(task, known, random_seed=3) for task in tasks)
    for other in others:
        assert_same(other, first)


def test_an_instance_can_be_used_for_one_task_after_another():
    task, gold = catalogue()
    known = Links.from_pairs(gold.pairs[:100])
    case = films(60)
    feature = AttributeValues()
    assert_same(feature.compute(task, known), AttributeValues().compute(task, known))
    assert feature.learned
    assert_same(feature.compute(case.task, NONE), AttributeValues().compute(case.task, NONE))
    # What was learned from another task is not said about this one.
    assert feature.learned == []
    assert_same(feature.compute(task, known), AttributeValues().compute(task, known))
    assert feature.learned
    assert_same(feature.compute(task, NONE), AttributeValues().compute(task, NONE))
    assert feature.learned == []


def test_a_graph_without_literals_has_no_attribute_values():
    task, _ = catalogue()
    bare = KnowledgeGraph.from_triples([("http://a/1", "r", "http://a/2")])
    for one in (AlignmentTask(bare, task.target), AlignmentTask(task.source, bare)):
        assert AttributeValues().compute(one, NONE) is None
        assert not AttributeValues().is_available(one)
    assert AttributeValues().is_available(task)


def test_properties_are_rows_of_length_one_without_names():
    case = films(60)
    for side in read_properties(case.task, FeatureSettings()):
        assert [item.label for item in side] in (["year"], ["released"])
        for item in side:
            lengths = np.sqrt(item.rows.multiply(item.rows).sum(axis=1))
            has_value = np.diff(item.rows.indptr) > 0
            assert np.allclose(lengths[has_value], 1, atol=1e-5)
            assert ((item.rarity >= 0) & (item.rarity <= 1)).all()
            assert np.array_equal(item.rarity > 0, has_value)


def test_an_entity_with_several_values_has_all_of_them():
    rows = [("http://a.org/1", "code", value, "") for value in ("4711", "4712", "4711 ")]
    other = [("http://b.org/1", "number", "4712", ""), ("http://b.org/2", "number", "4713", "")]
    task = AlignmentTask(graph_of([], rows), graph_of([], other))
    dense = AttributeValues().compute(task, NONE).scores.toarray()
    assert (
        dense[0, task.target.find(["http://b.org/1"])[0]] > dense[0, task.target.find(["http://b.org/2"])[0]]
    )
