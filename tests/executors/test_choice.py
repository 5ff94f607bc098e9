"""The executor of a run: how it is chosen, and settings that are refused."""

import pytest

from divea.errors import InputError
from divea.executors import ExecutorSettings, base, choose_executor, make_executor
from divea.executors.inline import Inline
from divea.executors.local import Local
from divea.resources.budget import UNLIMITED_JOB_MEMORY

LARGE, LARGE_ON_GPU = base.WORTH_PROCESSES, base.WORTH_PROCESSES_ON_GPU
ROOM = 4 * UNLIMITED_JOB_MEMORY["cuda"]


@pytest.fixture
def machine(monkeypatch):
    """Sets what the machine has."""

    def has(cores=8, gpus=1, gpu_memory=base.PROCESSES_PER_GPU * ROOM):
        monkeypatch.setattr(base, "cores", lambda: cores)
        monkeypatch.setattr(base, "gpus", lambda: gpus)
        monkeypatch.setattr(base, "free_gpu_memory", lambda device: gpu_memory)

    return has


@pytest.fixture
def choose(machine):
    """Chooses on a machine with eight cores and a GPU, by default for a large task of five subtasks."""
    machine()

    def chosen(settings=None, **facts):
        facts = {
            "subtasks": 5,
            "entities": LARGE,
            "device": "cpu",
            "has_memory_limit": False,
            "in_threads": True,
            **facts,
        }
        return choose_executor(settings or ExecutorSettings(), **facts)

    return chosen


def test_auto_starts_a_worker_per_subtask_if_there_are_enough_cores(choose):
    assert choose() == ExecutorSettings(name="local", workers=5)
    assert choose(subtasks=20) == ExecutorSettings(name="local", workers=8)


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param({"entities": LARGE - 1}, id="a small task"),
        pytest.param({"subtasks": 1}, id="one subtask"),
        pytest.param({"has_memory_limit": True}, id="a memory limit, which allows one job at a time"),
        pytest.param({"device": "cuda", "entities": LARGE_ON_GPU - 1}, id="a task that is small for a GPU"),
        pytest.param(
            {"device": "cuda", "entities": LARGE_ON_GPU, "has_memory_limit": True}, id="a GPU limit"
        ),
        pytest.param({"device": "cuda", "entities": LARGE_ON_GPU, "subtasks": 1}, id="one subtask on a GPU"),
    ],
)
def test_auto_stays_in_this_process_where_workers_do_not_pay(choose, facts):
    assert choose(**facts) == ExecutorSettings(name="inline")


def test_auto_stays_in_this_process_if_threads_are_enough_for_the_cores(choose, machine):
    machine(cores=base.FEW_CORES)
    assert choose() == ExecutorSettings(name="inline")
    assert choose(in_threads=False) == ExecutorSettings(name="local", workers=4)
    machine(cores=base.FEW_CORES + 1)
    assert choose() == ExecutorSettings(name="local", workers=5)


@pytest.mark.parametrize("in_threads", [True, False])
def test_auto_starts_several_workers_per_gpu_for_a_large_task(choose, machine, in_threads):
    facts = {"device": "cuda", "entities": LARGE_ON_GPU, "subtasks": 100, "in_threads": in_threads}
    machine(cores=2)
    assert choose(**facts) == ExecutorSettings(name="local", workers=base.PROCESSES_PER_GPU)
    machine(gpus=3)
    assert choose(**facts) == ExecutorSettings(name="local", workers=3 * base.PROCESSES_PER_GPU)
    machine(gpus=3, gpu_memory=ROOM)
    assert choose(**facts) == ExecutorSettings(name="local", workers=3)
    machine(gpu_memory=2 * ROOM - 1)
    assert choose(**facts) == ExecutorSettings(name="inline")


@pytest.mark.parametrize(
    "facts", [{}, {"entities": 10}, {"device": "cuda"}, {"device": "cuda", "has_memory_limit": True}]
)
def test_auto_starts_workers_if_their_number_is_given(choose, facts):
    for workers in (1, 3):
        settings = ExecutorSettings(workers=workers)
        assert choose(settings, **facts) == ExecutorSettings(name="local", workers=workers)


