"""From a limit on memory to subtasks: within it, and only where nobody asked for others."""

import pytest

from divea.alignment.settings import Settings
from divea.division.plan import COSTS, EDGES_KEPT, SAFETY
from divea.errors import InputError
from divea.run.budget import fit, for_a_job

GIB = 1 << 30


def test_a_limit_that_leaves_nothing_is_refused(task):
    with pytest.raises(InputError, match="before it solves anything"):
        for_a_job(task, 100 << 20, "cpu")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_job_gets_less_than_the_limit(task, device):
    assert 0 < for_a_job(task, GIB, device) < GIB


def test_what_fits_is_not_divided(task):
    assert fit(task, Settings(), GIB, "cpu").subtasks == 1


def test_subtasks_fit_the_hungriest_model(task):
    entities = task.source.num_entities + task.target.num_entities
    density = EDGES_KEPT * (task.source.num_triples + task.target.num_triples) / entities
    costs = [COSTS[model, "cpu"].memory for model in ("label-propagation", "rrea")]
    memory = int(max(cost.at(100, 100 * density) for cost in costs) / SAFETY) + 1
    fitted = fit(task, Settings(last_model="rrea", iterations=3), memory, "cpu")
    assert fitted.subtasks > 1
    assert fitted.size in (99, 100)


def test_a_division_that_was_asked_for_stays(task):
    asked = Settings(subtasks=3, size=90)
    assert fit(task, asked, 60 << 20, "cpu") == asked


def test_a_model_nobody_measured_is_refused(task):
    with pytest.raises(InputError, match="no measured costs"):
        fit(task, Settings(model="label-propagation+rrea"), 60 << 20, "cpu")
