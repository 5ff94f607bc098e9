"""Sparse sums, forward and backward, compared with plain gather and scatter."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from divea.models import aggregation
from divea.models.aggregation import (
    EdgeIndex,
    FixedSum,
    at_right,
    edge_dot,
    edge_softmax,
    weighted_sum,
)


@st.composite
def cases(draw):
    """Edges in any order, with repetitions, and random weights and vectors at both ends."""
    sizes = draw(st.integers(1, 7)), draw(st.integers(1, 5))
    edges = draw(st.lists(st.tuples(st.integers(0, sizes[0] - 1), st.integers(0, sizes[1] - 1)), max_size=30))
    left, right = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    if draw(st.booleans()):
        order = np.argsort(left, kind="stable")
        left, right = left[order], right[order]
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    values = [
        rng.normal(size=shape).astype(np.float32) for shape in (len(left), (sizes[0], 3), (sizes[1], 3))
    ]
    return (left, right, sizes, *(torch.from_numpy(value).requires_grad_() for value in values))


def assert_equal_with_gradients(found, expected, leaves):
    """Compare the values, and the gradients of a function that weighs every entry differently."""
    assert torch.allclose(found, expected, atol=1e-5)
    if not found.numel():
        return
    weights = torch.linspace(-1, 2, found.numel()).view_as(found)
    for found_gradient, expected_gradient in zip(
        torch.autograd.grad((found * weights).sum(), leaves, allow_unused=True),
        torch.autograd.grad((expected * weights).sum(), leaves, allow_unused=True),
        strict=True,
    ):
        if expected_gradient is not None and found_gradient is not None:
            assert torch.allclose(found_gradient, expected_gradient, atol=1e-4)
        else:
            assert found_gradient is None or not found_gradient.any()


@pytest.fixture(params=[False, True], ids=["whole rows", "rows in pieces"], scope="module", autouse=True)
def cut_rows(request):
    """Runs every test twice: as on a CPU, and with rows cut as on a GPU, here into pieces of two."""
    patch = pytest.MonkeyPatch()
    if request.param:
        patch.setattr(aggregation, "LONGEST_PIECE", 2)
        init_on_cpu = aggregation.SparsePattern.__init__

        def init(self, starts, columns, size, order=None):
            init_on_cpu(self, starts, columns, size, order)
            self._pieces = aggregation._cut_rows(starts.long(), len(columns))

        patch.setattr(aggregation.SparsePattern, "__init__", init)
    yield
    patch.undo()


@given(cases())
def test_weighted_sum(case):
    left, right, sizes, weights, _, vectors = case
    found = weighted_sum(EdgeIndex.of(left, right, sizes), weights, vectors)
    products = vectors[right] * weights[:, None]
    expected = torch.zeros(sizes[0], 3).index_add(0, torch.from_numpy(left), products)
    assert_equal_with_gradients(found, expected, [weights, vectors])


@given(cases())
def test_edge_dot(case):
    left, right, sizes, _, left_vectors, right_vectors = case
    found = edge_dot(EdgeIndex.of(left, right, sizes), left_vectors, right_vectors)
    expected = (left_vectors[left] * right_vectors[right]).sum(dim=1)
    assert_equal_with_gradients(found, expected, [left_vectors, right_vectors])


@given(cases())
def test_edge_softmax_and_at_right(case):
    left, right, sizes, logits, _, right_vectors = case
    edges = EdgeIndex.of(left, right, sizes)
    logits = logits + at_right(edges, right_vectors[:, 0])
    exponentials = logits.exp()
    totals = torch.zeros(sizes[0]).index_add(0, torch.from_numpy(left), exponentials)
    assert_equal_with_gradients(edge_softmax(edges, logits), exponentials / totals[left], [right_vectors])


def test_edge_softmax_of_huge_logits_is_finite():
    edges = EdgeIndex.of(np.array([0, 0, 2]), np.array([0, 1, 1]), (3, 2))
    assert edge_softmax(edges, torch.tensor([1e30, 1e30, -1e30])).tolist() == [0.5, 0.5, 1.0]


@given(cases())
def test_fixed_sum(case):
    left, right, sizes, weights, _, vectors = case
    fixed_sum = FixedSum(left, right, weights.detach().numpy(), sizes)
    products = vectors[right] * weights.detach()[:, None]
    expected = torch.zeros(sizes[0], 3).index_add(0, torch.from_numpy(left), products)
    assert_equal_with_gradients(fixed_sum(vectors), expected, [vectors])
