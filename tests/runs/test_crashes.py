"""A run that is killed with its whole process group, again and again, ends with the same bytes."""

import random
import signal
from dataclasses import replace

import pytest

from divea.graphs import Links
from divea.runs.layout import JOURNAL
from tests.runs.crashing import Crasher
from tests.runs.tiny import NAMED_PAIR, PAIR, solved_now, tables, write_inputs

KILLED = -signal.SIGKILL
RESULTS = 4
"""Two subtasks in each of two iterations."""
KEPT = RESULTS + 3
"""Journal lines before the tables: the results, two divisions, and what the first iteration learned."""
POINTS = KEPT + 6
"""All of them: also the calibration, the evidence, the weights of the features and three tables."""


REJECTED = PAIR.gold.without(PAIR.task.seeds)
REVIEWED_PAIR = replace(PAIR, task=replace(PAIR.task, rejected=Links.from_pairs(REJECTED.pairs[::3])))


@pytest.fixture(
    scope="module",
    params=[PAIR, NAMED_PAIR, REVIEWED_PAIR],
    ids=["with seeds", "with names alone", "with rejected pairs"],
)
def command(request, tmp_path_factory):
    """The command that aligns a tiny task, without --out."""
    return write_inputs(tmp_path_factory.mktemp("inputs"), request.param)


@pytest.fixture(scope="module")
def crash():
    crasher = Crasher()
    yield crasher
    crasher.close()


@pytest.fixture(scope="module")
def undisturbed(crash, command, tmp_path_factory):
    """The tables of a run that was not killed."""
    run = tmp_path_factory.mktemp("undisturbed") / "run"
    assert crash([*command, "--out", run]) == 0
    assert len((run / JOURNAL).read_text().splitlines()) == POINTS
    assert solved_now(run) == RESULTS
    return tables(run)


every_point = pytest.param(range(1, POINTS + 1), marks=pytest.mark.slow, id="every point")
some_points = pytest.param(sorted(random.Random(3).sample(range(1, POINTS + 1), 3)), id="some points")


@pytest.mark.parametrize("points", [some_points, every_point])
def test_killed_at_journal_lines(crash, command, undisturbed, tmp_path, points):
    run = tmp_path / "run"
    kept = 0
    for point in points:
        for how in ("before", "torn", "line", "after"):
            # Every start finds what was committed before the tables, and writes all tables again.
            assert crash([*command, "--out", run], at=point - kept, how=how) == KILLED, (point, how)
            kept = min(point if how == "after" else point - 1, KEPT)
    assert crash([*command, "--out", run]) == 0
    assert tables(run) == undisturbed
    assert not list(run.rglob(".*partial*"))


def test_killed_late_nothing_is_solved_twice(crash, command, undisturbed, tmp_path):
    run = tmp_path / "run"
    assert crash([*command, "--out", run], at=KEPT - 1, how="after") == KILLED
    assert crash([*command, "--out", run]) == 0
    assert solved_now(run) == 1
    assert tables(run) == undisturbed


@pytest.mark.parametrize("kills", [4, pytest.param(40, marks=pytest.mark.slow)])
def test_killed_at_random_moments(crash, command, undisturbed, tmp_path, kills):
    draw = random.Random(5)
    run = tmp_path / "run"
    for _ in range(kills):
        crash([*command, "--out", run], after=draw.uniform(0, 0.5))
    assert crash([*command, "--out", run]) == 0
    assert tables(run) == undisturbed
