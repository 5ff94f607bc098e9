"""The Triton kernels compute the same as their counterparts in plain torch.

The tests need Triton, and a GPU or the interpreter: TRITON_INTERPRET=1 pytest tests/models/test_kernels.py
"""

import os

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.models import aggregation, kernels
from divea.models.aggregation import EdgeIndex
from divea.models.losses import l1_distances, l1_gradient

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.skipif(
    kernels.triton is None or not (torch.cuda.is_available() or INTERPRETED), reason="no Triton and no GPU"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True, scope="module")
def kernels_on_any_device():
    """Cuts rows as on a GPU, into pieces of three, and uses kernels for all single-precision vectors."""
    patch = pytest.MonkeyPatch()
    init_of_device = aggregation.SparsePattern.__init__

    def init(self, starts, columns, size, order=None):
        init_of_device(self, starts, columns, size, order)
        self._pieces = aggregation._cut_rows(starts.long(), len(columns))

    patch.setattr(aggregation, "LONGEST_PIECE", 3)
    patch.setattr(aggregation.SparsePattern, "__init__", init)
    if INTERPRETED:
        patch.setattr(kernels, "is_supported", lambda vectors: vectors.dtype == torch.float32)
    yield
    patch.undo()


@st.composite
def cases(draw):
    """Pairs of rows in any order, with repetitions, a weight for each pair, and vectors of some width."""
    count, width = draw(st.integers(1, 7)), draw(st.sampled_from([1, 3, 100, 128, 300]))
    pairs = draw(st.lists(st.tuples(*2 * [st.integers(0, count - 1)]), max_size=20))
    left, right = torch.tensor(pairs, dtype=torch.long, device=DEVICE).reshape(-1, 2).T
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    # Small whole numbers, so that sums are exact and some numbers are equal.
    vectors = torch.randint(-3, 4, (count, width), generator=generator).float().to(DEVICE)
    weights = torch.randint(-3, 4, (len(left),), generator=generator).float().to(DEVICE)
    return left, right, weights, vectors


@settings(max_examples=30, deadline=None)
@given(cases())
def test_kernels_give_the_same_bits_as_plain_torch(case):
    left, right, weights, vectors = case
    assert kernels.is_supported(vectors)
    size = (len(vectors), len(vectors))
    edges = EdgeIndex.of(left, right, size, DEVICE)
    sums = torch.zeros_like(vectors).index_add(0, left, weights[:, None] * vectors[right])
    assert torch.equal(edges.by_left.product(weights, vectors), sums)
    assert torch.equal(edges.dot(vectors, vectors), (vectors[left] * vectors[right]).sum(dim=1))
    rows = vectors.clone().requires_grad_()
    distances = (rows[left] - rows[right]).abs().sum(dim=1)
    assert torch.equal(l1_distances(vectors, left, right), distances)
    (gradient,) = torch.autograd.grad((distances * weights).sum(), rows)
    assert torch.equal(l1_gradient(vectors, left, right, weights), gradient)


@settings(max_examples=30, deadline=None)
@given(cases(), st.integers(1, 5))
def test_heads_at_once_give_the_same_bits_as_one_after_the_other(case, heads):
    left, right, _, vectors = case
    edges = EdgeIndex.of(left, right, (len(vectors), len(vectors)), DEVICE)
    generator = torch.Generator().manual_seed(len(left))
    weights = torch.randn(4, heads, generator=generator).to(DEVICE)
    kinds = torch.randint(4, (len(left),), generator=generator).to(DEVICE)
    of_heads = [vectors + head / 7 for head in range(heads)]
    together = edges.by_left.head_products(kinds, weights, torch.cat(of_heads, dim=1))
    alone = [edges.by_left.product(weights[kinds, head], own) for head, own in enumerate(of_heads)]
    assert torch.equal(together, torch.cat(alone, dim=1))


def test_kernels_do_not_support_double_precision():
    assert not kernels.is_supported(torch.zeros(1, 1, dtype=torch.float64, device=DEVICE))
