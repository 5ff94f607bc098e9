"""Writes the result of a run: its tables, and what their confidence was computed from."""

from __future__ import annotations

from typing import Any

import numpy as np

from divea.config import Settings
from divea.errors import CalibrationError
from divea.graphs.storage import StoredTask
from divea.loop.confidence import threshold_for
from divea.loop.lists import Blocks
from divea.loop.loop import Outcome
from divea.runs.directory import INCOMPLETE, RunDirectory
from divea.runs.evidence import write_evidence
from divea.runs.expectation import expectation, expected_figures, no_expectation, write_json
from divea.runs.layout import CALIBRATION, DIVISION, EVIDENCE, FEATURES, MAPPINGS, MAPPINGS_TSV, RANKED
from divea.runs.log import Log
from divea.runs.tables import (
    mappings_table,
    tsv_problem,
    write_mappings_parquet,
    write_mappings_tsv,
    write_ranked,
)

MOST_BELOW = 0.1
"""How far the interval of the expected precision may reach below the precision that was asked for."""

DEFAULT_MIN_CONFIDENCE = 0.5
"""The confidence below which pairs are left out, if no threshold is given."""


def _confidence_threshold(outcome: Outcome, settings: Settings, log: Log) -> float:
    """The confidence below which pairs are left out of the mappings."""
    if outcome.calibration is None:
        return 0.0
    precision, least = settings.confidence.precision, settings.confidence.min_confidence
    if precision is None:
        return DEFAULT_MIN_CONFIDENCE if least is None else least
    threshold = threshold_for(precision, outcome.confidence)
    if np.isinf(threshold):
        log("note", text=f"no pair is certain enough for an expected precision of {precision}")
        return threshold
    log("note", text=f"confidence threshold {threshold:.3f}, for an expected precision of {precision}")
    return threshold


def _refuse_wide_interval(expected: dict[str, Any], settings: Settings) -> None:
    """Raise CalibrationError if the seeds say too little about the precision that was asked for."""
    precision, interval = settings.confidence.precision, expected["interval"]
    if precision is not None and interval is not None and interval[0] < precision - MOST_BELOW:
        raise CalibrationError(
            f"a precision of {precision} cannot be promised: the {expected['judged_pairs']} judged pairs "
            f"say only that it is between {interval[0]:.2f} and {interval[1]:.2f}; add seeds, or leave "
            "the threshold out to get all pairs"
        )


def write_tables(run: RunDirectory, outcome: Outcome, made_from: str, log: Log, blocks: Blocks) -> None:
    """Commit the tables of a run, and log the precision and recall to expect.

    Raises CalibrationError if the precision that the settings ask for cannot be promised.

    Parameters
    ----------
    made_from
        What the tables are made from, for the journal: the identity of the run, or `INCOMPLETE`.
    """
    threshold = _confidence_threshold(outcome, run.manifest.settings, log)
    table = mappings_table(outcome, run.task, threshold)
    settings = run.manifest.settings
    expected = expected_figures(outcome, settings, len(run.task.seeds), threshold)
    _refuse_wide_interval(expected, settings)
    is_calibrated = outcome.calibration is not None
    for line in expectation(expected) if is_calibrated else [no_expectation(expected, settings)]:
        log("note", text=line)
    if made_from == INCOMPLETE:
        # After a failure, no checkpoint keeps the division, and coverage is measured on it.
        run.commit_division(DIVISION, made_from, outcome.division)
    run.commit(CALIBRATION, made_from, lambda path: write_json(expected, path))
    run.commit(FEATURES, made_from, lambda path: write_json(outcome.learned, path))

    run.commit(EVIDENCE, made_from, lambda path: write_evidence(outcome, path))
    stored = StoredTask(run.task, run.task_folder)
    run.commit(RANKED, made_from, lambda path: write_ranked(outcome, stored, path, blocks))
    if problem := tsv_problem(table):
        log("note", text=f"no {MAPPINGS_TSV}: {problem}")
        run.commit_absence(MAPPINGS_TSV, made_from)
    else:
        run.commit(MAPPINGS_TSV, made_from, lambda path: write_mappings_tsv(table, path))
    run.commit(MAPPINGS, made_from, lambda path: write_mappings_parquet(table, path))
