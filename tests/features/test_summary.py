"""The summary of names and literals, counted by hand."""

import numpy as np
import pytest

from divea import AlignmentTask, InputError, KnowledgeGraph, Links
from divea.features.summary import summarise_features, warnings_of_features
from divea.graphs.builder import add_literals
from divea.graphs.labels import as_labels
from divea.graphs.names import GIVEN_NAME
from divea.graphs.synth import SynthConfig, synthesise
from tests.command_line import python

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def graph_of(count, prefix, **literals):
    """A graph of numbered entities; literals are lists of values for the first entities."""
    entities = [f"http://{prefix}.example/{number}" for number in range(count)]
    graph = KnowledgeGraph.from_triples([], entities)
    for predicate, values in literals.items():
        known = [
            (entity, value) for entity, value in zip(entities, values, strict=False) if value is not None
        ]
        ids = graph.find([entity for entity, _ in known])
        graph = add_literals(graph, ids, predicate, as_labels([value for _, value in known]))
    return graph


def seeds(source, target, pairs):
    left, right = zip(*pairs, strict=True)
    return Links.from_labels(
        [f"http://a.example/{number}" for number in left],
        [f"http://b.example/{number}" for number in right],
        source,
        target,
    )


def named_pair(pairs=()):
    source = graph_of(6, "a", **{LABEL: ["New York", "Oslo", "Oslo", "Bern", "!!!"]})
    target = graph_of(5, "b", **{LABEL: ["new-york", "OSLO", "Bérn", "bern", "Rome"]})
    return AlignmentTask(source, target, seeds(source, target, pairs) if pairs else Links.from_pairs([]))


def test_names_are_counted_once_they_are_normalised():
    summary = summarise_features(named_pair())
    assert summary["source"]["names from"] == LABEL
    counts = [
        [summary[side][key] for key in ("entities with a name", "distinct names", "unique names")]
        for side in ("source", "target")
    ]
    # Without letters, the fifth name of the source is none; entity 5 has no name.
    assert counts == [[4, 3, 2], [5, 4, 3]]
    assert summary["source"]["share with a name"] == pytest.approx(4 / 6)
    # In both: new york, oslo, bern; only new york is unique in both.
    assert (summary["names in common"], summary["unique names in common"]) == (3, 1)
    assert "seeds with names" not in summary


def test_seeds_with_equal_names():
    # New York is equal, Oslo and Bern are not, and entity 5 has no name.
    summary = summarise_features(named_pair([(0, 0), (1, 2), (5, 4)]))
    assert (summary["seeds with names"], summary["seeds with equal names"]) == (2, 1)
    assert warnings_of_features(named_pair([(0, 0)]), summary) == []


def test_one_equal_name_of_several_is_enough():
    task = named_pair([(1, 0)])
    also = add_literals(task.target, task.target.find(["http://b.example/0"]), LABEL, as_labels(["oslo"]))
    summary = summarise_features(AlignmentTask(task.source, also, task.seeds))
    assert summary["seeds with equal names"] == 1


def literals_of(summary, side="source"):
    return {item["property"]: item for item in summary[side]["properties"]}


