"""Whether one method beats another over several splits or seeds by more than chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from divea.errors import InputError


@dataclass(frozen=True)
class PairedTest:
    """The outcome of a paired two-tailed t-test."""

    difference: float
    """Mean of the first less the second."""
    t: float
    p: float


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike) -> PairedTest:
    """Compare two methods run on the same splits or seeds, one figure each per run.

    Equal figures in every run give p = 1; a difference that is the same in every run gives p = 0.

    >>> outcome = paired_t_test([.70, .72, .71], [.65, .66, .67])
    >>> round(outcome.difference, 3), round(outcome.t, 3), round(outcome.p, 4)
    (0.05, 8.66, 0.0131)
    """
    from scipy.stats import ttest_rel

    left, right = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if left.shape != right.shape or left.ndim != 1 or len(left) < 2:
        raise InputError("a paired test needs two lists of the same length, of at least two runs")
    differences = left - right
    mean = float(differences.mean())
    if np.ptp(differences) < 1e-12:
        # No spread: t is undefined or infinite, and scipy answers NaN with a warning.
        same = abs(mean) < 1e-12
        return PairedTest(mean, 0.0 if same else float(np.copysign(np.inf, mean)), 1.0 if same else 0.0)
    outcome = ttest_rel(left, right)
    return PairedTest(mean, float(outcome.statistic), float(outcome.pvalue))
