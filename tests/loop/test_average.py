"""Averaging in blocks compared with sorting whole arrays: the same lists, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import divea.loop.average as module
from benchmarks.common import by_sorting
from divea.loop.average import average
from divea.types import Matches
from tests.ranked_lists import in_blocks, ranked_lists


def assert_same(found, expected):
    assert found.target.dtype == expected.target.dtype
    assert found.score.dtype == expected.score.dtype
    assert np.array_equal(found.source, expected.source)
    assert np.array_equal(found.target, expected.target)
    assert np.array_equal(found.score.view(np.int32), expected.score.view(np.int32))
    assert np.array_equal(found.mutual, expected.mutual)


@given(
    history=st.lists(ranked_lists(), min_size=1, max_size=4),
    sources=st.sets(st.integers(0, 60)),
    taken=st.sets(st.integers(0, 40)),
    top=st.integers(1, 60),
    random_seed=st.integers(0, 3),
    rows=st.sampled_from([1, 3, 7, 1000]),
    threads=st.sampled_from([1, 2, 5]),
)
def test_averages_in_blocks_equal_those_by_sorting(history, sources, taken, top, random_seed, rows, threads):
    arguments = (
        history,
        np.array(sorted(sources), dtype=np.int32),
        np.array(sorted(taken), dtype=np.int32),
        top,
        random_seed,
    )
    with pytest.MonkeyPatch.context() as patch:
        in_blocks(patch, module, rows, threads)
        assert_same(average(*arguments), by_sorting.average(*arguments))


@given(st.lists(ranked_lists(), min_size=2, max_size=3))
def test_the_sources_of_the_latest_iteration_are_averaged(history):
    """The usual call: the sources of the last lists, which are sorted by source."""
    arguments = history, np.sort(history[-1].source), np.zeros(0, dtype=np.int32), 20
    assert_same(average(*arguments), by_sorting.average(*arguments))


def test_ids_and_places_that_do_not_fit_into_32_bits_together():
    rng = np.random.default_rng(0)
    ids = np.unique(rng.integers(0, 9_000_000, size=600)).astype(np.int32)
    history = []
    for _ in range(3):
        target = np.stack([rng.permutation(ids)[:300] for _ in range(20)])
        score = -np.sort(-rng.integers(0, 9, size=target.shape) / 8, axis=1).astype(np.float32)
        history.append(Matches(np.arange(20, dtype=np.int32), target, score, np.zeros(20, bool)))
    arguments = history, history[0].source, ids[:5], 50
    assert_same(average(*arguments), by_sorting.average(*arguments))