def test_properties_have_kind_coverage_and_role():
    count = 40
    numbers = range(count)
    source = graph_of(
        count,
        "a",
        **{
            LABEL: [f"Name {'x' * number}" for number in numbers],
            "code": [f"Q{number:04}" for number in numbers],
            "isbn": [str(9780000000000 + 7919 * number) for number in numbers],
            "rare-code": ["only one"],
            "length": [f"{number / 7:.3f}" for number in numbers],
            "born": [f"19{number:02}-05-01" for number in numbers[10:]],
            "page": [f"http://www.example.com/{number}" for number in numbers],
            "sex": ["f", "m"] * (count // 2),
            "remark": [f"{number} " + "many words " * 20 for number in numbers],
        },
    )
    found = literals_of(summarise_features(AlignmentTask(source, graph_of(3, "b"))))
    assert [item["entities"] for item in found.values()] == [40] * 7 + [30, 1]
    roles = {name: (item["kind"], item["role"]) for name, item in found.items()}
    assert roles == {
        LABEL: ("short text", "name"),
        "code": ("short text", "identifier"),
        "isbn": ("number", "identifier"),
        "rare-code": ("short text", ""),
        "length": ("number", ""),
        "born": ("date", ""),
        "page": ("URL", "identifier"),
        "sex": ("short text", ""),
        "remark": ("long text", ""),
    }
    assert found["born"]["share"] == 0.75
    assert found["sex"]["distinct values"] == 2 and found["sex"]["values"] == 40


def test_an_entity_with_several_values_is_counted_once():
    graph = graph_of(2, "a", p=["x"])
    graph = add_literals(graph, graph.find(["http://a.example/0"]), "p", as_labels(["y"]))
    item = literals_of(summarise_features(AlignmentTask(graph, graph)))["p"]
    assert (item["entities"], item["values"], item["share"]) == (1, 2, 0.5)


def test_values_in_common_are_compared_as_attributes_are():
    source = graph_of(4, "a", isbn=["978-3-16-148410-0", "12", "x", "x"], web=["http://www.x.example/"])
    target = graph_of(4, "b", code=["9783161484100", "13", "x"], site=["https://x.example"])
    summary = summarise_features(AlignmentTask(source, target))
    # The ISBN, the address and x, which two source entities have.
    assert (summary["values in common"], summary["unique values in common"]) == (3, 2)


def test_a_property_that_names_entities_can_be_given():
    task = AlignmentTask(graph_of(2, "a", p=["x", "y"], q=["u", "v"]), graph_of(2, "b", q=["u", "v"]))
    summary = summarise_features(task, "q", "q")
    assert summary["unique names in common"] == 2
    assert literals_of(summary)["q"]["role"] == "name"
    with pytest.raises(InputError, match="no entity has a literal of the property 'r'"):
        summarise_features(task, "r")


def test_only_the_most_frequent_properties_are_listed(monkeypatch):
    monkeypatch.setattr("divea.features.summary.MOST_PROPERTIES", 2)
    graph = graph_of(3, "a", one=["x"], three=["x", "y", "z"], two=["x", "y"])
    found = literals_of(summarise_features(AlignmentTask(graph, graph)))
    assert list(found) == ["three", "two"]


@pytest.mark.parametrize(
    ("source", "target", "warning"),
    [
        ({LABEL: ["Oslo"]}, {LABEL: ["oslo"]}, "no seeds: the alignment starts from 1 names that are unique"),
        ({"p": ["Q17"]}, {"q": ["q17"]}, "no seeds: the alignment starts from 1 values that are unique"),
        ({LABEL: ["Oslo"]}, {LABEL: ["Rome"]}, "no seeds, and no name that is unique in both graphs"),
        ({"p": ["Q17"]}, {"q": ["Q18"]}, "no seeds, and no attribute value that is unique in both graphs"),
        ({}, {LABEL: ["Rome"]}, "no seeds, and no names or attribute values to compare: nothing can be"),
        ({}, {}, "no seeds, and no names or attribute values to compare: nothing can be aligned"),
    ],
)
def test_without_seeds_a_warning_says_what_is_used_instead(source, target, warning):
    task = AlignmentTask(graph_of(2, "a", **source), graph_of(2, "b", **target))
    (found,) = warnings_of_features(task, summarise_features(task))
    assert found.startswith(warning)
    assert ("give known matches as seeds=" in found) == ("starts from" not in found)


def test_an_empty_graph_has_a_summary():
    empty = KnowledgeGraph.from_triples([])
    summary = summarise_features(AlignmentTask(empty, graph_of(2, "b", **{GIVEN_NAME: ["x"]})))
    assert summary["source"]["entities with a name"] == 0 == summary["names in common"]


def test_the_figures_of_a_synthetic_pair_agree_with_its_links():
    pair = synthesise(SynthConfig(600, names=True, name_noise=0.3, seed_share=0.5))
    summary = summarise_features(pair.task)
    # 30 % of the names differ, and 5 % are missing.
    assert summary["seeds with equal names"] / len(pair.task.seeds) == pytest.approx(0.67, abs=0.08)
    assert literals_of(summary)["http://source.example/property/identifier"]["role"] == "identifier"
    assert summary["target"]["names from"] == "http://target.example/property/name"
    assert all(isinstance(value, int) for key, value in summary.items() if key not in ("source", "target"))


def test_long_columns_are_sampled(monkeypatch):
    monkeypatch.setattr("divea.features.summary._SAMPLE", 10)
    values = [str(number) for number in np.arange(50)]
    found = literals_of(summarise_features(AlignmentTask(graph_of(50, "a", p=values), graph_of(2, "b"))))
    assert (found["p"]["kind"], found["p"]["distinct values"]) == ("number", 50)


def test_the_summary_does_not_import_torch():
    assert python("import divea.features.summary, sys; print('torch' in sys.modules)") == "False"
