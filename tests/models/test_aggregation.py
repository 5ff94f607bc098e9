"""Sparse sums, forward and backward, against plain gather and scatter."""

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
    """Edges (any order, repeated ones included), weights, and vectors at both ends."""
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


def agree(ours, plain, leaves):
    """Same values, and same gradients of a function that weighs every entry differently."""
    assert torch.allclose(ours, plain, atol=1e-5)
    if not ours.numel():
        return
    probe = torch.linspace(-1, 2, ours.numel()).view_as(ours)
    for mine, theirs in zip(
        torch.autograd.grad((ours * probe).sum(), leaves, allow_unused=True),
        torch.autograd.grad((plain * probe).sum(), leaves, allow_unused=True),
        strict=True,
    ):
        if theirs is not None and mine is not None:
            assert torch.allclose(mine, theirs, atol=1e-4)
        else:
            assert mine is None or not mine.any()


@pytest.fixture(params=[False, True], ids=["whole rows", "rows in pieces"], scope="module", autouse=True)
def cut_rows(request):
    """Everything twice: as on a CPU, and with rows cut as on a GPU, here into pieces of two."""
    patch = pytest.MonkeyPatch()
    if request.param:
        patch.setattr(aggregation, "LONGEST_ROW", 2)
        plain_init = aggregation.Rows.__init__

        def init(self, starts, columns, size, order=None):
            plain_init(self, starts, columns, size, order)
            self._pieces = aggregation._cut(starts.long(), len(columns))

        patch.setattr(aggregation.Rows, "__init__", init)
    yield
    patch.undo()


@given(cases())
def test_weighted_sum(case):
    left, right, sizes, weights, _, vectors = case
    ours = weighted_sum(EdgeIndex.of(left, right, sizes), weights, vectors)
    plain = torch.zeros(sizes[0], 3).index_add(0, torch.from_numpy(left), vectors[right] * weights[:, None])
    agree(ours, plain, [weights, vectors])


@given(cases())
def test_edge_dot(case):
    left, right, sizes, _, heads, tails = case
    agree(
        edge_dot(EdgeIndex.of(left, right, sizes), heads, tails),
        (heads[left] * tails[right]).sum(dim=1),
        [heads, tails],
    )


@given(cases())
def test_edge_softmax_and_ends(case):
    left, right, sizes, logits, _, tails = case
    edges = EdgeIndex.of(left, right, sizes)
    logits = logits + at_right(edges, tails[:, 0])
    shares = edge_softmax(edges, logits)
    exponents = logits.exp()
    totals = torch.zeros(sizes[0]).index_add(0, torch.from_numpy(left), exponents)
    agree(shares, exponents / totals[left], [tails])


def test_softmax_of_huge_logits_is_finite():
    edges = EdgeIndex.of(np.array([0, 0, 2]), np.array([0, 1, 1]), (3, 2))
    assert edge_softmax(edges, torch.tensor([1e30, 1e30, -1e30])).tolist() == [0.5, 0.5, 1.0]


@given(cases())
def test_fixed_sum(case):
    left, right, sizes, weights, _, vectors = case
    total = FixedSum(left, right, weights.detach().numpy(), sizes)
    plain = torch.zeros(sizes[0], 3).index_add(
        0, torch.from_numpy(left), vectors[right] * weights.detach()[:, None]
    )
    agree(total(vectors), plain, [vectors])
