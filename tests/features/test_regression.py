"""The logistic regression of more examples than are summed at once."""

import subprocess
import sys

import numpy as np

from divea.features.regression import RIDGE, fit_logistic

SUM = """
import numpy as np
from divea.features.regression import _dot
first, second = np.random.default_rng(0).random((2, 31_000))
print(_dot(first, second).hex())
"""


def test_sums_do_not_depend_on_the_number_of_cores():
    """BLAS splits the sum of so many products among its threads, which changes the last bits."""
    found = set()
    for threads in ("1", "2", "3"):
        environment = {"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", SUM], capture_output=True, text=True, check=True, env=environment
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_the_slope_of_the_loss_is_zero_at_the_fit():
    rng = np.random.default_rng(1)
    features, counts = rng.normal(size=(21_000, 2)), rng.random(21_000)
    is_correct = (rng.random(21_000) < 1 / (1 + np.exp(-features[:, 0] - 1))).astype(float)
    weights, intercept = fit_logistic(features, is_correct, counts)
    error = counts * (1 / (1 + np.exp(-features @ weights - intercept)) - is_correct)
    assert np.abs(error @ features + RIDGE * weights).max() < 1
    assert abs(error.sum()) < 1
    assert weights.round(1).tolist() == [1.0, 0.0]
