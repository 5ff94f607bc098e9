import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea import AlignmentTask, InputError, KnowledgeGraph, Links

LEFT = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
RIGHT = KnowledgeGraph.from_triples([("A", "r", "B"), ("B", "r", "C")])
IDS = st.integers(0, 2**31 - 1)
PAIRS = st.lists(st.tuples(IDS, IDS), max_size=30)


@given(PAIRS)
def test_links_are_a_sorted_set(pairs):
    links = Links.from_pairs(pairs)
    assert list(map(tuple, links.pairs.tolist())) == sorted(set(pairs))
    assert links == Links.from_pairs(pairs[::-1]) == Links.from_pairs(links.pairs)


@given(PAIRS, PAIRS)
def test_the_union_of_links_is_the_union_of_the_sets(some, others):
    together = Links.from_pairs(some).union(Links.from_pairs(others))
    assert list(map(tuple, together.pairs.tolist())) == sorted({*some, *others})


def test_links_from_labels_have_these_labels():
    links = Links.from_labels(["a", "b"], ["A", "B"], LEFT, RIGHT)
    left, right = links.labels(LEFT, RIGHT)
    assert sorted(zip(left.to_pylist(), right.to_pylist(), strict=True)) == [("a", "A"), ("b", "B")]


def test_unknown_labels_are_counted_and_five_of_them_are_shown():
    names = [f"x{i}" for i in range(9)]
    with pytest.raises(InputError) as error:
        Links.from_labels(["a", *names], ["A"] * 10, LEFT, RIGHT, path="seeds.tsv")
    assert str(error.value).startswith("seeds.tsv: 9 of 10 links name an unknown entity (9 labels: 'x0', ")
    assert "'x4', ...)" in str(error.value)
    assert len(Links.from_labels(["a", "x"], ["A", "B"], LEFT, RIGHT, skip_unknown=True)) == 1


def test_swapped_columns_are_reported_even_if_unknown_labels_are_skipped():
    with pytest.raises(InputError, match="look swapped: 2 of 3 links"):
        Links.from_labels(["A", "B", "x"], ["a", "b", "c"], LEFT, RIGHT, skip_unknown=True)


def test_a_relation_among_the_seeds_is_reported():
    with pytest.raises(InputError, match="'r' is a relation, not an entity"):
        Links.from_labels(["r"], ["A"], LEFT, RIGHT)


@pytest.mark.parametrize("pairs, side", [([(0, 0), (0, 1)], "source"), ([(0, 1), (1, 1)], "target")])
def test_seeds_must_be_one_to_one(pairs, side):
    with pytest.raises(InputError, match=f"1 {side} entities are in more than one seed"):
        AlignmentTask(LEFT, RIGHT, Links.from_pairs(pairs))


@pytest.mark.parametrize("pair", [(3, 0), (0, 3), (-1, 0)])
def test_seeds_must_be_entities_of_the_graphs(pair):
    with pytest.raises(InputError, match="outside"):
        AlignmentTask(LEFT, RIGHT, Links(np.array(pair[:1]), np.array(pair[1:])))


def test_unmatched_entities_are_all_but_the_anchors():
    task = AlignmentTask(LEFT, RIGHT, Links.from_pairs([(2, 0)]))
    assert task.unmatched_source.tolist() == [0, 1]
    assert task.unmatched_target.tolist() == [1, 2]
