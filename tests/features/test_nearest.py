"""The nearest rows of sparse matrices, compared with all products."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.features import nearest
from divea.features.nearest import nearest_of_both, nearest_rows
from divea.features.text import token_vectors

COLUMNS = 6
ROUNDING = 1e-5


@st.composite
def row_lists(draw):
    """Rows of length one, some of them of zeros or the same."""
    entries = st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 5.0])
    rows = draw(st.lists(st.lists(entries, min_size=COLUMNS, max_size=COLUMNS), max_size=9))
    dense = np.array(rows, dtype=np.float32).reshape(-1, COLUMNS)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return csr_array(np.where(lengths > 0, dense / np.maximum(lengths, 1e-9), 0).astype(np.float32))


def random_rows(count: int, random_seed: int, columns: int = 40) -> csr_array:
    """Rows of length one with a few different entries, so that hardly any products are the same."""
    draw = np.random.default_rng(random_seed)
    dense = draw.random((count, columns)) * (draw.random((count, columns)) < 0.15)
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    return csr_array((dense / np.maximum(lengths, 1e-9)).astype(np.float32))


def is_listed(found: csr_array) -> np.ndarray:
    """Which pairs have an entry."""
    entries = np.zeros(found.shape, dtype=bool)
    entries[np.repeat(np.arange(found.shape[0]), np.diff(found.indptr)), found.indices] = True
    return entries


def must_and_may(products: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that are among the `count` nearest of a row for certain, and those that may be by a tie."""
    if not products.size:
        return np.zeros(products.shape, dtype=bool), np.zeros(products.shape, dtype=bool)
    ordered = -np.sort(-products, axis=1)
    last = ordered[:, [min(count, products.shape[1]) - 1]]
    following = ordered[:, [count]] if count < products.shape[1] else np.zeros_like(last)
    is_positive = products > ROUNDING
    must = is_positive & (products > following + ROUNDING)
    return must, is_positive & (products >= last - ROUNDING)


def check_exact(found: csr_array, source: csr_array, target: csr_array, count: int) -> None:
    """Check that the nearest rows of both directions are listed, and no others."""
    products = source.toarray() @ target.toarray().T
    listed = is_listed(found)
    forward, backward = must_and_may(products, count), must_and_may(products.T, count)
    assert (forward[0] <= listed).all() and (backward[0] <= listed.T).all()
    assert (listed <= forward[1] | backward[1].T).all()
    enough = np.minimum((products > ROUNDING).sum(axis=1), count)
    assert (listed.sum(axis=1) >= enough).all()
    check_similarities(found, products)


def check_similarities(found: csr_array, products: np.ndarray) -> None:
    assert found.dtype == np.float32
    assert found.shape == products.shape
    assert found.has_sorted_indices
    np.testing.assert_allclose(found.toarray(), np.where(is_listed(found), products, 0), atol=ROUNDING)


@pytest.fixture
def pruned(monkeypatch):
    """No search is exact, and a row can afford little."""
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", -1)
    monkeypatch.setattr(nearest, "PRODUCTS_PER_ROW", 3)


@given(row_lists(), row_lists(), st.integers(1, 12))
def test_the_nearest_rows_are_those_of_brute_force(source, target, count):
    products = source.toarray() @ target.toarray().T
    found = nearest_rows(source, target, count, 1)
    must, may = must_and_may(products, count)
    listed = is_listed(found)
    assert (must <= listed).all() and (listed <= may).all()
    assert listed.sum(axis=1).tolist() == np.minimum((products > ROUNDING).sum(axis=1), count).tolist()
    check_similarities(found, products)


@given(row_lists(), row_lists(), st.integers(1, 12))
def test_the_nearest_of_both_are_those_of_brute_force(source, target, count):
    check_exact(nearest_of_both(source, target, count, threads=1), source, target, count)


@given(row_lists(), row_lists(), st.integers(1, 12), st.integers(0, 20))
def test_a_pruned_search_lists_exact_similarities_and_identical_rows(source, target, count, affordable):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "MOST_PRODUCTS", -1)
        patch.setattr(nearest, "PRODUCTS_PER_ROW", affordable)
        found = nearest_of_both(source, target, count, threads=1)
    products = source.toarray() @ target.toarray().T
    check_similarities(found, products)
    is_same = np.array(
        [[np.array_equal(one, other) and one.any() for other in target.toarray()] for one in source.toarray()]
    ).reshape(products.shape)
    listed = is_listed(found)
    for row in range(len(is_same)):
        expected = min(is_same[row].sum(), count)
        assert (listed[row] & (products[row] > 1 - ROUNDING)).sum() >= expected


