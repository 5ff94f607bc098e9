"""True precision and recall over confidence thresholds, to be compared with what a run expects."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from divea.evaluation.alignment import is_correct
from divea.graphs import Links

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrueCurve:
    """Figures of the pairs above each threshold."""

    pairs: npt.NDArray[np.int64]
    precision: Numbers
    """Precision by ends, which confidence predicts; NaN if no pair above the threshold can be judged."""
    recall: Numbers
    """The share of the gold links."""


def true_curve(assigned: Links, confidence: Numbers, gold: Links, thresholds: Numbers) -> TrueCurve:
    """Compare the assigned pairs above each threshold with gold links.

    Parameters
    ----------
    confidence
        The confidence of each assigned pair.

    Examples
    --------
    >>> assigned, gold = Links.from_pairs([(0, 0), (1, 2)]), Links.from_pairs([(0, 0), (1, 1)])
    >>> curve = true_curve(assigned, np.array([0.9, 0.4]), gold, np.array([0.0, 0.5]))
    >>> curve.pairs.tolist(), curve.precision.round(2).tolist(), curve.recall.tolist()
    ([2, 1], [0.67, 1.0], [0.5, 0.5])
    """
    order = np.argsort(-confidence, kind="stable")
    ends = np.isin(assigned.source, gold.source).astype(np.int64) + np.isin(assigned.target, gold.target)
    ends_so_far = np.concatenate([[0], np.cumsum(ends[order])])
    correct_so_far = np.concatenate([[0], np.cumsum(is_correct(assigned, gold)[order])])
    kept = np.searchsorted(-confidence[order], -thresholds, side="right")
    with np.errstate(invalid="ignore"):
        precision = 2 * correct_so_far[kept] / ends_so_far[kept]
    return TrueCurve(kept, precision, correct_so_far[kept] / max(len(gold), 1))
