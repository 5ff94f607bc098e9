"""Lists of subtasks and of iterations, compared with plain dictionaries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.common import by_sorting
from divea.graphs import Links
from divea.loop.assignment import assign
from divea.loop.average import average
from divea.loop.lists import Lists, rank
from divea.loop.pseudo_seeds import choose_pseudo_seeds, without_anchors
from divea.types import Matches
from tests.ranked_lists import cut_into_blocks, ranked_lists

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
    lists = Lists.of([first, second])
    merged, subtask = lists.merged(), lists.subtask_of_row
    assert merged.source.tolist() == list(range(SOURCES))
    assert lists_of(merged) == {**lists_of(first), **lists_of(second)}
    assert subtask.tolist() == [0 if source in order[:2] else 1 for source in range(SOURCES)]


@given(history=st.lists(matches_of(), min_size=1, max_size=3), taken=st.sets(st.integers(0, TARGETS - 1)))
def test_average_scores_equal_those_computed_with_dictionaries(history, taken):
    ids = np.array(sorted(taken), dtype=np.int32)
    ranking = average([Lists.of([matches]) for matches in history], ids, top=TARGETS)
    found = ranking.lists.merged()
    lists = [lists_of(matches) for matches in history]
    expected: dict[int, dict[int, float]] = {source: {} for source in lists[-1]}
    for source in expected:
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
    for row, target in enumerate(found.best.tolist()):
        if target >= 0:
            first_choices.setdefault(target, []).append(row)
    for target, rows_of_target in first_choices.items():
        mutual = [int(found.source[row]) for row in rows_of_target if ranking.mutual[row]]
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


@given(lists=ranked_lists(), random_seed=st.integers(0, 3), is_shuffled=st.booleans(), rows=st.integers(1, 9))
def test_pairs_assigned_in_blocks_equal_those_by_sorting(lists, random_seed, is_shuffled, rows):
    """Also if lists are not in the order of their scores."""
    if is_shuffled:
        order = np.random.default_rng(random_seed).permutation(lists.target.shape[1])
        lists = Matches(lists.source, lists.target[:, order], lists.score[:, order], lists.mutual)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.loop.lists._ROWS", rows)
        ranking = rank(cut_into_blocks(lists, random_seed))
        found = assign(ranking, one_to_one=True, random_seed=random_seed)
    merged = ranking.lists.merged()
    assert np.array_equal(found.by_row(len(merged)), by_sorting.one_to_one(merged, random_seed))
    check_assignment(found, merged)


@given(lists=ranked_lists(), random_seed=st.integers(0, 3))
def test_without_one_to_one_every_source_gets_its_best_target(lists, random_seed):
    ranking = rank(cut_into_blocks(lists, random_seed))
    found = assign(ranking, one_to_one=False)
    merged = ranking.lists.merged()
    assert np.array_equal(found.by_row(len(merged)), merged.best)
    check_assignment(found, merged)


def check_assignment(found, merged):
    """Scores, ranks and rivals are those of the lists."""
    assert np.array_equal(found.source, merged.source[found.row])
    for pair, (row, place) in enumerate(zip(found.row, found.rank, strict=True)):
        scores = [*merged.score[row], -np.inf]
        assert merged.target[row, place] == found.target[pair]
        assert scores[place] == found.score[pair]
        assert found.rival[pair] == (scores[1] if place == 0 else scores[0])
        assert found.mutual[pair] == (merged.mutual[row] and place == 0)


@pytest.mark.parametrize("steps", [3, 40, 10**6])
def test_pairs_are_those_by_sorting_where_targets_are_contested(steps):
    """Long lists of the same few targets, with many, some and no ties."""
    rng = np.random.default_rng(steps)
    target = np.argsort(rng.random((900, 300)), axis=1)[:, :50].astype(np.int32)
    score = -np.sort(-rng.integers(0, steps, size=target.shape) / steps, axis=1).astype(np.float32)
    matches = Matches(rng.permutation(2000)[:900].astype(np.int32), target, score, np.zeros(900, bool))
    ranking = rank(cut_into_blocks(matches, 0))
    merged = ranking.lists.merged()
    found = assign(ranking, one_to_one=True).by_row(len(merged))
    assert (found >= 0).sum() > 250
    assert np.array_equal(found, by_sorting.one_to_one(merged))
