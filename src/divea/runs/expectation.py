"""What precision to expect of the mappings, and what that was learned from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from divea.config import Settings
from divea.loop.loop import Outcome


def expected_precision(outcome: Outcome, settings: Settings, seeds: int, threshold: float) -> dict[str, Any]:
    """The expected precision of the mappings with its 90 % interval, and what it was learned from.

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
    }
    if calibration is None:
        return {**learned, "pairs": len(outcome.features), "expected_precision": None, "interval": None}
    confidence = calibration(outcome.features)
    is_kept = confidence >= threshold
    if not is_kept.any():
        return {**learned, "pairs": 0, "expected_precision": None, "interval": None}
    low, high = calibration.interval(outcome.features[is_kept], settings.random_seed)
    return {
        **learned,
        "pairs": int(is_kept.sum()),
        "expected_precision": round(float(confidence[is_kept].mean()), 6),
        "interval": [round(low, 6), round(high, 6)],
    }


def _method(outcome: Outcome, folds: int) -> str:
    if outcome.without_seeds:
        return "sure pairs and decoys"
    return "cross-validation" if folds else "held-back seeds"


def expectation(expected: dict[str, Any]) -> str:
    """One line for the user.

    >>> found = {"pairs": 90, "expected_precision": 0.951, "interval": [0.9, 0.98], "judged_pairs": 64}
    >>> expectation({**found, "method": "cross-validation", "folds": 5, "seeds": 30})
    '90 pairs, of which 95 % should be correct (90 to 98 %; cross-validation with 30 seeds, 64 judged pairs)'
    """
    low, high = expected["interval"]
    share = 100 * expected["expected_precision"]
    source = f"{expected['method']} with {expected['seeds']} seeds, {expected['judged_pairs']} judged pairs"
    return (
        f"{expected['pairs']} pairs, of which {share:.0f} % should be correct "
        f"({100 * low:.0f} to {100 * high:.0f} %; {source})"
    )


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write as JSON; the same content gives the same bytes."""
    path.write_text(json.dumps(content, indent=2) + "\n")
