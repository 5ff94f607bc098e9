"""A run is killed with SIGKILL, group and all, at every journal point and at random; its bytes stay."""

import random
import signal

import pytest

from tests.run.crashing import Crasher
from tests.run.tiny import solved_now, tables, write_inputs

KILLED = -signal.SIGKILL
POINTS = 8
"""Journal lines of the tiny run: two subtasks in two iterations, the division, three tables."""


@pytest.fixture(scope="module")
def crash():
    crasher = Crasher()
    yield crasher
    crasher.close()


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="module")
def undisturbed(crash, command, tmp_path_factory):
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert crash([*command, "--out", run]) == 0
    assert len((run / "journal.jsonl").read_text().splitlines()) == POINTS
    assert solved_now(run) == 4
    return tables(run)


def test_killed_at_every_journal_point(crash, command, undisturbed, tmp_path):
    run = tmp_path / "run"
    # Before and within a line, nothing is recorded: the next start comes to the same point again.
    for point in range(POINTS):
        for how in ("before", "torn", "after"):
            assert crash([*command, "--out", run], at=1, how=how) == KILLED, (point, how)
    assert crash([*command, "--out", run]) == 0
    assert tables(run) == undisturbed
    assert not list(run.rglob(".*partial*"))


def test_killed_at_a_late_point_nothing_is_solved_twice(crash, command, undisturbed, tmp_path):
    run = tmp_path / "run"
    assert crash([*command, "--out", run], at=3, how="after") == KILLED
    assert crash([*command, "--out", run]) == 0
    assert solved_now(run) == 1
    assert tables(run) == undisturbed


def test_killed_at_random_moments(crash, command, undisturbed, tmp_path):
    draw = random.Random(5)
    run = tmp_path / "run"
    for _ in range(10):
        crash([*command, "--out", run], after=draw.uniform(0, 0.5))
    assert crash([*command, "--out", run]) == 0
    assert tables(run) == undisturbed
