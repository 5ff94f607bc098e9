"""A ridge logistic regression with weighted rows: of property comparisons, and of confidence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

RIDGE = 1.0
"""L2 penalty on the coefficients."""

_MOST_AT_ONCE = 10_000

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
        How much each example counts.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(coefficients: Numbers) -> tuple[float, Numbers]:
        weights, intercept = coefficients[:-1], coefficients[-1]
        logits = features @ weights + intercept
        value = _dot(counts, np.logaddexp(0, logits) - is_correct * logits) + RIDGE / 2 * weights @ weights
        slope = counts * (expit(logits) - is_correct)
        return float(value), np.append(slope @ features + RIDGE * weights, slope.sum())

    found = minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1], float(found[-1])


def _dot(first: Numbers, second: Numbers) -> float:
    """The dot product, in pieces that BLAS does not split.

    BLAS divides a longer one among as many threads as there are cores. The last bits then depend on their
    number, and waiting for busy cores takes a thousand times as long as the product.
    """
    starts = range(0, len(first), _MOST_AT_ONCE)
    return sum(float(first[i : i + _MOST_AT_ONCE] @ second[i : i + _MOST_AT_ONCE]) for i in starts)
