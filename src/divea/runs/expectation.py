"""The expected precision and recall of the mappings, and what they were learned from."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from divea.config import Settings
from divea.loop.confidence import threshold_for
from divea.wording import worded

if TYPE_CHECKING:
    from divea.loop.loop import Outcome

PRECISIONS = (0.9, 0.95, 0.99)
"""The expected precisions for which a run prints thresholds at its end."""

Confidence = npt.NDArray[np.float64]


def expected_figures(outcome: Outcome, settings: Settings, seeds: int, threshold: float) -> dict[str, Any]:
    """The expected precision of the mappings with its 90 % interval, their expected recall, the figures of
    other thresholds, and what all this was learned from.

    Parameters
    ----------
    seeds
        The number of seeds of the task.
    threshold
        The confidence below which pairs are left out of the mappings.
    """
    calibration, folds = outcome.calibration, settings.confidence.folds or 0
    learned = {
        "method": None if calibration is None else _method(outcome, folds),
        "folds": folds,
        "seeds": seeds,
        "judged_pairs": 0 if calibration is None else len(calibration.judged),
        "threshold": threshold if np.isfinite(threshold) else None,
        "assigned_pairs": len(outcome.features),
    }
    if calibration is None:
        unknown = {"expected_precision": None, "expected_recall": None, "interval": None}
        return {**learned, "pairs": len(outcome.features), **unknown, "by_precision": []}
    confidence = calibration(outcome.features)
    is_kept = confidence >= threshold
    interval = None
    if is_kept.any():
        bounds = calibration.interval(outcome.features[is_kept], settings.random_seed)
        interval = [round(bound, 6) for bound in bounds]
    found = figures_above(threshold, confidence)
    return {**learned, **found, "interval": interval, "by_precision": _by_precision(confidence)}


def _method(outcome: Outcome, folds: int) -> str:
    if outcome.without_seeds:
        return "sure pairs and decoys"
    return "cross-validation" if folds else "held-back seeds"


def figures_above(threshold: float, confidence: Confidence) -> dict[str, Any]:
    """The number of pairs with at least this confidence, their expected precision and expected recall.

    The expected recall is the expected number of correct pairs among these, as a share of that among all
    assigned pairs: matches that divea does not find at any threshold do not count.

    Parameters
    ----------
    confidence
        The confidence of every assigned pair.

    Examples
    --------
    >>> figures_above(0.8, np.array([1.0, 0.8, 0.2]))
    {'pairs': 2, 'expected_precision': 0.9, 'expected_recall': 0.9}
    """
    kept = confidence[confidence >= threshold]
    findable = confidence.sum()
    return {
        "pairs": len(kept),
        "expected_precision": round(float(kept.mean()), 6) if len(kept) else None,
        "expected_recall": round(float(kept.sum() / findable), 6) if findable > 0 else None,
    }


def _by_precision(confidence: Confidence) -> list[dict[str, Any]]:
    """The threshold and the figures of each of `PRECISIONS` that can be reached."""
    thresholds = [(precision, threshold_for(precision, confidence)) for precision in PRECISIONS]
    return [
        {"precision": precision, "threshold": threshold, **figures_above(threshold, confidence)}
        for precision, threshold in thresholds
        if np.isfinite(threshold)
    ]


def expectation(expected: dict[str, Any]) -> list[str]:
    """Lines for the user on what to expect of the mappings, and of other thresholds.

    >>> other = {"precision": 0.9, "threshold": 0.3, "pairs": 104, "expected_recall": 0.971}
    >>> found = {"pairs": 90, "assigned_pairs": 120, "expected_precision": 0.951, "expected_recall": 0.88}
    >>> learned = {"method": "cross-validation", "seeds": 30, "judged_pairs": 64}
    >>> lines = expectation({**found, **learned, "interval": [0.9, 0.98], "by_precision": [other]})
    >>> for part in lines[0].split(", expected"):
    ...     print(part)
    90 pairs: expected precision 95.1 % (the share that is correct; 90.0 to 98.0 %)
     recall 88.0 % (the share of the findable matches); from cross-validation with 30 seeds, 64 judged pairs
    >>> lines[1].partition(";")[0]
    'other thresholds: precision 90 % with 104 pairs (recall 97.1 %), 95 and 99 % cannot be reached'
    """
    if not expected["assigned_pairs"]:
        return ["0 pairs: no entity was assigned a target"]
    first = f"0 pairs: none of the {expected['assigned_pairs']} assigned pairs is confident enough"
    if expected["pairs"]:
        low, high = expected["interval"]
        first = (
            f"{expected['pairs']} pairs: expected precision {percent(expected['expected_precision'])} "
            f"(the share that is correct; {100 * low:.1f} to {percent(high)}), "
            f"expected recall {percent(expected['expected_recall'])} (the share of the findable matches); "
            f"from {expected['method']} with {expected['seeds']} seeds, "
            f"{expected['judged_pairs']} judged pairs"
        )
    return [first, _other_thresholds(expected["by_precision"], expected["assigned_pairs"])]


def _other_thresholds(reached: list[dict[str, Any]], assigned: int) -> str:
    """A line with the pairs and the recall of each of `PRECISIONS`."""
    if not reached:
        return f"other thresholds: none gives an expected precision of {_listed(PRECISIONS)}"
    if reached[-1]["precision"] == PRECISIONS[-1] and reached[-1]["pairs"] == assigned:
        most = f"an expected precision of {_listed(PRECISIONS[-1:])} or more"
        return f"other thresholds: even all {assigned} assigned pairs together have {most}"
    parts = []
    # Several precisions are given together if the same pairs reach them.
    for pairs, same in groupby(reached, key=lambda item: item["pairs"]):
        group = list(same)
        which = f"all {pairs}" if pairs == assigned else str(pairs)
        precisions = _listed([item["precision"] for item in group])
        parts.append(f"{precisions} with {which} pairs (recall {percent(group[0]['expected_recall'])})")
    known = [item["precision"] for item in reached]
    if missing := [precision for precision in PRECISIONS if precision not in known]:
        parts.append(f"{_listed(missing)} cannot be reached")
    export = worded(command="`divea export RUN --precision P`", python="Alignment.export(path, precision=P)")
    return f"other thresholds: precision {', '.join(parts)}; {export} writes them"


def _listed(shares: tuple[float, ...] | list[float]) -> str:
    """Shares as per cents in words, such as "90, 95 and 99 %"."""
    texts = [f"{100 * share:.0f}" for share in shares]
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts) + " %"


def percent(share: float) -> str:
    """A share as text.

    >>> percent(0.9514)
    '95.1 %'
    """
    return f"{100 * share:.1f} %"


def no_expectation(expected: dict[str, Any], settings: Settings) -> str:
    """Why there is no confidence, and so no expected precision and recall, in one line."""
    confidence = settings.confidence
    if not expected["seeds"]:
        reason = "there are no seeds to calibrate it on"
    elif not (settings.calibrates or confidence.folds):
        reason = "no seeds are held back to calibrate it on"
        reason += " (iterations is 1)" if settings.iterations == 1 else " (confidence.held_back is 0)"
    else:
        reason = "too few seeds to calibrate it on"
    if settings.features.used:
        reason += (
            ", and either too few pairs are certain from names and attribute values, or structure does not "
            "confirm them"
        )
    written = f"all {expected['pairs']} pairs are written, and how many of them are correct is not known"
    return f"no confidence: {reason}; {written}"


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write as JSON; the same content gives the same bytes."""
    path.write_text(json.dumps(content, indent=2) + "\n")
