"""Plans: the number and size of subtasks, as given or as few as fit the memory."""

import itertools
import re

import pytest

import divea as divea_package
from divea.config import Settings
from divea.division import DivEA
from divea.division.shares import CONTEXT_SHARES
from divea.errors import InputError
from divea.formats import write_task
from divea.graphs.planted import planted_pair
from divea.graphs.synth import SynthConfig, synthesise
from divea.resources.budget import job_memory
from divea.resources.costs import COSTS, EDGES_KEPT, cost_of
from divea.resources.limits import Limits, parse_memory
from divea.resources.plan import (
    PLANNED_SHARE,
    TYPICAL_CONTEXT,
    Plan,
    estimate,
    largest_size,
    plan_subtasks,
    subtasks_of_size,
)
from divea.runs.prepare import prepare
from tests.command_line import divea

MIB = 1 << 20


@pytest.fixture(scope="module")
def task():
    return synthesise(SynthConfig(entities=3000, random_seed=9)).task


@pytest.fixture(scope="module")
def small_task():
    return planted_pair(entities=120, triples=500, seeds=30, random_seed=4).task


def limits_for(task, memory, device="cpu"):
    """The limits that leave this much memory for a job."""
    overhead = (1 << 40) - job_memory(task, 1 << 40, device)
    limit = overhead + memory
    return Limits(device, memory=limit) if device == "cpu" else Limits(device, gpu_memory=limit)


def memory_of_size(task, size, *models, device="cpu"):
    """Just enough memory of a job for subtasks of this size, for the model that needs most."""
    entities = task.source.num_entities + task.target.num_entities
    triples = EDGES_KEPT * (task.source.num_triples + task.target.num_triples) / entities
    costs = [cost_of(model, device).memory for model in models]
    return int(max(cost.at(size, size * triples) for cost in costs) / PLANNED_SHARE) + 1


@pytest.mark.parametrize(("model", "device"), COSTS)
def test_a_plan_fits_the_memory_and_can_be_divided(task, model, device):
    cost = COSTS[model, device].memory
    memory = int((cost.fixed + cost.entities * 2500) * 1.4) + 2**26
    settings = Settings(model={"name": model})
    plan = plan_subtasks(task, settings, device, limits_for(task, memory, device))
    assert estimate(task, plan, model, device).memory <= memory
    size = plan.size or task.source.num_entities + task.target.num_entities
    division = DivEA(plan.subtasks, size).divide(task)
    assert len(division) == plan.subtasks, "no group had to be divided further"
    assert not any("divided further" in note for note in division.notes)


def test_more_memory_means_fewer_and_larger_subtasks(task):
    entities = task.source.num_entities + task.target.num_entities
    plans = []
    for memory in (200 * MIB, 400 * MIB, 800 * MIB, 1 << 40):
        plan = plan_subtasks(task, Settings(model={"name": "rrea"}), "cpu", limits_for(task, memory))
        plans.append((plan.subtasks, plan.size or entities))
    assert all(n >= m and s <= t for (n, s), (m, t) in itertools.pairwise(plans))
    assert plans[-1] == (1, entities)


def test_a_task_that_fits_is_not_divided(small_task):
    plan = plan_subtasks(small_task, Settings(), "cpu", limits_for(small_task, 1 << 30))
    assert (plan.subtasks, plan.size) == (1, None)
    assert plan.notes[0].startswith("no division: the whole graph fits into")


def test_subtasks_fit_the_model_that_needs_most_memory(small_task):
    memory = memory_of_size(small_task, 100, "label-propagation", "rrea")
    settings = Settings(last_model={"name": "rrea", "iterations": 2})
    plan = plan_subtasks(small_task, settings, "cpu", limits_for(small_task, memory))
    assert plan.subtasks > 1
    assert plan.size in (99, 100)


def test_a_given_number_and_size_of_subtasks_are_kept(small_task):
    # The limit would be too small for any division that is chosen for the user.
    limits = Limits("cpu", memory=60 * MIB)
    plan = plan_subtasks(small_task, Settings(subtasks=3, size=90), "cpu", limits)
    assert plan == Plan(3, 90)


def test_a_given_size_decides_the_number_of_subtasks(small_task):
    plan = plan_subtasks(small_task, Settings(size=90), "cpu", Limits("cpu"))
    assert (plan.subtasks, plan.size) == (subtasks_of_size(small_task, 90), 90)
    assert plan.subtasks > 1
    assert plan_subtasks(small_task, Settings(size=240), "cpu", Limits("cpu")).subtasks == 1


def test_no_division_is_one_subtask(small_task):
    settings = Settings(division={"name": "whole"})
    assert plan_subtasks(small_task, settings, "cpu", Limits("cpu", memory=60 * MIB)) == Plan(1, None)


def test_a_note_says_that_options_of_the_division_have_no_effect_on_one_subtask(small_task):
    settings = Settings(division={"delta1": 0.4})
    plan = plan_subtasks(small_task, settings, "cpu", limits_for(small_task, 1 << 30))
    assert plan.subtasks == 1
    assert "division.delta1 has no effect" in plan.notes[-1]