@given(row_lists(), row_lists(), st.integers(1, 12))
def test_a_pruned_search_that_can_afford_everything_is_exact(source, target, count):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "MOST_PRODUCTS", -1)
        found = nearest_of_both(source, target, count, threads=1)
    check_exact(found, source, target, count)


def test_a_pruned_search_finds_identical_texts(pruned):
    names = [f"{first} {second}" for first in ("New", "Old", "Great") for second in ("York", "Haven", "Bay")]
    texts = pa.array(names), pa.array([*reversed(names), "York New"])
    vectors = token_vectors(*texts)
    assert vectors.keys is not None
    found = nearest_of_both(vectors.source, vectors.target, 2, vectors.keys)
    for row in range(len(names)):
        assert found[row, len(names) - 1 - row] == pytest.approx(1, abs=ROUNDING)


def test_keys_find_candidates_that_are_compared_by_the_rows_themselves(pruned):
    rows = csr_array(np.eye(3, dtype=np.float32))
    others = csr_array(np.array([[0.6, 0.8, 0]], dtype=np.float32))
    keys = csr_array(np.array([[0], [1], [1]], np.float32)), csr_array(np.ones((1, 1), np.float32))
    found = nearest_of_both(rows, others, 1, keys)
    # The first row has no key, and the third has a product of 0.
    assert found.toarray().ravel().tolist() == pytest.approx([0, 0.8, 0])


@pytest.mark.parametrize("most_products", [-1, 1 << 33])
@pytest.mark.parametrize(("here", "there"), [(0, 0), (0, 5), (5, 0), (1, 1), (1, 5), (5, 1)])
def test_empty_sides_and_single_rows(here, there, most_products, monkeypatch):
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", most_products)
    source, target = random_rows(here, 0), random_rows(there, 1)
    check_exact(nearest_of_both(source, target, 3), source, target, 3)


@pytest.mark.parametrize("most_products", [-1, 1 << 33])
def test_rows_of_zeros_have_no_nearest_rows(most_products, monkeypatch):
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", most_products)
    zeros = csr_array((4, 40), dtype=np.float32)
    assert nearest_of_both(zeros, zeros, 2).nnz == 0
    assert nearest_of_both(zeros, random_rows(5, 0), 2).nnz == 0
    assert nearest_of_both(random_rows(5, 0), zeros, 2).nnz == 0


@pytest.mark.parametrize("most_products", [-1, 1 << 33])
def test_the_number_of_threads_does_not_matter(most_products, monkeypatch):
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", most_products)
    monkeypatch.setattr(nearest, "PRODUCTS_PER_ROW", 100)
    monkeypatch.setattr(nearest, "_PAIRS_AT_A_TIME", 50)
    source, target = random_rows(200, 0), random_rows(150, 1)
    one, two = (nearest_of_both(source, target, 4, threads=threads) for threads in (1, 2))
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(one, name), getattr(two, name))


@pytest.mark.parametrize("most_products", [-1, 1 << 33])
def test_the_size_of_blocks_and_the_order_of_rows_do_not_matter(most_products, monkeypatch):
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", most_products)
    monkeypatch.setattr(nearest, "PRODUCTS_PER_ROW", 100)
    source, target = random_rows(60, 0), random_rows(50, 1)
    before = nearest_of_both(source, target, 4).toarray()
    assert 0 < np.count_nonzero(before) < before.size
    for name, size in (("_ROWS_AT_A_TIME", 7), ("_OTHERS_AT_A_TIME", 11), ("_PAIRS_AT_A_TIME", 13)):
        monkeypatch.setattr(nearest, name, size)
    draw = np.random.default_rng(2)
    rows, others = draw.permutation(60), draw.permutation(50)
    after = nearest_of_both(source[rows], target[others], 4).toarray()
    np.testing.assert_allclose(after, before[np.ix_(rows, others)], atol=1e-6)
    assert np.array_equal(after > 0, before[np.ix_(rows, others)] > 0)


def test_many_identical_rows_take_few_pairs(monkeypatch):
    """Each row is paired with as many identical rows as are kept, not with all of them."""
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", -1)
    monkeypatch.setattr(nearest, "PRODUCTS_PER_ROW", 10)
    rows = csr_array(np.ones((500, 1), dtype=np.float32))
    found = nearest_of_both(rows, rows, 3)
    assert found.nnz <= 2 * 3 * 500
    assert (np.diff(found.indptr) >= 3).all()
