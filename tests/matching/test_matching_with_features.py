"""Matching with features is matching on the dense sum: the cosine plus the weighted scores of features."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.graphs.features import EntityVectors, PairScores
from divea.matching import METHODS, match
from divea.matching.methods import score_blocks
from divea.matching.similarity import AddedScores, UnitRows
from divea.types import Embeddings

ENOUGH = 1 << 30


def ids(count):
    return np.arange(count, dtype=np.int32)


def pair_scores(draw, sources, targets, weight=1.0, density=0.2):
    """Random scores of some pairs; about a third of the rows have none."""
    scores = draw.random((sources, targets), dtype=np.float32)
    scores[draw.random(scores.shape) > density] = 0
    scores[draw.random(sources) < 0.3] = 0
    return PairScores("names", ids(sources), ids(targets), csr_array(scores), weight)


def entity_vectors(draw, sources, targets, weight=1.0, dtype=np.float32):
    """Random vectors; about a third of the entities have a vector of zeros."""
    sides = []
    for count in (sources, targets):
        rows = draw.normal(size=(count, 5)).astype(dtype)
        rows[draw.random(count) < 0.3] = 0
        sides.append(rows)
    return EntityVectors("given", ids(sources), ids(targets), *sides, weight)


def some_features(random_seed, sources=40, targets=55):
    """Two features of pairs and two of vectors, each with a weight of its own."""
    draw = np.random.default_rng(random_seed)
    return (
        pair_scores(draw, sources, targets, 0.7),
        entity_vectors(draw, sources, targets, 0.4, np.float16),
        pair_scores(draw, sources, targets, 0.25, density=0.05),
        entity_vectors(draw, sources, targets, 1.3),
    )


def random_embeddings(sources=40, targets=55, random_seed=0):
    draw = np.random.default_rng(random_seed)
    sides = (
        torch.from_numpy(draw.normal(size=(count, 8)).astype(np.float32)) for count in (sources, targets)
    )
    return Embeddings(*sides)


def cosine(left, right):
    """The cosine of all rows in double precision; 0 for rows of zeros."""
    sides = [np.asarray(side, dtype=np.float64) for side in (left, right)]
    unit = [side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in sides]
    return unit[0] @ unit[1].T


def dense_sum(embeddings, features):
    """The cosine of the embeddings plus weight times score of every feature, for all pairs."""
    total = cosine(embeddings.source, embeddings.target)
    for feature in features:
        is_pairs = isinstance(feature, PairScores)
        scores = feature.scores.toarray() if is_pairs else cosine(feature.source, feature.target)
        total += feature.weight * scores
    return total


def csls(similarity, neighbours=10):
    by_row = np.sort(similarity, axis=1)[:, -neighbours:].mean(axis=1)
    by_column = np.sort(similarity, axis=0)[-neighbours:].mean(axis=0)
    return 2 * similarity - by_row[:, None] - by_column


def sinkhorn(similarity, nearest=None):
    """Textbook Sinkhorn over each row's nearest columns; the other columns have no weight."""
    weights = np.exp((similarity - similarity.max(axis=1, keepdims=True)) / 0.02)
    if nearest is not None:
        weights[similarity < -np.sort(-similarity, axis=1)[:, [nearest - 1]]] = 0
    for _ in range(15):
        weights /= weights.sum(axis=1, keepdims=True)
        weights /= np.maximum(weights.sum(axis=0, keepdims=True), 1e-30)
    return weights


REFERENCES = {"cosine": lambda similarity: similarity, "csls": csls, "sinkhorn": sinkhorn}


def check_equal(matches, expected, count):
    """The matches of all sources list the `count` targets of the highest expected scores."""
    at = matches.source[:, None], matches.target[:, :count]
    assert np.allclose(matches.score[:, :count], expected[at], atol=5e-5)
    assert np.allclose(matches.score[:, :count], -np.sort(-expected, axis=1)[:, :count], atol=5e-5)
    # In single precision, the better one of two that nearly tie is not known.
    best_of_column = -np.sort(-expected, axis=0)
    is_clear = (best_of_column[0] - best_of_column[1])[matches.best] > 1e-4
    is_mutual = expected.argmax(axis=0)[matches.best] == matches.source
    assert np.array_equal(matches.mutual[is_clear], is_mutual[is_clear])
    assert is_clear.mean() > 0.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("memory", [ENOUGH, 20_000], ids=["one block", "several blocks"])
@settings(max_examples=20)
@given(random_seed=st.integers(0, 10_000))
def test_matches_are_those_of_the_dense_sum(method, memory, random_seed):
    embeddings, features = random_embeddings(random_seed=random_seed), some_features(random_seed)
    expected = REFERENCES[method](dense_sum(embeddings, features))
    found = match(embeddings, ids(40), ids(55), features, method=method, top=55, memory=memory)
    check_equal(found, expected, 55)