def test_a_model_whose_costs_were_not_measured_is_not_divided_by_memory(small_task, monkeypatch):
    with pytest.raises(InputError, match="no measured costs"):
        cost_of("oracle", "cpu")
    monkeypatch.delitem(COSTS, ("rrea", "cpu"))
    settings = Settings(model={"name": "label-propagation+rrea"})
    plan = plan_subtasks(small_task, settings, "cpu", limits_for(small_task, 60 * MIB))
    assert (plan.subtasks, plan.size) == (1, None)
    assert "the costs of label-propagation+rrea on cpu were not measured" in plan.notes[0]


def test_an_ensemble_needs_the_memory_of_all_its_models(task):
    entities = task.source.num_entities + task.target.num_entities
    memory = memory_of_size(task, entities, "rrea")
    alone, both = (
        plan_subtasks(task, Settings(model={"name": name}), "cpu", limits_for(task, memory))
        for name in ("rrea", "label-propagation+rrea")
    )
    assert alone.subtasks == 1 < both.subtasks
    assert estimate(task, both, "label-propagation+rrea", "cpu").memory <= memory


def test_a_limit_too_small_for_any_subtask_is_refused(task):
    with pytest.raises(InputError, match=r"rrea on cpu takes \d+ MiB for the smallest subtask"):
        largest_size(task, 1000, "rrea", "cpu")


def test_the_typical_context_is_the_middle_of_the_context_shares():
    assert CONTEXT_SHARES[len(CONTEXT_SHARES) // 2] == TYPICAL_CONTEXT


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"model": "rrea"},
        {"division": "cps"},
        {"division": "whole"},
        {"subtasks": 3},
        {"size": 90},
        {"model": "label-propagation+rrea"},
        {"last_model": {"name": "dual-amn", "iterations": 2}},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [60, 100, 200, 1000])
def test_plan_and_align_choose_the_same_number_and_size_of_subtasks(small_task, settings, size):
    chosen = Settings.of(None, settings)
    name = chosen.model.name if "+" in chosen.model.name else "label-propagation"
    limits = limits_for(small_task, memory_of_size(small_task, size, name))
    plan = plan_subtasks(small_task, chosen, "cpu", limits)
    prepared = prepare(small_task, chosen, limits)[0].settings
    assert prepared.subtasks == plan.subtasks
    if plan.subtasks > 1 and plan.size is None:
        # Only the number was given: the entities of both graphs are divided by it.
        assert prepared.size == 240 // plan.subtasks
    else:
        assert prepared.size == plan.size


def _planned(text: str) -> tuple[int, int | None]:
    """The number of subtasks and their size that `divea plan` printed."""
    if text.startswith("divea align would make one subtask of the whole graph\n"):
        return 1, None
    number, size = re.match(r"divea align would make (\d+) subtasks \(-n\) of at most (\d+) ", text).groups()
    return int(number), int(size)


@pytest.mark.parametrize("size", [100, 1000])
def test_the_commands_plan_and_align_choose_the_same_number_and_size(small_task, tmp_path, size):
    write_task(small_task, tmp_path / "task")
    limit = limits_for(small_task, memory_of_size(small_task, size, "label-propagation")).memory
    given = ["--memory", limit, "--device", "cpu", "--set", "iterations=1"]
    planned = divea("plan", tmp_path / "task", *given)
    assert planned.code == 0, planned.err
    number, most = _planned(planned.out)
    small_model = ["--set", "model.label-propagation.labels=16", "--set", "model.label-propagation.rounds=1"]
    ended = divea(
        "align", tmp_path / "task", "-o", tmp_path / "run", *given, *small_model, "--executor", "inline", "-q"
    )
    assert ended.code == 0, ended.err
    found = divea_package.Alignment(tmp_path / "run").settings
    assert (found.subtasks, found.size) == (number, most)
    assert found.subtasks > 1 or size == 1000


@pytest.mark.parametrize(("text", "value"), [("1GiB", 2**30), ("1.5 kB", 1500), ("7", 7), ("2MiB", 2**21)])
def test_memory_sizes_are_read_as_people_write_them(text, value):
    assert parse_memory(text) == value


def test_a_text_that_is_no_memory_size_is_refused():
    with pytest.raises(InputError, match="not a memory size"):
        parse_memory("plenty")


def test_the_plan_command_shows_subtasks_memory_and_time(task, tmp_path):
    write_task(task, tmp_path / "task")
    shown = divea("plan", tmp_path / "task", "--memory", "700MiB", "--device", "cpu")
    assert shown.code == 0, shown.err
    number, size = _planned(shown.out)
    assert number > 1 and size is not None
    assert "GiB per subtask" in shown.out
    assert "s per iteration" in shown.out


def test_more_subtasks_than_unmatched_entities_are_refused():
    task = planted_pair(seeds=30).task
    count = len(task.unmatched_source)
    assert plan_subtasks(task, Settings(subtasks=count), "cpu", Limits()).subtasks == count
    with pytest.raises(InputError, match=f"{count + 1} is more than the {count} unmatched source entities"):
        plan_subtasks(task, Settings(subtasks=count + 1), "cpu", Limits())


def test_subtasks_that_are_too_small_for_all_entities_are_noted():
    task = planted_pair(seeds=30).task
    needed = subtasks_of_size(task, 40)
    assert needed > 2
    assert plan_subtasks(task, Settings(subtasks=needed, size=40), "cpu", Limits()).notes == ()
    (note,) = plan_subtasks(task, Settings(subtasks=2, size=40), "cpu", Limits()).notes
    assert note == f"2 subtasks of at most 40 entities are too small: expect about {needed}"
