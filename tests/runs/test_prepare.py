"""What a run leaves open is chosen when it starts, and taken from its manifest when it is continued."""

import pytest
import torch

from divea.config import Settings
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.resources import plan
from divea.resources.budget import job_memory
from divea.resources.costs import COSTS, cost_of
from divea.resources.limits import Limits
from divea.runs import prepare as prepare_module
from divea.runs.align import align_in
from divea.runs.checksums import task_checksums
from divea.runs.manifest import Manifest, library_versions
from divea.runs.prepare import prepare
from tests.runs.tiny import PAIR

TASK = PAIR.task
ENTITIES = TASK.source.num_entities + TASK.target.num_entities
CPU = Limits("cpu")
GIB = 1 << 30
CORES = 6


OVERHEAD = GIB - job_memory(TASK, GIB, "cpu")
SMALL = 2 * (OVERHEAD + int(cost_of("rrea", "cpu").memory.at(ENTITIES // 2, 0) / plan.PLANNED_SHARE))
"""Bytes of a machine on which half of the task fits RREA: a run may take half of the machine's memory."""


def set_machine(patch, cores, memory):
    """Pretend that this machine has this many cores and bytes of memory."""
    for module in (prepare_module, plan):
        patch.setattr(module, "cores", lambda: cores)
    patch.setattr(plan, "total_memory", lambda: memory)


@pytest.fixture(autouse=True)
def large_machine(monkeypatch):
    set_machine(monkeypatch, CORES, 64 * GIB)


@pytest.fixture
def gpu(monkeypatch):
    """A machine with a GPU of 80 GiB."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(plan, "gpu_memory", lambda: 80 * GIB)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def settings(**changes):
    return Settings.of(None, changes)


def prepared(changes=None, limits=CPU, stored=None):
    return prepare(TASK, settings(**(changes or {})), limits, stored=stored)[0]


def notes(changes=None, limits=CPU, stored=None):
    return prepare(TASK, settings(**(changes or {})), limits, stored=stored)[1]


def plan_of(manifest):
    return manifest.settings.subtasks, manifest.settings.size


# What is chosen for a new run.


def test_a_task_that_fits_the_memory_is_not_divided():
    assert plan_of(prepared()) == (1, None)
    assert notes() == ("no division: the whole graph fits into 32.0 GiB",)


def test_a_task_that_does_not_fit_the_memory_is_divided(monkeypatch):
    set_machine(monkeypatch, 1, SMALL)
    subtasks, size = plan_of(prepared({"model": "rrea"}))
    assert subtasks > 1
    assert 2 <= size < ENTITIES
    assert notes({"model": "rrea"}) == (
        f"{subtasks} subtasks of at most {size} entities fit into the memory",
    )


def test_a_given_number_of_subtasks_divides_all_entities_by_it():
    """The effective size is in the settings, so that the manifest says what was done."""
    for name in ("joint", "divea", "random"):
        manifest = prepared({"subtasks": 3, "division": name})
        assert plan_of(manifest) == (3, ENTITIES // 3)
    assert notes({"subtasks": 3}) == ()


def test_a_given_number_and_size_are_kept():
    assert plan_of(prepared({"subtasks": 3, "size": 120})) == (3, 120)
    assert notes({"subtasks": 3, "size": 120}) == ()


@pytest.mark.parametrize("name", ["cps", "sbp", "isbp"])
def test_a_division_without_a_size_limit_has_no_size(name):
    assert plan_of(prepared({"subtasks": 3, "division": name})) == (3, None)


def test_a_given_size_decides_the_number_of_subtasks():
    manifest = prepared({"size": 120})
    assert manifest.settings.subtasks > 1
    assert manifest.settings.size == 120
    assert notes({"size": 120}) == (f"{manifest.settings.subtasks} subtasks of at most 120 entities",)


def test_a_size_that_holds_everything_means_no_division():
    assert prepared({"size": ENTITIES}).settings.subtasks == 1


def test_the_whole_graph_is_one_subtask():
    assert plan_of(prepared({"division": "whole"})) == (1, None)
    assert notes({"division": "whole"}) == ()


def test_a_note_names_options_of_the_division_if_nothing_is_divided():
    (_, note) = notes({"division.delta2": 0.1})
    assert note == "nothing is divided, so division.delta2 has no effect; subtasks= divides"


def test_a_model_without_measured_costs_is_not_divided(monkeypatch):
    monkeypatch.delitem(COSTS, ("rrea", "cpu"))
    (note,) = notes({"model": "label-propagation+rrea"})
    assert note.startswith("no division: the costs of label-propagation+rrea on cpu were not measured")


def test_a_job_has_one_thread_unless_it_runs_alone():
    assert prepared({"subtasks": 3}).threads == 1
    assert prepared({"subtasks": 1}).threads == CORES
    assert prepared({"subtasks": 3}, Limits("cpu", memory=2 * GIB)).threads == CORES


def test_a_memory_limit_leaves_less_for_a_job():
    assert prepared({"subtasks": 3}).memory is None
    limited = prepared({"subtasks": 3}, Limits("cpu", memory=2 * GIB))
    assert limited.memory == job_memory(TASK, 2 * GIB, "cpu") < 2 * GIB
    with pytest.raises(InputError, match="gpu_memory has no effect: the device is cpu"):
        prepared({"subtasks": 3}, Limits("cpu", gpu_memory=2 * GIB))


def test_on_a_gpu_its_own_memory_limit_counts(gpu):
    manifest = prepared({"subtasks": 3}, Limits("cuda", gpu_memory=2 * GIB))
    assert (manifest.device, manifest.memory) == ("cuda", job_memory(TASK, 2 * GIB, "cuda"))
    assert prepared({"subtasks": 3}, Limits("cuda", memory=2 * GIB)).memory is None


def test_the_device_is_the_gpu_where_there_is_one(gpu):
    assert prepared(limits=Limits()).device == "cuda"
    assert prepared(limits=CPU).device == "cpu"


def test_the_device_is_the_cpu_where_there_is_no_gpu(no_gpu):
    assert prepared(limits=Limits()).device == "cpu"


def test_subtasks_per_job_are_kept():
    limits = Limits("cpu", subtasks_per_job=1)
    assert prepared({"subtasks": 3}, limits).subtasks_per_job == 1
    assert prepared({"subtasks": 3}).subtasks_per_job is None


def test_the_manifest_says_what_was_aligned_and_by_which_versions():
    manifest, _ = prepare(TASK, settings(subtasks=3), CPU, folder="some/folder")
    assert manifest.task == task_checksums(TASK)
    assert manifest.versions == library_versions()
    assert manifest.folder == "some/folder"
    assert manifest.stages == []


def test_effective_settings_hold_all_options_of_the_models_in_use():
    changes = {"subtasks": 3, "model": "rrea", "model.rrea.steps": 9, "last_model.iterations": 2}
    plain = prepared({**changes, "last_model.name": "dual-amn"}).settings.plain()
    assert plain["model"]["rrea"]["steps"] == 9
    assert plain["model"]["rrea"]["dimensions"] == 100
    assert plain["last_model"]["dual-amn"]["steps"] == 60
    assert {*plain["model"]} == {"name", "rrea"}
    assert {*plain["last_model"]} == {"name", "iterations", "dual-amn"}


def test_defaults_that_are_given_make_the_same_run():
    one = prepared({"subtasks": 3})
    other = prepared({"subtasks": 3, "size": ENTITIES // 3, "model.label-propagation.rounds": 3})
    assert list(one.differences(other)) == []
    assert one.identity == other.identity


def test_the_manifest_is_read_as_it_was_written(tmp_path):
    manifest = prepared({"subtasks": 3, "division": "cps", "confidence.precision": 0.9})
    manifest.save(tmp_path)
    stored = Manifest.load(tmp_path)
    assert list(manifest.differences(stored)) == []
    assert stored.identity == manifest.identity


# What is taken from the manifest of a run that is continued.


def test_a_run_is_continued_with_its_own_plan(monkeypatch):
    set_machine(monkeypatch, 1, SMALL)
    stored = prepared({"model": "rrea"})
    set_machine(monkeypatch, CORES, 64 * GIB)
    assert plan_of(prepared({"model": "rrea"})) == (1, None)
    assert plan_of(prepared({"model": "rrea"}, stored=stored)) == plan_of(stored) != (1, None)
    assert notes({"model": "rrea"}, stored=stored) == ()
    assert prepared({"model": "rrea"}, stored=stored).identity == stored.identity


def test_a_run_is_continued_if_its_effective_size_is_given():
    stored = prepared({"subtasks": 3})
    assert plan_of(prepared({"size": ENTITIES // 3}, stored=stored)) == plan_of(stored)


def test_another_size_or_number_of_subtasks_is_not_taken_from_the_manifest():
    stored = prepared({"subtasks": 3})
    assert prepared({"size": 120}, stored=stored).settings.size == 120
    assert plan_of(prepared({"subtasks": 5}, stored=stored)) == (5, ENTITIES // 5)
    differences = list(stored.differences(prepared({"subtasks": 5}, stored=stored)))
    assert differences == ["subtasks 3, now 5", f"size {ENTITIES // 3}, now {ENTITIES // 5}"]


def test_threads_are_those_of_the_manifest(monkeypatch):
    stored = prepared({"subtasks": 1})
    set_machine(monkeypatch, 2, 64 * GIB)
    assert prepared({"subtasks": 1}).threads == 2
    assert prepared({"subtasks": 1}, stored=stored).threads == CORES


def test_the_memory_of_a_job_is_that_of_the_manifest_unless_a_limit_is_given():
    stored = prepared({"subtasks": 3}, Limits("cpu", memory=2 * GIB))
    assert prepared({"subtasks": 3}, stored=stored).identity == stored.identity
    other = prepared({"subtasks": 3}, Limits("cpu", memory=3 * GIB), stored)
    assert other.memory == job_memory(TASK, 3 * GIB, "cpu")
    assert list(stored.differences(other)) == [f"memory {stored.memory}, now {other.memory}"]


def test_the_device_is_that_of_the_manifest_unless_one_is_given(gpu):
    stored = prepared({"subtasks": 3}, CPU)
    assert prepared({"subtasks": 3}, Limits(), stored).device == "cpu"
    assert prepared({"subtasks": 3}, Limits("cuda"), stored).device == "cuda"


def test_a_run_on_a_gpu_is_not_continued_without_one(gpu, monkeypatch):
    stored = prepared({"subtasks": 3}, Limits())
    assert stored.device == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="torch finds no GPU here"):
        prepared({"subtasks": 3}, Limits(), stored)


# Errors are found before anything is written.


@pytest.mark.parametrize(
    ("changes", "limits", "message"),
    [
        ({"subtasks": 10**6}, CPU, "subtasks: 1000000 is more than the 127 unmatched source entities"),
        ({"subtasks": 2}, Limits("tpu"), "device: expected one of 'auto', 'cpu', 'cuda'; found 'tpu'"),
        ({"subtasks": 2}, Limits("cpu", memory=1 << 20), "before it solves anything"),
        ({}, Limits("cpu", memory=1 << 20), "before it solves anything"),
        ({}, Limits("cpu", memory=490 << 20), "for the smallest subtask"),
    ],
)
def test_errors_are_found_before_anything_is_written(tmp_path, changes, limits, message):
    with pytest.raises(InputError, match=message):
        align_in(tmp_path / "run", lambda: TASK, settings(**changes), limits=limits)
    assert not list(tmp_path.iterdir())


def test_a_task_without_seeds_is_refused_before_anything_is_written(tmp_path):
    seedless = AlignmentTask(TASK.source, TASK.target)
    with pytest.raises(InputError, match="the task has no seeds"):
        align_in(tmp_path / "run", lambda: seedless, settings(subtasks=2), limits=CPU)
    assert not list(tmp_path.iterdir())


def test_a_gpu_that_does_not_exist_is_refused_before_anything_is_written(tmp_path, no_gpu):
    with pytest.raises(InputError, match="torch finds no GPU here; use cpu"):
        align_in(tmp_path / "run", lambda: TASK, settings(subtasks=2), limits=Limits("cuda"))
    assert not list(tmp_path.iterdir())
