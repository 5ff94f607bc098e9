"""Figures from ranks and from predictions; a link whose target was not to be found is a miss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from divea.errors import InputError
from divea.evaluation.ranking import Ranks
from divea.graphs import Links

if TYPE_CHECKING:
    from divea.types import Matches


@dataclass(frozen=True)
class RankMetrics:
    """How well the true targets are ranked.

    Every mean is over all links, uncovered ones included as 0, but for `mean_rank`, which has
    no meaning for a target that is nowhere: it is over the ranked links and NaN if there are none.

    >>> RankMetrics.of([1, 2, 0, 4])
    RankMetrics(links=4, coverage=0.75, h1=0.25, h5=0.75, h10=0.75, mrr=0.4375, mean_rank=2.3333333333333335)
    """

    links: int
    coverage: float
    h1: float
    h5: float
    h10: float
    mrr: float
    mean_rank: float

    @classmethod
    def of(cls, ranks: Ranks | list[int]) -> RankMetrics:
        """Metrics of 1-based ranks, 0 for a link whose target was not ranked."""
        found = np.asarray(ranks, dtype=np.int64)
        count = len(found)
        ranked = found[found > 0]
        if not count:
            nothing = float("nan")
            return cls(0, nothing, nothing, nothing, nothing, nothing, nothing)
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
class PairMetrics:
    """How good the pairs are that were predicted with at least some score."""

    predicted: int
    correct: int
    precision: float
    recall: float
    f1: float


def pair_metrics(matches: Matches, gold: Links, threshold: float = -np.inf) -> PairMetrics:
    """Precision, recall and F1 of every source's best target whose score reaches the threshold.

    A prediction for a source that has no gold link is wrong: where entities without counterpart
    exist, saying nothing is the right answer. Precision of no prediction is 0.

    >>> from divea.types import Matches
    >>> matches = Matches(np.array([0, 1]), np.array([[4], [5]]), np.float32([[.9], [.2]]), np.ones(2, bool))
    >>> pair_metrics(matches, Links.from_pairs([(0, 4), (1, 6)]), threshold=.5)
    PairMetrics(predicted=1, correct=1, precision=1.0, recall=0.5, f1=0.6666666666666666)
    """
    kept = matches.best >= 0
    kept[kept] = matches.score[kept, 0] >= threshold
    pairs = {(int(s), int(t)) for s, t in zip(matches.source[kept], matches.best[kept], strict=True)}
    correct = len(pairs & {(int(s), int(t)) for s, t in gold.pairs})
    precision = correct / len(pairs) if pairs else 0.0
    recall = correct / len(gold) if len(gold) else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    return PairMetrics(len(pairs), correct, precision, recall, f1)


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