@settings(max_examples=20)
@given(random_seed=st.integers(0, 10_000))
def test_sinkhorn_with_little_memory_is_sinkhorn_over_the_nearest_by_the_dense_sum(random_seed):
    embeddings, features = random_embeddings(random_seed=random_seed), some_features(random_seed)
    # The complete kernel would need 17,600 bytes; 15,000 allow the 10 nearest targets of each source.
    found = match(embeddings, ids(40), ids(55), features, method="sinkhorn", top=55, memory=15_000)
    assert ((found.target >= 0).sum(axis=1) == 10).all()
    check_equal(found, sinkhorn(dense_sum(embeddings, features), nearest=10), 10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kinds", [PairScores, EntityVectors])
def test_each_kind_of_feature_counts_on_its_own(method, kinds):
    embeddings = random_embeddings()
    features = tuple(item for item in some_features(3) if isinstance(item, kinds))
    found = match(embeddings, ids(40), ids(55), features, method=method, top=55)
    check_equal(found, REFERENCES[method](dense_sum(embeddings, features)), 55)
    assert not np.array_equal(found.best, match(embeddings, ids(40), ids(55), method=method).best)


@pytest.mark.parametrize("method", METHODS)
def test_some_sources_and_candidates_in_any_order_have_their_own_rows_of_features(method):
    embeddings, features = random_embeddings(), some_features(5)
    draw = np.random.default_rng(1)
    sources, candidates = draw.permutation(40)[:25], draw.permutation(55)[:30]
    found = match(embeddings, sources, candidates, features, method=method, top=30)
    expected = REFERENCES[method](dense_sum(embeddings, features)[np.ix_(sources, candidates)])
    assert np.array_equal(found.source, sources)
    assert np.array_equal(found.best, candidates[expected.argmax(axis=1)])
    assert np.allclose(found.score, -np.sort(-expected, axis=1), atol=5e-5)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("memory", [ENOUGH, 15_000])
def test_a_feature_without_pairs_gives_the_same_bytes_as_no_feature(method, memory):
    embeddings = random_embeddings()
    empty = PairScores("names", ids(40), ids(55), csr_array((40, 55), dtype=np.float32))
    without, found = (
        match(embeddings, ids(40), ids(55), features, method=method, memory=memory)
        for features in ((), (empty,))
    )
    for name in ("target", "score", "mutual"):
        assert getattr(found, name).tobytes() == getattr(without, name).tobytes()


def test_rows_without_features_are_those_of_the_embeddings_bit_for_bit():
    embeddings, rows = random_embeddings(), np.array([7, 0, 31], dtype=np.int32)
    picked = embeddings.source[torch.from_numpy(rows).long()]
    expected = picked / picked.norm(dim=1, keepdim=True).clamp_min(1e-12)
    assert torch.equal(UnitRows(embeddings.source, rows)[:], expected)


@pytest.mark.parametrize("method", METHODS)
def test_vectors_of_zeros_say_nothing(method):
    embeddings = random_embeddings()
    zeros = EntityVectors(
        "given", ids(40), ids(55), np.zeros((40, 3), np.float16), np.ones((55, 3), np.float16)
    )
    without, found = (
        match(embeddings, ids(40), ids(55), features, method=method, top=55) for features in ((), (zeros,))
    )
    assert np.array_equal(found.best, without.best)
    assert np.allclose(found.score, without.score, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_features_without_sources_or_candidates(method):
    embeddings, features = random_embeddings(), some_features(2)
    none = np.array([], dtype=np.int32)
    assert len(match(embeddings, none, ids(55), features, method=method)) == 0
    assert match(embeddings, ids(3), none, features, method=method).best.tolist() == [-1, -1, -1]


def test_embeddings_are_not_changed_by_features():
    embeddings, features = random_embeddings(), some_features(2)
    before = [side.clone() for side in (embeddings.source, embeddings.target)]
    arrays = [array.copy() for feature in features for array in feature.arrays]
    match(embeddings, ids(40), ids(55), features, method="csls")
    assert all(map(torch.equal, before, (embeddings.source, embeddings.target)))
    after = [array for feature in features for array in feature.arrays]
    assert all(map(np.array_equal, arrays, after))


shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(shapes, st.integers(0, 10_000))
def test_transposed_scores_are_the_transposed_matrix(shape, random_seed):
    feature = pair_scores(np.random.default_rng(random_seed), *shape, weight=0.5)
    added = AddedScores.of([feature], ids(shape[0]), ids(shape[1]), "cpu")
    dense, transposed = torch.zeros(shape), torch.zeros(shape[::-1])
    added.add_to(dense, 0)
    added.transposed(shape[1]).add_to(transposed, 0)
    assert torch.equal(dense, torch.from_numpy(0.5 * feature.scores.toarray()))
    assert torch.equal(transposed, dense.T)


@given(shapes, st.integers(0, 10_000), st.integers(1, 5), st.data())
def test_scores_are_added_to_blocks_of_any_height(shape, random_seed, height, data):
    draw = np.random.default_rng(random_seed)
    features = [pair_scores(draw, *shape, weight=weight) for weight in (0.5, 2.0)]
    rows = np.sort(draw.permutation(shape[0])[: data.draw(st.integers(0, shape[0]))]).astype(np.int32)
    columns = draw.permutation(shape[1])[: data.draw(st.integers(1, shape[1]))].astype(np.int32)
    added = AddedScores.of(features, rows, columns, "cpu")
    blocks = [torch.ones(min(height, len(rows) - at), len(columns)) for at in range(0, len(rows), height)]
    for number, block in enumerate(blocks):
        added.add_to(block, number * height)
    total = sum(item.weight * item.scores.toarray() for item in features)[np.ix_(rows, columns)]
    found = torch.cat([torch.ones(0, len(columns)), *blocks]).numpy()
    assert np.allclose(found, 1 + total, atol=1e-6)


@pytest.mark.parametrize("method", ["cosine", "csls"])
def test_blocks_have_the_same_scores_whatever_their_height(method):
    embeddings, features = random_embeddings(sources=300), some_features(4, sources=300)

    def scores(memory):
        blocks = score_blocks(embeddings, ids(300), ids(55), features, method=method, memory=memory)
        return np.concatenate([block.numpy().copy() for _, block in blocks])

    assert np.allclose(scores(5_000), scores(ENOUGH), atol=1e-5)
