"""What tests of models share."""

import pytest
import torch


@pytest.fixture
def double_precision():
    """Optimisers blow rounding up (a gradient of 1e-12 is a full step of RMSprop), so it must be tiny."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
