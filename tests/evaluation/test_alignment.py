"""Metrics of an alignment: its ranked lists by either protocol, and its assigned pairs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.division import Whole
from divea.evaluation import evaluate_alignment, judge, true_curve
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.types import Matches


def graph(prefix):
    return KnowledgeGraph.from_triples([], extra_entities=[f"{prefix}{i}" for i in range(6)])


@pytest.fixture
def alignment():
    """Ranked lists of three sources, the assigned pairs, a division without parts, and gold links."""
    score = np.array([[0.9, 0.8], [0.7, 0.6], [0.5, -np.inf]], np.float32)
    matches = Matches(np.array([1, 2, 3]), np.array([[1, 2], [5, 2], [4, -1]]), score, np.ones(3, bool))
    assigned = Links.from_pairs([(1, 1), (2, 5), (3, 4)])
    division = Whole().divide(AlignmentTask(graph("s"), graph("t"), Links.from_pairs([(0, 0)])))
    return matches, assigned, division, Links.from_pairs([(1, 1), (2, 2)])


def test_open_protocol(alignment):
    found = evaluate_alignment(*alignment)
    assert (found.protocol, found.links, found.coverage) == ("open", 2, 1)
    # Target 1 has rank 1 and target 2 has rank 2.
    assert (found.h1, found.h5, found.h10, found.mrr) == (0.5, 1, 1, 0.75)
    ranking = {"coverage": 1, "hits@1": 0.5, "hits@5": 1, "hits@10": 1, "mrr": 0.75}
    assert found.ranking() == ranking
    assert found.as_dict() == {
        "protocol": "open",
        "links": 2,
        **ranking,
        "pairs": 3,
        "judged": 2,
        "recall": 1 / 2,
        "precision": 1 / 2,
        "precision_by_ends": 2 / 3,
        "strict_precision": 1 / 3,
    }


def test_closed_protocol_ranks_only_targets_of_gold_links(alignment):
    found = evaluate_alignment(*alignment, protocol="closed")
    assert (found.protocol, found.h1, found.mrr) == ("closed", 1, 1)


def test_precision_and_recall_of_assigned_pairs(alignment):
    pairs = evaluate_alignment(*alignment).pairs
    # (1, 1) is correct, (2, 5) has one end in a gold link and is wrong, (3, 4) cannot be judged.
    assert (pairs.given, pairs.judged, pairs.ends, pairs.correct, pairs.links) == (3, 2, 3, 1, 2)
    assert pairs.judged_precision == 1 / 2
    assert pairs.end_precision == 2 / 3
    assert pairs.strict_precision == 1 / 3
    assert pairs.recall == 1 / 2


def test_figures_without_pairs_or_gold_links_are_zero():
    none = Links.from_pairs(np.zeros((0, 2), np.int32))
    some = Links.from_pairs([(0, 0)])
    for found in (judge(none, some), judge(some, none)):
        figures = (found.judged_precision, found.end_precision, found.strict_precision, found.recall)
        assert figures == (0, 0, 0, 0)


@given(
    st.dictionaries(st.integers(0, 12), st.integers(0, 12)),
    st.dictionaries(st.integers(0, 12), st.integers(0, 12)),
    st.data(),
)
def test_the_true_curve_is_that_of_the_pairs_above_each_threshold(pairs, links, data):
    assigned, gold = Links.from_pairs(pairs.items()), Links.from_pairs(links.items())
    shares = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
    confidence = np.array(data.draw(st.lists(shares, min_size=len(assigned), max_size=len(assigned))), float)
    thresholds = np.array([0.0, 0.3, 0.5, 0.9, 1.0])
    curve = true_curve(assigned, confidence, gold, thresholds)
    for place, threshold in enumerate(thresholds):
        found = judge(Links.from_pairs(assigned.pairs[confidence >= threshold]), gold)
        assert curve.pairs[place] == found.given
        assert curve.recall[place] == found.recall
        assert np.nan_to_num(curve.precision[place]) == found.end_precision
