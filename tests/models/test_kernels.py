"""The Triton kernels against their twins in plain torch.

They need a GPU, or Triton itself and its interpreter: TRITON_INTERPRET=1 pytest tests/models/test_kernels.py
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
    """Rows cut as on a GPU, into pieces of three; kernels wherever vectors are of single precision."""
    patch = pytest.MonkeyPatch()
    plain_init = aggregation.Rows.__init__

    def init(self, starts, columns, size, order=None):
        plain_init(self, starts, columns, size, order)
        self._pieces = aggregation._cut(starts.long(), len(columns))

    patch.setattr(aggregation, "LONGEST_ROW", 3)
    patch.setattr(aggregation.Rows, "__init__", init)
    if INTERPRETED:
        patch.setattr(kernels, "serve", lambda vectors: vectors.dtype == torch.float32)
    yield
    patch.undo()


@st.composite
def cases(draw):
    """Pairs of rows (any order, repeated ones included), a weight each, and vectors of any width."""
    count, width = draw(st.integers(1, 7)), draw(st.sampled_from([1, 3, 100, 128, 300]))
    pairs = draw(st.lists(st.tuples(*2 * [st.integers(0, count - 1)]), max_size=20))
    left, right = torch.tensor(pairs, dtype=torch.long, device=DEVICE).reshape(-1, 2).T
    generator = torch.Generator().manual_seed(draw(st.integers(0, 999)))
    # Small whole numbers: sums are exact, and some numbers are equal.
    vectors = torch.randint(-3, 4, (count, width), generator=generator).float().to(DEVICE)
    weights = torch.randint(-3, 4, (len(left),), generator=generator).float().to(DEVICE)
    return left, right, weights, vectors


@settings(max_examples=30, deadline=None)
@given(cases())
def test_same_numbers_as_plain_torch(case):
    left, right, weights, vectors = case
    assert kernels.serve(vectors)
    size = (len(vectors), len(vectors))
    edges = EdgeIndex.of(left, right, size, DEVICE)
    summed = torch.zeros_like(vectors).index_add(0, left, weights[:, None] * vectors[right])
    assert torch.equal(edges.by_left.product(weights, vectors), summed)
    assert torch.equal(edges.dot(vectors, vectors), (vectors[left] * vectors[right]).sum(dim=1))
    rows = vectors.clone().requires_grad_()
    distances = (rows[left] - rows[right]).abs().sum(dim=1)
    assert torch.equal(l1_distances(vectors, left, right), distances)
    (gradient,) = torch.autograd.grad((distances * weights).sum(), rows)
    assert torch.equal(l1_gradient(vectors, left, right, weights), gradient)


def test_double_precision_is_left_to_torch():
    assert not kernels.serve(torch.zeros(1, 1, dtype=torch.float64, device=DEVICE))