@pytest.mark.parametrize(
    "settings",
    [{"name": "local"}, {"name": "local", "workers": 1}, {"workers": 1}, {"workers": 2}, {"timeout": 9}],
    ids=str,
)
def test_worker_processes_are_refused_within_a_limit_on_host_memory(choose, settings):
    """The limit is on all processes together, and a job may need all that one process leaves of it."""
    with pytest.raises(InputError, match="executor: a memory limit is on all processes together and leaves"):
        choose(ExecutorSettings(**settings), has_memory_limit=True)
    assert choose(ExecutorSettings(**settings), has_memory_limit=True, device="cuda").name == "local"


def test_auto_starts_workers_if_a_timeout_is_given(choose):
    """A job in this process cannot be stopped."""
    settings = ExecutorSettings(timeout=9)
    small = choose(settings, entities=10)
    assert small == ExecutorSettings(name="local", workers=5, timeout=9)


def test_a_named_executor_is_kept(choose):
    for facts in ({}, {"entities": 10}, {"device": "cuda"}):
        for name in ("inline", "local", "ray"):
            assert choose(ExecutorSettings(name=name), **facts).name == name
    for name in ("inline", "ray"):
        assert choose(ExecutorSettings(name=name), has_memory_limit=True).name == name
    assert choose(ExecutorSettings(name="inline")).workers is None


@pytest.mark.parametrize("name", ["local", "ray"])
def test_workers_that_are_not_given_depend_on_cores_subtasks_and_memory(choose, name):
    settings = ExecutorSettings(name=name)
    assert choose(settings).workers == 5
    assert choose(settings, subtasks=20).workers == 8
    assert choose(ExecutorSettings(name="ray"), has_memory_limit=True).workers == 1
    if name == "ray":
        assert choose(settings, device="cuda").workers is None  # Ray counts the GPUs of its nodes
    else:
        assert choose(settings, device="cuda").workers == base.PROCESSES_PER_GPU
        assert choose(settings, device="cuda", has_memory_limit=True).workers == 1
    assert choose(ExecutorSettings(name="ray", workers=3), has_memory_limit=True).workers == 3


def test_other_settings_are_kept(choose):
    settings = ExecutorSettings(name="ray", address="auto", timeout=9, gpu_share=0.25)
    chosen = choose(settings)
    assert chosen == ExecutorSettings(name="ray", workers=5, address="auto", timeout=9, gpu_share=0.25)


def test_settings_make_the_executor_that_they_name():
    assert isinstance(make_executor(ExecutorSettings(name="inline")), Inline)
    local = make_executor(ExecutorSettings(name="local", workers=3, timeout=9))
    assert isinstance(local, Local)
    assert (local.workers, local.timeout) == (3, 9)
    local.close()


def test_an_unknown_executor_is_refused():
    with pytest.raises(
        InputError, match="name: unknown executor 'slurm'; choose from auto, inline, local, ray"
    ):
        ExecutorSettings(name="slurm")


@pytest.mark.parametrize("name", ["auto", "inline", "local"])
@pytest.mark.parametrize("setting", [{"address": "auto"}, {"gpu_share": 0.5}, {"gpu_share": 1.0}])
def test_settings_of_ray_are_refused_for_other_executors(name, setting):
    message = f"{next(iter(setting))} has no effect: the executor is '{name}'"
    with pytest.raises(InputError, match=message):
        ExecutorSettings(name=name, **setting)


@pytest.mark.parametrize("setting", [{"workers": 1}, {"timeout": 9}])
def test_settings_of_processes_are_refused_for_inline(setting):
    with pytest.raises(InputError, match=f"{next(iter(setting))} has no effect: the executor 'inline'"):
        ExecutorSettings(name="inline", **setting)


def test_a_setting_that_is_null_counts_as_not_given():
    settings = ExecutorSettings(name="inline", workers=None, address=None, timeout=None)
    assert settings == ExecutorSettings(name="inline")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"workers": 0}, "workers: expected an integer from 1 to 100000, or null; found 0"),
        ({"workers": 2.0}, "workers: expected an integer"),
        ({"timeout": 0}, "timeout: expected a number, above 0"),
        ({"timeout": float("nan")}, "timeout: expected a number, above 0"),
        ({"gpu_share": 0}, "gpu_share: expected a number, above 0, at most 1"),
        ({"gpu_share": 1.5}, "gpu_share: expected a number, above 0, at most 1"),
        ({"wrokers": 2}, "wrokers: unknown setting; did you mean 'workers'"),
    ],
)
def test_values_that_are_out_of_range_are_refused(setting, expected):
    with pytest.raises(InputError, match=expected):
        ExecutorSettings(name="ray", **setting)
