"""Pairs that features list come into one subtask, however far apart structure says that they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.division import DivEA, Feedback, Joint, check_division
from divea.division.discovery import MOST_LISTED, discover_candidates, listed_bonus
from divea.division.groups import group_source
from divea.division.locality import PropagatedLocality
from divea.graphs import Links
from divea.graphs.synth import SynthConfig, synthesise

SIZE = 700
"""More than the mean size of 600: joint division fills its places with the members of a part first."""


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=1200, random_seed=6))


def dense_bonus(listed, parts, count, unmatched, ties):
    """For each part, the sum of the best scores of its unmatched entities, at most 1."""
    bonus = np.zeros((count, listed.shape[1]))
    for source in unmatched:
        if parts[source] >= 0:
            # Of equal scores, the target with the lower tie breaker counts.
            best = np.lexsort((ties, -listed[source]))[:MOST_LISTED]
            bonus[parts[source], best] += listed[source, best]
    return np.minimum(bonus, 1)


@given(st.integers(0, 100_000), st.integers(0, 12), st.integers(1, 12), st.integers(1, 4))
def test_the_bonus_is_that_of_the_dense_matrix(random_seed, sources, targets, count):
    draw = np.random.default_rng(random_seed)
    # Scores of one digit tie often.
    listed = np.round(draw.random((sources, targets)), 1)
    listed[draw.random(listed.shape) < 0.4] = 0
    parts = draw.integers(-1, count, sources).astype(np.int32)
    unmatched = np.flatnonzero(draw.random(sources) < 0.7).astype(np.int32)
    ties = draw.random(targets)
    found = listed_bonus(csr_array(listed.astype(np.float32)), parts, count, unmatched, ties)
    assert found.shape == (count, targets) and found.dtype == np.float32
    assert np.allclose(found.toarray(), dense_bonus(listed, parts, count, unmatched, ties), atol=1e-6)


def matches_as_names(pair, links):
    """Scores of 1 for some links, source x target."""
    shape = pair.task.source.num_entities, pair.task.target.num_entities
    return csr_array((np.ones(len(links), np.float32), (links.source, links.target)), shape=shape)


def strategies():
    return [DivEA(4, SIZE), Joint(DivEA(4, SIZE))]


def candidates_of(division, links):
    """Whether the target of each link is a candidate in the subtask of its source."""
    subtask_of = {int(one): subtask for subtask in division.subtasks for one in subtask.unmatched}
    return np.array(
        [np.isin(target, subtask_of[source].candidates) for source, target in links.pairs.tolist()]
    )


@pytest.mark.parametrize("strategy", strategies(), ids=["divea", "joint"])
@pytest.mark.parametrize("is_first", [True, False], ids=["first iteration", "later iteration"])
def test_a_pair_that_is_far_by_structure_and_alike_by_name_comes_into_one_subtask(pair, strategy, is_first):
    previous = None if is_first else strategy.divide(pair.task)
    pseudo_seeds = Links.from_pairs(pair.gold.pairs[:300])
    without = strategy.divide(pair.task, Feedback(previous, pseudo_seeds))
    far = pair.gold.pairs[300:][~candidates_of(without, Links.from_pairs(pair.gold.pairs[300:]))]
    far = Links.from_pairs(far)
    assert len(far) > 20
    feedback = Feedback(previous, pseudo_seeds, listed=matches_as_names(pair, far))
    division = check_division(strategy, pair.task, size=SIZE, feedback=feedback)
    assert candidates_of(division, far).all()


@pytest.mark.parametrize("strategy", strategies(), ids=["divea", "joint"])
def test_listed_pairs_of_anchors_make_no_anchor_a_candidate(pair, strategy):
    """A name may be that of a target anchor; `check_division` refuses anchors among the candidates."""
    some = Links(pair.task.unmatched_source[:100], pair.task.seeds.target[:100])
    listed = matches_as_names(pair, some)
    feedback = Feedback(strategy.divide(pair.task), Links.from_pairs(pair.gold.pairs[:300]), listed=listed)
    check_division(strategy, pair.task, size=SIZE, feedback=feedback)


@pytest.mark.parametrize("strategy", strategies(), ids=["divea", "joint"])
def test_lists_without_pairs_change_nothing(pair, strategy):
    previous, pseudo_seeds = strategy.divide(pair.task), Links.from_pairs(pair.gold.pairs[:300])
    empty = matches_as_names(pair, Links.from_pairs([]))
    found, expected = (
        strategy.divide(pair.task, Feedback(previous, pseudo_seeds, listed=listed))
        for listed in (empty, None)
    )
    assert found.subtasks == expected.subtasks


def test_a_listed_entity_outside_the_region_of_its_part_is_a_candidate():
    """With many parts, locality looks at a region of the graph only. Names may lead out of it."""
    pair = synthesise(SynthConfig(entities=6000, random_seed=2))
    task = pair.task
    groups, _ = group_source(task, 40)
    graph, counts = task.target.adjacency, np.full(40, 150)
    near = PropagatedLocality(
        PropagatedLocality.hop_matrix(graph), task.seeds.target, groups[task.seeds.source], 40
    )
    regions = [(block, rows) for block, rows in near.regions() if rows is not None]
    assert regions
    free = task.unmatched_target
    listed = np.zeros((40, task.target.num_entities), dtype=np.float32)
    for block, rows in regions:
        listed[block.start, np.setdiff1d(free, rows)[:5]] = 0.9
    bonus = csr_array(listed)
    found = list(
        discover_candidates(
            graph, task.seeds, groups, counts, taken=task.seeds.target, bonus=bonus, listed=bonus, beta=2.0
        )
    )
    for block, _ in regions:
        assert np.isin(np.flatnonzero(listed[block.start]), found[block.start]).all()
    assert all(len(set(candidates)) == 150 for candidates in found)
