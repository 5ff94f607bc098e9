"""Merging matches of subtasks and of iterations, compared with plain dictionaries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from divea.graphs import Links
from divea.loop.average import average
from divea.loop.merge import assign, merge
from divea.loop.pseudo_seeds import choose_pseudo_seeds, without_anchors
from divea.types import Matches

SOURCES, TARGETS = 6, 8


@st.composite
def matches_of(draw, sources=None):
    """Ranked lists of some sources; scores are multiples of a quarter, so ties are common."""
    chosen = draw(st.lists(st.integers(0, SOURCES - 1), unique=True)) if sources is None else sources
    width = draw(st.integers(1, 4))
    target = np.full((len(chosen), width), -1, np.int32)
    score = np.full((len(chosen), width), -np.inf, np.float32)
    for row in range(len(chosen)):
        listed = draw(st.lists(st.integers(0, TARGETS - 1), unique=True, max_size=width))
        scores = sorted(draw(st.lists(st.integers(0, 4), min_size=len(listed), max_size=len(listed))))[::-1]
        target[row, : len(listed)], score[row, : len(listed)] = listed, np.array(scores) / 4
    mutual = np.array(draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen))), dtype=bool)
    return Matches(np.array(chosen, dtype=np.int32), target, score, mutual)


def lists_of(matches):
    """For every source, the score of each listed target."""
    return {
        int(source): {int(t): float(s) for t, s in zip(targets, scores, strict=True) if t >= 0}
        for source, targets, scores in zip(matches.source, matches.target, matches.score, strict=True)
    }


@given(st.data())
def test_merging_subtasks_keeps_every_list(data):
    order = data.draw(st.permutations(range(SOURCES)))
    first = data.draw(matches_of(sources=order[:2]))
    second = data.draw(matches_of(sources=order[2:]))
    merged, subtask = merge([first, second])
    assert merged.source.tolist() == list(range(SOURCES))
    assert lists_of(merged) == {**lists_of(first), **lists_of(second)}
    assert subtask.tolist() == [0 if source in order[:2] else 1 for source in range(SOURCES)]


@given(history=st.lists(matches_of(), min_size=1, max_size=3), taken=st.sets(st.integers(0, TARGETS - 1)))
def test_average_scores_equal_those_computed_with_dictionaries(history, taken):
    sources = np.arange(SOURCES, dtype=np.int32)
    found = average(history, sources, np.array(sorted(taken), dtype=np.int32), top=TARGETS)
    expected: dict[int, dict[int, float]] = {source: {} for source in range(SOURCES)}
    lists = [lists_of(matches) for matches in history]
    for source in range(SOURCES):
        for target in {t for each in lists for t in each.get(source, {})} - taken:
            scores = []
            for each in lists:
                listed = each.get(source, {})
                scores.append(listed.get(target, min(listed.values(), default=0.0)))
            expected[source][target] = float(np.float32(sum(scores) / len(history)))
    assert lists_of(found) == expected
    with np.errstate(invalid="ignore"):
        assert not (np.diff(found.score, axis=1) > 0).any()
    first_choices = {}
    for source, target in zip(found.source.tolist(), found.best.tolist(), strict=True):
        if target >= 0:
            first_choices.setdefault(target, []).append(source)
    for target, sources_of_target in first_choices.items():
        mutual = [source for source in sources_of_target if found.mutual[source]]
        assert len(mutual) <= 1, "a target has one best source"
        best_score = max(scores.get(target, -1) for scores in expected.values())
        if mutual:
            assert expected[mutual[0]][target] == best_score


@given(matches_of(), st.sampled_from([-10.0, 0.3, 0.5]))
def test_pseudo_seeds_are_one_to_one_mutual_and_above_the_threshold(matches, threshold):
    """A threshold of -10 is below all scores and leaves mutuality alone."""
    found = choose_pseudo_seeds(matches, threshold=threshold)
    assert len(set(found.source.tolist())) == len(set(found.target.tolist())) == len(found)
    row_of = {int(source): row for row, source in enumerate(matches.source)}
    for source, target in found.pairs.tolist():
        row = row_of[source]
        assert matches.mutual[row] and matches.best[row] == target
        assert matches.score[row, 0] > threshold
    # A confident match is left out only if a pair with the same target scores as high or higher.
    source_of = {target: source for source, target in found.pairs.tolist()}
    for source, row in row_of.items():
        is_confident = matches.mutual[row] and matches.best[row] >= 0 and matches.score[row, 0] > threshold
        if is_confident and source not in found.source:
            winner = source_of[int(matches.best[row])]
            assert matches.score[row_of[winner], 0] >= matches.score[row, 0]


def test_pseudo_seeds_with_an_anchor_are_left_out():
    pseudo_seeds, seeds = Links.from_pairs([(0, 1), (2, 3), (4, 5)]), Links.from_pairs([(0, 7), (6, 3)])
    assert without_anchors(pseudo_seeds, seeds).pairs.tolist() == [[4, 5]]


@given(matches_of())
def test_a_one_to_one_assignment_has_no_target_twice(matches):
    assigned = assign(matches, one_to_one=True)
    targets = assigned[assigned >= 0]
    assert len(set(targets.tolist())) == len(targets)
    assert np.array_equal(assign(matches, one_to_one=False), matches.best)
