"""The tables of a run against what the loop gave, row by row."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from divea.alignment.loop import Outcome
from divea.division import Whole
from divea.matching import Matches
from divea.run.tables import mappings_table, write_ranked
from tests.run.tiny import PAIR

NAN = float("nan")


def outcome(confidence):
    """Sources with their first choice, with their second, with nothing left, and without a list."""
    matches = Matches(
        np.int32([3, 5, 8, 9]),
        np.int32([[10, 11, -1], [10, 12, 13], [10, -1, -1], [-1, -1, -1]]),
        np.float32([[0.9, 0.5, -np.inf], [0.8, 0.7, 0.1], [0.4, -np.inf, -np.inf], [-np.inf] * 3]),
        np.array([True, False, False, False]),
    )
    assigned = np.int32([10, 12, -1, -1])
    division = Whole().divide(PAIR.task)
    return Outcome(matches, assigned, np.array(confidence), None, np.int32([0, 1, 1, 0]), 2, division)


def rows(table):
    """With entities as ids, which are easier to read here."""
    source = PAIR.task.source.find(table["source"]).tolist()
    target = PAIR.task.target.find(table["target"]).tolist()
    rest = table.drop_columns(["source", "target"]).to_pylist()
    return [(s, t, *row.values()) for s, t, row in zip(source, target, rest, strict=True)]


def about(values):
    return [pytest.approx(value) if isinstance(value, float) else value for value in values]


def test_mappings_hold_what_was_given_out():
    calibrated = outcome([[0.95, 0.6, NAN], [0.9, 0.7, 0.2], [0.4, NAN, NAN], [NAN] * 3])
    found = rows(mappings_table(calibrated, PAIR.task, 0.5))
    # source, target, score, confidence, rank, margin, mutual, subtask, iteration
    assert [list(row) for row in found] == [
        about([3, 10, 0.9, 0.95, 1, 0.4, True, 0, 2]),
        about([5, 12, 0.7, 0.7, 2, -0.1, False, 1, 2]),
    ]
    assert len(mappings_table(calibrated, PAIR.task, 0.8)) == 1
    assert len(mappings_table(calibrated, PAIR.task, 1.0)) == 0


def test_nothing_is_left_out_where_confidence_is_unknown():
    table = mappings_table(outcome(np.full((4, 3), NAN)), PAIR.task, 1.0)
    assert len(table) == 2 and table["confidence"].null_count == 2


def test_ranked_lists_hold_every_place(tmp_path):
    calibrated = outcome([[0.95, 0.6, NAN], [0.9, 0.7, 0.2], [0.4, NAN, NAN], [NAN] * 3])
    write_ranked(calibrated, PAIR.task, tmp_path / "ranked.parquet")
    found = rows(pq.read_table(tmp_path / "ranked.parquet"))
    # source, target, rank, score, confidence, subtask, given
    assert [list(row) for row in found] == [
        about([3, 10, 1, 0.9, 0.95, 0, True]),
        about([3, 11, 2, 0.5, 0.6, 0, False]),
        about([5, 10, 1, 0.8, 0.9, 1, False]),
        about([5, 12, 2, 0.7, 0.7, 1, True]),
        about([5, 13, 3, 0.1, 0.2, 1, False]),
        about([8, 10, 1, 0.4, 0.4, 1, False]),
    ]


def test_tables_of_nothing_can_be_written(tmp_path):
    nothing = Matches(
        np.zeros(0, np.int32), np.zeros((0, 0), np.int32), np.zeros((0, 0), np.float32), np.zeros(0, bool)
    )
    empty = Outcome(
        nothing,
        np.zeros(0, np.int32),
        np.zeros((0, 0)),
        None,
        np.zeros(0, np.int32),
        1,
        Whole().divide(PAIR.task),
    )
    assert len(mappings_table(empty, PAIR.task, 0.5)) == 0
    write_ranked(empty, PAIR.task, tmp_path / "ranked.parquet")
    assert len(pq.read_table(tmp_path / "ranked.parquet")) == 0
