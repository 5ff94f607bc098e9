"""One-to-one matching compared with a sequential greedy loop and scipy's dense assignment."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

import divea.matching.greedy as module
from benchmarks.common import by_sorting
from divea.errors import InputError
from divea.matching import one_to_one
from divea.types import Matches
from tests.ranked_lists import in_blocks, ranked_lists


@st.composite
def tables(draw, distinct=True):
    """Matches of up to 8 sources with arbitrary ids and up to 8 targets."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    sources, targets = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    scores = rng.permutation(sources * targets).reshape(sources, targets).astype(np.float32)
    if not distinct:
        scores = np.floor(scores / 4)
    order = np.argsort(-scores, axis=1)
    score, listed = np.take_along_axis(scores, order, axis=1), order.astype(np.int32)
    if draw(st.booleans()):
        score[:, -1], listed[:, -1] = -np.inf, -1
    return Matches(rng.permutation(20)[:sources], listed, score, np.zeros(sources, dtype=bool))


def sequential_greedy(matches):
    pairs = [
        (-matches.score[row, rank], row, matches.target[row, rank])
        for row, rank in zip(*np.nonzero(matches.target >= 0), strict=True)
    ]
    assigned, taken = np.full(len(matches), -1), set()
    for _, row, target in sorted(pairs):
        if assigned[row] < 0 and target not in taken:
            assigned[row] = target
            taken.add(target)
    return assigned


@given(tables())
def test_greedy_assigns_the_same_as_a_sequential_loop(matches):
    assert np.array_equal(one_to_one(matches), sequential_greedy(matches))


@given(
    matches=ranked_lists(),
    is_shuffled=st.booleans(),
    random_seed=st.integers(0, 3),
    rows=st.sampled_from([1, 3, 1000]),
    threads=st.sampled_from([1, 2, 5]),
)
def test_greedy_assigns_the_same_as_sorting_all_pairs(matches, is_shuffled, random_seed, rows, threads):
    """Also if lists are not in the order of their scores, and in any number of blocks and threads."""
    if is_shuffled:
        order = np.random.default_rng(random_seed).permutation(matches.target.shape[1])
        lists = matches.target[:, order], matches.score[:, order]
        matches = Matches(matches.source, *lists, matches.mutual)
    with pytest.MonkeyPatch.context() as patch:
        in_blocks(patch, module, rows, threads)
        found = one_to_one(matches, random_seed=random_seed)
    assert found.dtype == np.int32
    assert np.array_equal(found, by_sorting.one_to_one(matches, random_seed))


@pytest.mark.parametrize("steps", [3, 40, 10**6])
def test_greedy_assigns_the_same_where_targets_are_contested(steps):
    """Long lists of the same few targets, with many, some and no ties."""
    rng = np.random.default_rng(steps)
    target = np.argsort(rng.random((900, 300)), axis=1)[:, :50].astype(np.int32)
    score = -np.sort(-rng.integers(0, steps, size=target.shape) / steps, axis=1).astype(np.float32)
    matches = Matches(rng.permutation(2000)[:900].astype(np.int32), target, score, np.zeros(900, bool))
    assigned = one_to_one(matches)
    assert (assigned >= 0).sum() > 250
    assert np.array_equal(assigned, by_sorting.one_to_one(matches))


@given(tables(distinct=False), st.sampled_from(["greedy", "hungarian"]))
def test_targets_are_assigned_at_most_once_and_only_if_listed(matches, method):
    assigned = one_to_one(matches, method)
    targets = assigned[assigned >= 0]
    assert len(set(targets)) == len(targets)
    for row, target in enumerate(assigned):
        assert target < 0 or target in matches.target[row]


@given(tables(distinct=False))
def test_hungarian_matches_as_many_as_possible_with_the_largest_sum(matches):
    dense = np.full((len(matches), 8), -1e6)
    rows, ranks = np.nonzero(matches.target >= 0)
    dense[rows, matches.target[rows, ranks]] = matches.score[rows, ranks]
    best = dense[linear_sum_assignment(dense, maximize=True)]
    assigned = one_to_one(matches, "hungarian")
    found = dense[np.arange(len(matches)), assigned][assigned >= 0]
    assert len(found) == (best > -1e6).sum()
    assert found.sum() == pytest.approx(best[best > -1e6].sum())


def test_ties_are_broken_by_a_seeded_draw():
    tied = Matches(np.array([0, 1]), np.array([[5], [5]]), np.ones((2, 1), np.float32), np.zeros(2, bool))
    assigned = {tuple(one_to_one(tied, random_seed=random_seed)) for random_seed in range(20)}
    assert assigned == {(5, -1), (-1, 5)}


def test_empty_lists_and_an_unknown_method():
    empty = Matches(np.arange(2), np.full((2, 1), -1), np.full((2, 1), -np.inf), np.zeros(2, bool))
    assert one_to_one(empty).tolist() == [-1, -1]
    with pytest.raises(InputError, match="choose from greedy, hungarian"):
        one_to_one(empty, "auction")
