"""Merging subtasks and iterations, against plain dictionaries."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from divea.alignment.merge import assign, average, merge
from divea.alignment.pseudo_seeds import choose_pseudo_seeds, without_anchors
from divea.graphs import Links
from divea.matching import Matches

SOURCES, TARGETS = 6, 8


@st.composite
def matches_of(draw, sources=None):
    """Ranked lists of some sources; scores are quarters, so that ties are common."""
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
def test_the_average_is_that_of_a_dictionary(history, taken):
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
    best = {}
    for source, target, score in zip(found.source, found.best, found.score[:, :1].ravel(), strict=False):
        if target >= 0:
            best.setdefault(int(target), []).append((float(score), int(source)))
    for target, claims in best.items():
        claimed = [source for _, source in claims if found.mutual[source]]
        assert len(claimed) <= 1, "a target has one best source"
        rivals = max(scores.get(target, -1) for scores in expected.values())
        if claimed:
            assert expected[claimed[0]][target] == rivals


@given(matches_of(), st.sampled_from([None, 0.3, 0.5]))
def test_pseudo_seeds_are_one_to_one_mutual_and_sure(matches, threshold):
    found = choose_pseudo_seeds(matches, threshold=threshold)
    assert len(set(found.source.tolist())) == len(set(found.target.tolist())) == len(found)
    row_of = {int(source): row for row, source in enumerate(matches.source)}
    for source, target in found.pairs.tolist():
        row = row_of[source]
        assert matches.mutual[row] and matches.best[row] == target
        assert threshold is None or matches.score[row, 0] > threshold
    # Nothing sure is left out but for a surer or equal rival.
    taken = {target: source for source, target in found.pairs.tolist()}
    for source, row in row_of.items():
        sure = matches.mutual[row] and matches.best[row] >= 0
        if sure and (threshold is None or matches.score[row, 0] > threshold) and source not in found.source:
            winner = taken[int(matches.best[row])]
            assert matches.score[row_of[winner], 0] >= matches.score[row, 0]


def test_pseudo_seeds_give_way_to_seeds():
    pseudo, seeds = Links.from_pairs([(0, 1), (2, 3), (4, 5)]), Links.from_pairs([(0, 7), (6, 3)])
    assert without_anchors(pseudo, seeds).pairs.tolist() == [[4, 5]]


@given(matches_of())
def test_a_global_assignment_gives_no_target_twice(matches):
    assigned = assign(matches, globally=True)
    given_out = assigned[assigned >= 0]
    assert len(set(given_out.tolist())) == len(given_out)
    assert np.array_equal(assign(matches, globally=False), matches.best)
