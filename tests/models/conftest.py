"""Fixtures that several tests of models use."""

import pytest
import torch


@pytest.fixture
def double_precision():
    """Tests that compare training results need tiny rounding errors.

    Optimisers amplify them: a gradient of 1e-12 is a full step of RMSprop.
    """
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
