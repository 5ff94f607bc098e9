"""Confidence: what a score means, learned on seeds that were held back.

Seeds that an iteration did not know are treated there like any other entity. Of the pairs that it then
predicts, those with an end in a held-back seed can be judged: they are the seed itself, or wrong. The share
of right ones rises with the score; that rise, fitted as steps (isotonic regression), turns a score into the
probability of being right. What precision all pairs above a threshold have together follows from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import Ids

LEAST = 30
"""Judged pairs below which no calibration is given: a share of fewer says little."""

_SALT = 0xCA11B


@dataclass(frozen=True)
class Calibration:
    """A rising line through (score, probability of being right)."""

    scores: npt.NDArray[np.float64]
    probabilities: npt.NDArray[np.float64]
    judged: npt.NDArray[np.float64]
    """The scores that it was fitted to."""

    def __call__(self, scores: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The confidence of pairs with these scores."""
        return np.interp(np.asarray(scores, dtype=np.float64), self.scores, self.probabilities)

    def confidence_for(self, precision: float) -> float:
        """The least confidence at which the pairs that are at least so sure have this precision together.

        It is lower than the precision itself, because most of the pairs above it are surer. 1 where no
        pair is sure enough.
        """
        sure = np.sort(self(self.judged))[::-1]
        # Where each pair is right with its confidence, their running mean is the precision.
        enough = np.flatnonzero(np.cumsum(sure) >= precision * np.arange(1, len(sure) + 1))
        return float(sure[enough[-1]]) if len(enough) else 1.0


def hold_back(task: AlignmentTask, share: float, seed: int = 0) -> tuple[AlignmentTask, Links]:
    """The task without a random share of its seeds, and those seeds."""
    count = round(share * len(task.seeds))
    drawn = np.random.default_rng([seed, _SALT]).permutation(len(task.seeds))
    pairs = task.seeds.pairs
    kept, held = Links.from_pairs(pairs[drawn[count:]]), Links.from_pairs(pairs[drawn[:count]])
    return AlignmentTask(task.source, task.target, kept), held


def calibrate(source: Ids, target: Ids, score: npt.ArrayLike, held: Links) -> Calibration | None:
    """Fit confidence to predicted pairs; None where too few of them can be judged.

    >>> held = Links.from_pairs([(i, i) for i in range(100)])
    >>> ids = np.arange(100, dtype=np.int32)
    >>> line = calibrate(ids, np.where(ids < 50, ids, 99), ids < 50, held)
    >>> line([0.0, 1.0]).round(1).tolist()
    [0.0, 1.0]
    """
    from scipy.optimize import isotonic_regression

    values = np.asarray(score, dtype=np.float64)
    judged = (np.isin(source, held.source) | np.isin(target, held.target)) & np.isfinite(values)
    if judged.sum() < LEAST:
        return None
    match = dict(zip(held.source.tolist(), held.target.tolist(), strict=True))
    expected = np.array([match.get(entity, -1) for entity in source[judged].tolist()])
    right = (expected == target[judged]).astype(np.float64)
    order = np.argsort(values[judged], kind="stable")
    scores, right = values[judged][order], right[order]
    # Equal scores share one value, whatever order they came in.
    level, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean = np.bincount(at, right) / counts
    fitted = isotonic_regression(mean, weights=counts).x
    return _through_steps(level, fitted, counts, scores)


def _through_steps(
    level: npt.NDArray[np.float64],
    fitted: npt.NDArray[np.float64],
    counts: npt.NDArray[np.int64],
    judged: npt.NDArray[np.float64],
) -> Calibration:
    """A line through the middle of each step: pairs within a step are not equally sure."""
    starts = np.flatnonzero(np.diff(fitted, prepend=-1.0) > 0)
    weight = np.add.reduceat(counts, starts)
    middle = np.add.reduceat(level * counts, starts) / weight
    # A step of a few pairs that all are right is no proof of certainty: one right and one wrong pair more.
    value = (fitted[starts] * weight + 1) / (weight + 2)
    return Calibration(middle, np.maximum.accumulate(value), judged)
