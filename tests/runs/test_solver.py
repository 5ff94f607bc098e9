"""What a run hands to its executor: dividing a task in another process gives what dividing here gives."""

import pickle

import numpy as np
import pytest

from divea.config import Settings
from divea.division import Feedback, make_strategy
from divea.graphs import save_task, storage
from divea.graphs.planted import planted_pair
from divea.graphs.storage import StoredTask
from divea.loop.confidence import hold_back
from divea.runs.solver import divider

TASK = planted_pair(seeds=40).task


def in_another_process(function, items):
    """A mapper that sends functions, items and results as another process would get them."""
    for item in items:
        # The graphs of a task stay where they are.
        assert len(pickle.dumps(function)) < 5_000
        storage._open_stored.cache_clear()
        yield sent(sent(function)(sent(item)))


def sent(value):
    return pickle.loads(pickle.dumps(value))  # noqa: S301


@pytest.mark.parametrize("name", ["joint", "divea", "cps", "random"])
def test_a_task_is_divided_elsewhere_as_it_is_here(name, tmp_path):
    save_task(TASK, tmp_path / "task")
    visible, hidden = hold_back(TASK, 0.25)
    strategy = make_strategy(TASK, Settings(subtasks=3, division={"name": name}))
    divide = divider(in_another_process, StoredTask(TASK, tmp_path / "task"))
    first = strategy.divide(visible)
    for feedback in (None, Feedback(first, hidden)):
        here, found = strategy.divide(visible, feedback), divide(strategy, visible, feedback)
        assert found.subtasks == here.subtasks
        assert np.array_equal(found.groups, here.groups)
        assert (found.notes, found.shares) == (here.notes, here.shares)
        # Seeds that are held back are not anchors.
        assert np.isin(hidden.source, np.concatenate([one.unmatched for one in found.subtasks])).all()
