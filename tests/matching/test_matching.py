"""Matching compared with dense references, with ties, memory budgets and empty sides."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from divea.errors import InputError
from divea.matching import METHODS, match
from divea.matching.similarity import largest_first, rows_per_block, top_k
from divea.matching.sinkhorn import SparseScores, dense_sinkhorn, nearest_targets, sparse_sinkhorn
from divea.types import Embeddings


def random_embeddings(sources=40, targets=55, dimensions=8, random_seed=0):
    generator = torch.Generator().manual_seed(random_seed)
    rows = [torch.randn(count, dimensions, generator=generator) for count in (sources, targets)]
    return Embeddings(*rows)


def dense_cosine(embeddings):
    unit = [side / side.norm(dim=1, keepdim=True) for side in (embeddings.source, embeddings.target)]
    return (unit[0] @ unit[1].T).numpy()


def dense_csls(embeddings, neighbours=10):
    cosine = dense_cosine(embeddings)
    source_mean = np.sort(cosine, axis=1)[:, -neighbours:].mean(axis=1)
    target_mean = np.sort(cosine, axis=0)[-neighbours:].mean(axis=0)
    return 2 * cosine - source_mean[:, None] - target_mean


def textbook_sinkhorn(cosine, temperature=0.02, iterations=15):
    weights = np.exp(np.float64(cosine) / temperature)
    for _ in range(iterations):
        weights /= weights.sum(axis=1, keepdims=True)
        weights /= weights.sum(axis=0, keepdims=True)
    return weights


REFERENCES = {
    "cosine": dense_cosine,
    "csls": dense_csls,
    "sinkhorn": lambda embeddings: textbook_sinkhorn(dense_cosine(embeddings)),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("memory", [1 << 30, 15_000])
def test_matches_are_those_of_the_dense_reference(method, memory):
    embeddings = random_embeddings()
    expected = REFERENCES[method](embeddings)
    matches = match(embeddings, np.arange(40), np.arange(55), method=method, top=55, memory=memory)
    listed = (matches.target >= 0).sum(axis=1)
    if method == "sinkhorn" and memory == 15_000:
        # The small budget makes Sinkhorn sparse; another test compares it with the dense method.
        assert (listed == 10).all()
        return
    assert (listed == 55).all()
    assert np.array_equal(matches.source, np.arange(40))
    assert np.array_equal(matches.best, expected.argmax(axis=1))
    assert np.allclose(matches.score, -np.sort(-expected, axis=1), atol=2e-5)
    is_mutual = expected.argmax(axis=0)[matches.best] == np.arange(40)
    assert np.array_equal(matches.mutual, is_mutual)
    assert np.allclose(matches.margin, matches.score[:, 0] - matches.score[:, 1])


def test_sources_and_candidates_are_ids_and_matches_keep_the_order_of_sources():
    embeddings = random_embeddings()
    sources, candidates = np.array([30, 2, 17]), np.array([50, 4, 8, 9])
    matches = match(embeddings, sources, candidates, method="cosine", top=2)
    block = dense_cosine(embeddings)[np.ix_(sources, candidates)]
    assert np.array_equal(matches.source, sources)
    assert np.array_equal(matches.best, candidates[block.argmax(axis=1)])
    assert set(matches.target.ravel()) <= set(candidates)


@given(
    nps.arrays(np.float32, st.tuples(st.integers(1, 6), st.integers(1, 900)), elements=st.integers(-3, 3)),
    st.integers(1, 12),
)
def test_top_k_finds_the_largest_scores(scores, k):
    values, indices = largest_first(*top_k(torch.from_numpy(scores), k))
    k = min(k, scores.shape[1])
    assert np.array_equal(values.numpy(), -np.sort(-scores, axis=1)[:, :k])
    assert np.array_equal(np.take_along_axis(scores, indices.numpy(), axis=1), values.numpy())
    for row in indices.numpy():
        assert len(set(row)) == k
    is_tied = values[:, 1:] == values[:, :-1]
    assert bool((indices[:, 1:] > indices[:, :-1])[is_tied].all())


@pytest.mark.parametrize("columns", [4096, 4127, 9000, 140_000])
@pytest.mark.parametrize("k", [1, 2, 7])
def test_top_k_finds_the_largest_scores_of_long_rows(columns, k):
    # Rows this long are searched by groups of groups; whole numbers give many ties.
    scores = torch.randint(-9000, 9000, (5, columns), generator=torch.Generator().manual_seed(k)).float()
    scores[0] = 0
    scores[1, -1] = scores[1, 0] = 1e6
    scores[2, 5:] = -torch.inf
    values, indices = largest_first(*top_k(scores, k))
    assert torch.equal(values, scores.topk(k, dim=1).values)
    assert torch.equal(scores.gather(1, indices), values)
    assert all(len(set(row)) == k for row in indices.tolist())


@given(st.integers(0, 10**7), st.integers(0, 1 << 34))
def test_blocks_keep_within_their_share_of_the_budget(columns, memory):
    rows = rows_per_block(columns, memory)
    assert rows == 1 or 4 * rows * columns <= 0.8 * memory
    assert rows < 256 or rows % 256 == 0
    # As many rows as fit, rounded down to whole tiles.
    assert 4 * (rows + 256) * max(columns, 1) > 0.8 * memory


@pytest.mark.parametrize("method", METHODS)
def test_ties_are_broken_by_a_seeded_draw_and_not_by_id(method):
    # All entities have the same embedding, so only the draw decides.
    embeddings = Embeddings(torch.ones(60, 4), torch.ones(60, 4))
    ids = np.arange(60)
    chosen = [
        match(embeddings, ids, ids, method=method, top=3, random_seed=random_seed).best
        for random_seed in range(30)
    ]
    assert len({int(best[0]) for best in chosen}) > 10
    same_id = np.mean([(best == ids).mean() for best in chosen])
    assert same_id < 0.1
    again = match(embeddings, ids, ids, method=method, top=3, random_seed=0).best
    assert np.array_equal(chosen[0], again)


def test_of_sources_that_tie_for_a_target_only_one_is_mutual():
    embeddings = Embeddings(torch.ones(5, 3), torch.ones(1, 3))
    matches = match(embeddings, np.arange(5), [0], method="cosine")
    assert matches.mutual.sum() == 1
    assert np.isinf(matches.margin).all()


@pytest.mark.parametrize("method", METHODS)
def test_the_order_in_which_ids_are_given_does_not_matter(method):
    embeddings = random_embeddings()
    rng = np.random.default_rng(0)
    in_order = match(embeddings, np.arange(40), np.arange(55), method=method)
    order = rng.permutation(40)
    shuffled = match(embeddings, order, rng.permutation(55), method=method)
    assert np.array_equal(in_order.target[order], shuffled.target)


@pytest.mark.parametrize("method", METHODS)
def test_no_sources_no_candidates_and_zero_embeddings(method):
    embeddings = random_embeddings()
    none = np.array([], dtype=np.int32)
    assert len(match(embeddings, none, np.arange(55), method=method)) == 0
    without_candidates = match(embeddings, np.arange(3), none, method=method)
    assert without_candidates.best.tolist() == [-1, -1, -1]
    assert not without_candidates.mutual.any()
    zeros = Embeddings(torch.zeros(3, 4), torch.zeros(4, 4))
    scores = match(zeros, np.arange(3), np.arange(4), method=method).score
    assert np.isfinite(scores).all()


def test_an_unknown_method_is_rejected_with_the_known_ones():
    with pytest.raises(
        InputError, match=r"unknown matching method 'cosin'; choose from cosine, csls, sinkhorn"
    ):
        match(random_embeddings(), [0], [0], method="cosin")


@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 1000))
def test_sparse_sinkhorn_over_all_pairs_is_dense_sinkhorn(rows, columns, random_seed):
    embeddings = random_embeddings(rows, columns, random_seed=random_seed).normalised()
    nearest = nearest_targets(embeddings.source, embeddings.target, 1 << 20, columns)
    sparse = sparse_sinkhorn(nearest, columns)
    dense = dense_sinkhorn(embeddings.source @ embeddings.target.T)
    assert torch.allclose(dense.gather(1, sparse.columns), sparse.values, atol=1e-4)


def test_sinkhorn_makes_sources_compete():
    # Both sources are nearest to target 0, the first slightly more; only the second has an alternative.
    scores = torch.tensor([[0.90, 0.10], [0.89, 0.80]])
    assert scores.argmax(dim=1).tolist() == [0, 0]
    assert dense_sinkhorn(scores.clone()).argmax(dim=1).tolist() == [0, 1]
    columns = torch.tensor([[0, 1], [0, 1]])
    assert sparse_sinkhorn(SparseScores(scores, columns), 2).values.argmax(dim=1).tolist() == [0, 1]
