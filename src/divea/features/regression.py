"""A ridge logistic regression with weighted rows, for property comparisons and for confidence."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

RIDGE = 1.0
"""L2 penalty on the coefficients."""

_MOST_AT_ONCE = 8_192
"""The most numbers that are multiplied at once. BLAS divides larger products among one thread per core: their
last bits then depend on the number of cores, and waiting for busy cores takes many times as long as the
product."""

_MOST_STEPS, _PRECISION = 20, 1e-6
"""The most steps of Newton's method, and the change of coefficients below which it ends."""

Numbers = npt.NDArray[np.float64]


def fit_logistic(features: Numbers, is_correct: Numbers, counts: Numbers) -> tuple[Numbers, float]:
    """Weights and intercept of a ridge logistic regression.

    Parameters
    ----------
    features
        One row per example, one column per feature.
    is_correct
        1 or 0 for each example.
    counts
        The weight of each example.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(coefficients: Numbers) -> tuple[float, Numbers]:
        weights, intercept = coefficients[:-1], coefficients[-1]
        logits = weighted_sums(features, weights) + intercept
        value = _dot(counts, np.logaddexp(0, logits) - is_correct * logits) + RIDGE / 2 * weights @ weights
        slope = counts * (expit(logits) - is_correct)
        gradient = sum((slope[rows] @ features[rows] for rows in _pieces(features)), start=RIDGE * weights)
        return float(value), np.append(gradient, slope.sum())

    found = minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1], float(found[-1])


def refit_logistic(
    features: Numbers, is_correct: Numbers, counts: Numbers, start: tuple[Numbers, float]
) -> tuple[Numbers, float]:
    """`fit_logistic` with other counts: a few steps of Newton's method from a nearby solution.

    Newton's method may diverge where the classes are almost separated. `fit_logistic` takes over then.
    """
    from scipy.special import expit

    with_intercept = np.column_stack([features, np.ones(len(features))])
    # The intercept has next to no penalty: enough to keep the system solvable if all examples agree.
    penalty = np.append(np.full(features.shape[1], RIDGE), 1e-9)
    coefficients = np.append(*start)
    for _ in range(_MOST_STEPS):
        probability = expit(weighted_sums(with_intercept, coefficients))
        slope = counts * (probability - is_correct)
        bend = (counts * probability * (1 - probability))[:, None] * with_intercept
        gradient, curvature = penalty * coefficients, np.diag(penalty)
        for rows in _pieces(with_intercept):
            gradient += slope[rows] @ with_intercept[rows]
            curvature += with_intercept[rows].T @ bend[rows]
        step = np.linalg.solve(curvature, gradient)
        coefficients -= step
        if np.abs(step).max() < _PRECISION:
            return coefficients[:-1], float(coefficients[-1])
    return fit_logistic(features, is_correct, counts)


def weighted_sums(features: Numbers, weights: Numbers) -> Numbers:
    """`features @ weights`, with the same bits on any number of cores.

    >>> weighted_sums(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 10.0])).tolist()
    [21.0, 43.0]
    """
    sums = np.empty(len(features))
    for rows in _pieces(features):
        sums[rows] = features[rows] @ weights
    return sums


def _dot(first: Numbers, second: Numbers) -> float:
    return sum(float(first[rows] @ second[rows]) for rows in _pieces(first))


def _pieces(array: Numbers) -> Iterator[slice]:
    """Slices of the rows of an array that hold few enough numbers to be multiplied at once."""
    count = max(_MOST_AT_ONCE // max(array[:1].size, 1), 1)
    for first in range(0, len(array), count):
        yield slice(first, first + count)
