import itertools

import pytest

from divea.division import DivEA
from divea.division.plan import COSTS, make_plan, parse_memory
from divea.errors import InputError
from divea.formats import write_task
from divea.graphs.synth import SynthConfig, synthesise
from tests.command_line import divea


@pytest.fixture(scope="module")
def task():
    return synthesise(SynthConfig(entities=3000, seed=9)).task


@pytest.mark.parametrize("key", COSTS)
def test_a_plan_fits_its_budget_and_can_be_divided(task, key):
    model, device = key
    fixed = COSTS[key].memory.fixed
    budget = int((fixed + COSTS[key].memory.entities * 2500) * 1.4) + 2**26
    plan = make_plan(task, budget, model=model, device=device)
    assert plan.memory <= budget
    division = DivEA(plan.parts, plan.size).divide(task)
    assert len(division) == plan.parts, "no group had to be divided further"
    assert not any("divided further" in note for note in division.notes)


def test_more_memory_means_fewer_larger_subtasks(task):
    plans = [make_plan(task, budget) for budget in (200 << 20, 400 << 20, 800 << 20, 1 << 40)]
    assert all(a.size <= b.size and a.parts >= b.parts for a, b in itertools.pairwise(plans))
    assert (plans[-1].parts, plans[-1].size) == (1, 6000)


def test_what_was_not_measured_is_refused(task):
    with pytest.raises(InputError, match="no measured costs"):
        make_plan(task, 1 << 30, model="oracle")
    with pytest.raises(InputError, match="smallest subtask"):
        make_plan(task, 1000)


@pytest.mark.parametrize(("text", "value"), [("1GiB", 2**30), ("1.5 kB", 1500), ("7", 7), ("2MiB", 2**21)])
def test_memory_sizes(text, value):
    assert parse_memory(text) == value


def test_a_bad_memory_size_is_refused():
    with pytest.raises(InputError, match="not a memory size"):
        parse_memory("plenty")


def test_the_command_says_what_to_run(task, tmp_path):
    write_task(task, tmp_path / "task")
    told = divea("plan", tmp_path / "task", "--memory", "300MiB")
    assert told.code == 0, told.err
    assert told.out.startswith("divea divide -n ")
