"""Joint division: what it puts into the room that its parts leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.config import DivisionSettings
from divea.division import DivEA, Feedback, Joint, blocks, check_division
from divea.division.joint import JointParts, triples_into_parts
from divea.division.merged import partition_jointly
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise

SIZE = 800


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1200, random_seed=6))


@pytest.fixture(scope="module")
def pseudo_seeds(pair):
    return Links(pair.gold.source[:400], pair.gold.target[:400])


@pytest.fixture(scope="module")
def division(pair, pseudo_seeds):
    strategy = Joint(DivEA(4, SIZE))
    first = strategy.divide(pair.task)
    return check_division(strategy, pair.task, size=SIZE, feedback=Feedback(first, pseudo_seeds))


def test_subtasks_use_up_the_size_limit(division):
    assert all(SIZE - 2 <= subtask.size <= SIZE for subtask in division.subtasks)


def test_the_surroundings_of_a_part_come_from_both_graphs_equally(pair, division):
    for subtask in division.subtasks:
        anchors = len(subtask.seeds)
        context = len(subtask.source_entities) - anchors - len(subtask.unmatched)
        assert context > 50
        # A part has nearly equally many members in both graphs, so its candidates balance too.
        assert abs(len(subtask.source_entities) - len(subtask.target_entities)) < 0.1 * SIZE


def test_at_most_half_of_the_surroundings_are_known_links(pair, pseudo_seeds, division):
    links = np.concatenate([pair.task.seeds.pairs, pseudo_seeds.pairs])
    for subtask in division.subtasks:
        inside = np.isin(links[:, 0], subtask.source_entities)
        # A link is inside with both ends or not at all, whichever part it belongs to.
        np.testing.assert_array_equal(inside, np.isin(links[:, 1], subtask.target_entities))
        known_from_other_parts = division.groups[links[inside, 0]] != subtask.index
        others = np.setdiff1d(subtask.source_entities, links[:, 0])
        unmatched_from_other_parts = (division.groups[others] != subtask.index).sum()
        assert 0 < known_from_other_parts.sum() <= unmatched_from_other_parts + 1


@pytest.mark.parametrize("locality", ["propagate", "bfs"])
def test_the_contract_holds_with_either_locality(pair, pseudo_seeds, locality):
    strategy = Joint(DivEA(4, SIZE, DivisionSettings(locality=locality)))
    feedback = Feedback(strategy.divide(pair.task), pseudo_seeds)
    check_division(strategy, pair.task, size=SIZE, feedback=feedback)


@given(random_seed=st.integers(0, 5), parts=st.integers(2, 6))
def test_linked_entities_share_a_part(pair, pseudo_seeds, random_seed, parts):
    source, target = partition_jointly(pair.task, pseudo_seeds, parts, random_seed)
    np.testing.assert_array_equal(source[pseudo_seeds.source], target[pseudo_seeds.target])


def test_triples_into_parts_are_those_of_both_ends(pair, pseudo_seeds, monkeypatch):
    monkeypatch.setattr(blocks, "_ROWS", 64)
    source, target = partition_jointly(pair.task, pseudo_seeds, 4, 0)
    target[::7] = -1
    parts = JointParts(source, target, [np.flatnonzero(source == part) for part in range(4)], 4)
    found = triples_into_parts(pair.task, pseudo_seeds, parts).toarray()[:, :4]
    into = [
        graph.adjacency[ends].toarray() @ (part[:, None] == np.arange(4))
        for graph, ends, part in (
            (pair.task.source, pseudo_seeds.source, source),
            (pair.task.target, pseudo_seeds.target, target),
        )
    ]
    np.testing.assert_array_equal(found, into[0] + into[1])


def test_the_two_sides_break_ties_independently():
    """A graph is aligned with itself, and all surroundings are ties: equal ids must not be drawn together.

    Otherwise context entities and candidates with the same id would meet far too often.
    """
    core = [(f"a{i}", "r", f"a{(i * step + 1) % 120}") for i in range(120) for step in (1, 7)]
    graph = KnowledgeGraph.from_triples(core, [f"lonely {i}" for i in range(400)])
    even, odd = (graph.find([f"a{i}" for i in range(first, 120, step)]) for first, step in ((0, 2), (1, 4)))
    task = AlignmentTask(graph, graph, Links.from_pairs(np.stack([even, even], axis=1)))
    strategy = Joint(DivEA(4, 330))
    pseudo_seeds = Links.from_pairs(np.stack([odd, odd], axis=1))
    division = strategy.divide(task, Feedback(strategy.divide(task), pseudo_seeds))
    met, drawn = 0, 0
    for subtask in division.subtasks:
        foreign = np.flatnonzero(division.groups != subtask.index)
        unknown = np.setdiff1d(foreign, np.concatenate([even, odd]))
        context = np.intersect1d(subtask.source_entities, unknown)
        drawn += len(context)
        met += np.isin(context, subtask.candidates).sum()
    assert drawn > 20
    assert met < 0.9 * drawn
