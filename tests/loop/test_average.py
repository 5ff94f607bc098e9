"""Averaging in blocks compared with sorting whole arrays: the same lists, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import divea.loop.average as averaging
import divea.loop.lists as lists_module
from benchmarks.common import by_sorting
from divea.loop.average import average
from divea.loop.lists import Blocks, Lists, rank
from divea.types import Matches
from tests.ranked_lists import cut_into_blocks, ranked_lists


def assert_same(found, expected):
    assert found.target.dtype == expected.target.dtype
    assert found.score.dtype == expected.score.dtype
    assert np.array_equal(found.source, expected.source)
    if not len(expected):
        return  # lists without rows have no width
    assert np.array_equal(found.target, expected.target)
    assert np.array_equal(found.score.view(np.int32), expected.score.view(np.int32))


def assert_average_is_that_by_sorting(history, ids, top, random_seed=0, blocks=None):
    expected = by_sorting.average(
        [lists.merged() for lists in history], history[-1].source, ids, top, random_seed
    )
    found = average(history, ids, top, random_seed, blocks or Blocks())
    assert_same(found.lists.merged(), expected)
    assert np.array_equal(found.mutual, expected.mutual)
    assert np.array_equal(found.lists.subtask_of_row, history[-1].subtask_of_row)


@given(
    history=st.lists(ranked_lists(), min_size=1, max_size=4),
    taken=st.sets(st.integers(0, 40)),
    top=st.integers(1, 60),
    random_seed=st.integers(0, 3),
    rows=st.sampled_from([1, 3, 7, 1000]),
    threads=st.sampled_from([1, 2, 5]),
    in_files=st.booleans(),
)
def test_averages_in_blocks_equal_those_by_sorting(
    history, taken, top, random_seed, rows, threads, in_files, tmp_path_factory
):
    """In whatever blocks the lists of each iteration are, and wherever they are kept."""
    ids = np.array(sorted(taken), dtype=np.int32)
    cut = [cut_into_blocks(lists, random_seed + number) for number, lists in enumerate(history)]
    folder = tmp_path_factory.mktemp("lists") if in_files else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(averaging, "_ROWS", rows)
        patch.setattr(lists_module, "_ROWS", 2 * rows)
        patch.setattr("divea.resources.row_blocks.cores", lambda: threads)
        assert_average_is_that_by_sorting(cut, ids, top, random_seed, Blocks(folder=folder))


def test_ids_and_places_that_do_not_fit_into_32_bits_together():
    rng = np.random.default_rng(0)
    ids = np.unique(rng.integers(0, 9_000_000, size=600)).astype(np.int32)
    history = []
    for _ in range(3):
        target = np.stack([rng.permutation(ids)[:300] for _ in range(20)])
        score = -np.sort(-rng.integers(0, 9, size=target.shape) / 8, axis=1).astype(np.float32)
        lists = Matches(np.arange(20, dtype=np.int32), target, score, np.zeros(20, bool))
        history.append(Lists.of([lists]))
    assert_average_is_that_by_sorting(history, ids[:5], 50)


def test_averaged_lists_are_files_until_they_are_removed(tmp_path):
    target, score = np.int32([[1, 2], [2, 1]]), np.float32([[0.9, 0.1], [0.8, 0.2]])
    lists = Lists.of([Matches(np.int32([0, 1]), target, score, np.array([True, True]))])
    found = average([lists, lists], np.zeros(0, np.int32), 2, blocks=Blocks(folder=tmp_path))
    assert [block.path.parent for block in found.lists.blocks] == [tmp_path]
    assert_same(found.lists.merged(), lists.merged())
    found.lists.remove()
    assert not list(tmp_path.iterdir())


@given(ranked_lists(), st.integers(0, 3))
def test_leaders_are_those_of_the_lists(lists, random_seed):
    found = rank(cut_into_blocks(lists, random_seed))
    merged = found.lists.merged()
    assert np.array_equal(found.best, merged.best)
    assert np.array_equal(found.mutual, merged.mutual)
    assert np.array_equal(found.listed, (merged.target >= 0).sum(axis=1))
    for row, (targets, scores) in enumerate(zip(merged.target, merged.score, strict=True)):
        listed = scores[targets >= 0]
        assert found.leaders[row].tolist() == [*scores[:2], -np.inf, -np.inf][:2]
        assert found.is_ahead[row] == (len(listed) > 0 and (listed[0] > listed[1:]).all())
    for target, best in enumerate(found.best_score):
        scores = merged.score[merged.target == target]
        assert best == scores.max(initial=-np.inf)
        if np.isfinite(best):
            assert found.is_contested[target] == ((scores == best).sum() > 1)
