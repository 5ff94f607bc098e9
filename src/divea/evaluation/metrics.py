"""Metrics of ranks (H@k, MRR), and a significance test for two methods."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from divea.errors import InputError
from divea.evaluation.ranking import Ranks


@dataclass(frozen=True)
class RankMetrics:
    """The quality of the ranks of the true targets.

    Every figure is a mean over all links, with 0 for links that were not ranked. The exception is
    `mean_rank`, which is undefined for those: it is the mean over the ranked links, NaN if there are none.

    >>> RankMetrics.of([1, 2, 0, 4])
    RankMetrics(links=4, coverage=0.75, h1=0.25, h5=0.75, h10=0.75, mrr=0.4375, mean_rank=2.3333333333333335)
    """

    links: int
    coverage: float
    """The share of links that were ranked."""
    h1: float
    h5: float
    h10: float
    mrr: float
    mean_rank: float

    @classmethod
    def of(cls, ranks: Ranks | list[int]) -> RankMetrics:
        """The metrics of ranks that start at 1, with 0 for a link that was not ranked."""
        found = np.asarray(ranks, dtype=np.int64)
        count = len(found)
        ranked = found[found > 0]
        if not count:
            nan = float("nan")
            return cls(0, nan, nan, nan, nan, nan, nan)
        return cls(
            links=count,
            coverage=len(ranked) / count,
            h1=float((ranked <= 1).sum() / count),
            h5=float((ranked <= 5).sum() / count),
            h10=float((ranked <= 10).sum() / count),
            mrr=float((1 / ranked).sum() / count),
            mean_rank=float(ranked.mean()) if len(ranked) else float("nan"),
        )


@dataclass(frozen=True)
class PairedTest:
    """The result of a paired two-tailed t-test."""

    difference: float
    """The mean of the first figures minus that of the second."""
    t: float
    p: float


def paired_t_test(first: npt.ArrayLike, second: npt.ArrayLike) -> PairedTest:
    """Compare two methods by one figure per run, on the same splits or random seeds.

    p is 1 if the figures are equal in every run, and 0 if the difference is the same in every run.

    Examples
    --------
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
        # Without spread, t is undefined or infinite, and scipy returns NaN with a warning.
        is_equal = abs(mean) < 1e-12
        t = 0.0 if is_equal else float(np.copysign(np.inf, mean))
        return PairedTest(mean, t, 1.0 if is_equal else 0.0)
    outcome = ttest_rel(left, right)
    return PairedTest(mean, float(outcome.statistic), float(outcome.pvalue))
