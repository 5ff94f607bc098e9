"""The logistic regression of more examples than are multiplied at once."""

import subprocess
import sys

import numpy as np
import pytest

from divea.features.regression import RIDGE, fit_logistic, refit_logistic

FITS = """
import numpy as np
from divea.features.regression import fit_logistic, refit_logistic
rng = np.random.default_rng(0)
features, is_correct, counts = rng.random((31_000, 5)), rng.random(31_000) < 0.4, rng.random(31_000)
found = fit_logistic(features, is_correct, counts)
again = refit_logistic(features, is_correct, counts**2, found)
print([number.hex() for weights, intercept in (found, again) for number in [*weights.tolist(), intercept]])
"""


def test_fits_do_not_depend_on_the_number_of_cores():
    """BLAS splits the sum of so many products among its threads, which changes the last bits."""
    found = set()
    for threads in ("1", "2", "3"):
        environment = {"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", FITS], capture_output=True, text=True, check=True, env=environment
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


@pytest.mark.parametrize("share", [0.4, 0.0, 1.0])
def test_a_refit_finds_what_a_fit_from_the_start_finds(share):
    """Also if all examples agree, so that the intercept has no bounds."""
    rng = np.random.default_rng(2)
    features, is_correct = rng.normal(size=(3000, 4)), (rng.random(3000) < share).astype(float)
    first = fit_logistic(features, is_correct, np.ones(3000))
    counts = rng.exponential(size=3000)
    weights, intercept = refit_logistic(features, is_correct, counts, first)
    expected, expected_intercept = fit_logistic(features, is_correct, counts)
    found, wanted = (
        1 / (1 + np.exp(-features @ one - other))
        for one, other in ((weights, intercept), (expected, expected_intercept))
    )
    assert np.abs(found - wanted).max() < 1e-3


def test_a_refit_is_right_where_newtons_method_diverges():
    """Rare large values almost separate the classes."""
    rng = np.random.default_rng(0)
    diverged = 0
    for _ in range(60):
        is_large = rng.random((60, 6)) < 0.03
        features = np.where(is_large, 8, 1) * rng.normal(size=(60, 6))
        features = (features - features.mean(axis=0)) / features.std(axis=0)
        logits = 3 + 2 * features[:, 0] + 1.5 * features[:, 1]
        is_correct = (rng.random(60) < 1 / (1 + np.exp(-logits))).astype(float)
        counts = rng.exponential(size=60)
        expected = fit_logistic(features, is_correct, counts)
        with np.errstate(over="ignore"):
            found = refit_logistic(features, is_correct, counts, (-5 * expected[0], expected[1]))
            diverged += np.array_equal(found[0], expected[0])
            data = features, is_correct, counts
            assert _loss(found, *data) < _loss(expected, *data) + 0.01
    assert diverged  # otherwise nothing was tested


def _loss(found, features, is_correct, counts):
    logits = features @ found[0] + found[1]
    loss = counts * (np.logaddexp(0, logits) - is_correct * logits)
    return loss.sum() + RIDGE / 2 * (found[0] ** 2).sum()
