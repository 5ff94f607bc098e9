"""The tables of a run, row by row, against the outcome of the loop."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from divea.division import Whole
from divea.graphs.storage import StoredTask
from divea.loop.assignment import assign
from divea.loop.lists import Lists, rank
from divea.loop.loop import Outcome
from divea.runs.tables import mappings_table, write_ranked
from divea.types import Matches
from tests.runs.tiny import PAIR

NAN = float("nan")
STORED = StoredTask(PAIR.task, Path("not on the disk"))


def outcome(confidence):
    """Four sources: assigned their first target, their second one, none of their list, and without a list."""
    first = Matches(
        np.int32([3, 9]),
        np.int32([[10, 11], [-1, -1]]),
        np.float32([[0.9, 0.5], [-np.inf, -np.inf]]),
        np.array([True, False]),
    )
    second = Matches(
        np.int32([5, 8]),
        np.int32([[10, 12, 13], [10, -1, -1]]),
        np.float32([[0.8, 0.7, 0.1], [0.4, -np.inf, -np.inf]]),
        np.array([False, False]),
    )
    return outcome_of([first, second], np.array(confidence))


def outcome_of(found, confidence):
    ranking = rank(Lists.of(found))
    assignment = assign(ranking, one_to_one=True)
    return Outcome(
        ranking=ranking,
        assignment=assignment,
        confidence=confidence,
        calibration=None,
        features=np.zeros((len(assignment), 6)),
        columns=(),
        iterations=2,
        division=Whole().divide(PAIR.task),
    )


def rows(table):
    """The rows, with entities as ids, which are easier to read here."""
    source = PAIR.task.source.find(table["source"]).tolist()
    target = PAIR.task.target.find(table["target"]).tolist()
    rest = table.drop_columns(["source", "target"]).to_pylist()
    return [[s, t, *row.values()] for s, t, row in zip(source, target, rest, strict=True)]


def approximately(values):
    return [pytest.approx(value) if isinstance(value, float) else value for value in values]


CALIBRATED = [0.95, 0.7]


def test_mappings_hold_the_assigned_pairs():
    # source, target, score, confidence, rank, margin, mutual, subtask, iteration
    assert rows(mappings_table(outcome(CALIBRATED), PAIR.task, 0.5)) == [
        approximately([3, 10, 0.9, 0.95, 1, 0.4, True, 0, 2]),
        approximately([5, 12, 0.7, 0.7, 2, -0.1, False, 1, 2]),
    ]


@pytest.mark.parametrize(("min_confidence", "pairs"), [(0.0, 2), (0.7, 2), (0.8, 1), (1.0, 0)])
def test_pairs_below_the_confidence_threshold_are_left_out(min_confidence, pairs):
    assert len(mappings_table(outcome(CALIBRATED), PAIR.task, min_confidence)) == pairs


def test_no_pair_is_left_out_if_confidence_was_not_calibrated():
    table = mappings_table(outcome(np.full(2, NAN)), PAIR.task, 1.0)
    assert len(table) == 2
    assert table["confidence"].null_count == 2


def test_ranked_lists_hold_every_place(tmp_path):
    write_ranked(outcome(CALIBRATED), STORED, tmp_path / "ranked.parquet")
    # source, target, rank, score, confidence, subtask, given
    assert rows(pq.read_table(tmp_path / "ranked.parquet")) == [
        approximately([3, 10, 1, 0.9, 0.95, 0, True]),
        approximately([3, 11, 2, 0.5, None, 0, False]),
        approximately([5, 10, 1, 0.8, None, 1, False]),
        approximately([5, 12, 2, 0.7, 0.7, 1, True]),
        approximately([5, 13, 3, 0.1, None, 1, False]),
        approximately([8, 10, 1, 0.4, None, 1, False]),
    ]


def no_lists():
    no_ids = np.zeros(0, np.int32)
    return Matches(no_ids, np.zeros((0, 0), np.int32), np.zeros((0, 0), np.float32), np.zeros(0, bool))


@pytest.mark.parametrize("found", [[], [no_lists()]])
def test_tables_of_an_empty_outcome_can_be_written(tmp_path, found):
    empty = outcome_of(found, np.zeros(0))
    assert len(mappings_table(empty, PAIR.task, 0.5)) == 0
    write_ranked(empty, STORED, tmp_path / "ranked.parquet")
    assert len(pq.read_table(tmp_path / "ranked.parquet")) == 0
