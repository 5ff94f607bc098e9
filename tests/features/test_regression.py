"""The logistic regression: the same fit whatever the number of cores."""

import json
import subprocess
import sys

import numpy as np

from divea.features.regression import RIDGE, fit_logistic

FIT = """
import json
import numpy as np
from divea.features.regression import fit_logistic
rng = np.random.default_rng(0)
features, correct = rng.normal(size=(25_000, 3)), (rng.random(25_000) < 0.7) * 1.0
weights, intercept = fit_logistic(features, correct, rng.random(25_000))
print(json.dumps([*weights.tolist(), intercept]))
"""


def test_the_fit_does_not_depend_on_the_number_of_cores():
    """BLAS would split the sum over 25,000 examples among its threads, with other last bits."""
    found = []
    for threads in ("1", "3"):
        done = subprocess.run(
            [sys.executable, "-c", FIT],
            capture_output=True,
            text=True,
            check=True,
            env={"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)},
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]


def test_the_fit_is_where_the_slope_of_the_loss_is_zero():
    """With more examples than are summed at once."""
    rng = np.random.default_rng(1)
    features, counts = rng.normal(size=(21_000, 2)), rng.random(21_000)
    is_correct = (rng.random(21_000) < 1 / (1 + np.exp(-features[:, 0] - 1))).astype(float)
    weights, intercept = fit_logistic(features, is_correct, counts)
    error = counts * (1 / (1 + np.exp(-features @ weights - intercept)) - is_correct)
    assert np.abs(error @ features + RIDGE * weights).max() < 1
    assert abs(error.sum()) < 1
    assert weights.round(1).tolist() == [1.0, 0.0]
