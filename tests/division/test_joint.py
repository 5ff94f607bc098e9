"""Joint division: what it lays into the room that its parts leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.division import DivEA, Feedback, Joint, check_division
from divea.division.joint import cut_jointly
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise

SIZE = 800


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1200, seed=6))


@pytest.fixture(scope="module")
def sure(pair):
    return Links(pair.gold.source[:400], pair.gold.target[:400])


@pytest.fixture(scope="module")
def division(pair, sure):
    strategy = Joint(DivEA(4, SIZE))
    first = strategy.divide(pair.task)
    return check_division(strategy, pair.task, size=SIZE, feedback=Feedback(first, sure))


def test_the_size_is_used_up(division):
    assert all(SIZE - 2 <= subtask.size <= SIZE for subtask in division.subtasks)


def test_surroundings_come_in_from_both_graphs_alike(pair, division):
    for subtask in division.subtasks:
        anchors = len(subtask.seeds)
        context = len(subtask.source_entities) - anchors - len(subtask.unmatched)
        assert context > 50
        # Members of a part are of both graphs in nearly equal number, so its candidates are too.
        assert abs(len(subtask.source_entities) - len(subtask.target_entities)) < 0.1 * SIZE


def test_half_of_the_surroundings_are_links_that_are_known(pair, sure, division):
    links = np.concatenate([pair.task.seeds.pairs, sure.pairs])
    for subtask in division.subtasks:
        inside = np.isin(links[:, 0], subtask.source_entities)
        # A link is inside with both ends or not at all, whoever's part it belongs to.
        np.testing.assert_array_equal(inside, np.isin(links[:, 1], subtask.target_entities))
        foreign = division.groups[links[inside, 0]] != subtask.index
        others = np.setdiff1d(subtask.source_entities, links[:, 0])
        unknown = (division.groups[others] != subtask.index).sum()
        assert 0 < foreign.sum() <= unknown + 1


@pytest.mark.parametrize("locality", ["propagate", "bfs"])
def test_members_stay_whatever_the_locality(pair, sure, locality):
    strategy = Joint(DivEA(4, SIZE, locality=locality))
    check_division(strategy, pair.task, size=SIZE, feedback=Feedback(strategy.divide(pair.task), sure))


@given(seed=st.integers(0, 5), parts=st.integers(2, 6))
def test_linked_entities_share_a_part(pair, sure, seed, parts):
    groups, homes = cut_jointly(pair.task, sure, parts, seed)
    np.testing.assert_array_equal(groups[sure.source], homes[sure.target])


def test_equals_are_drawn_differently_on_the_two_sides():
    """A graph against itself, all of whose surroundings are ties: equal ids must not find each other."""
    core = [(f"a{i}", "r", f"a{(i * step + 1) % 120}") for i in range(120) for step in (1, 7)]
    graph = KnowledgeGraph.from_triples(core, [f"lonely {i}" for i in range(400)])
    even, odd = (graph.find([f"a{i}" for i in range(first, 120, step)]) for first, step in ((0, 2), (1, 4)))
    task = AlignmentTask(graph, graph, Links.from_pairs(np.stack([even, even], axis=1)))
    strategy = Joint(DivEA(4, 330))
    sure = Links.from_pairs(np.stack([odd, odd], axis=1))
    division = strategy.divide(task, Feedback(strategy.divide(task), sure))
    met, drawn = 0, 0
    for subtask in division.subtasks:
        foreign = np.flatnonzero(division.groups != subtask.index)
        unknown = np.setdiff1d(foreign, np.concatenate([even, odd]))
        context = np.intersect1d(subtask.source_entities, unknown)
        drawn += len(context)
        met += np.isin(context, subtask.candidates).sum()
    assert drawn > 20
    assert met < 0.9 * drawn
