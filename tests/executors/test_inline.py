"""The inline executor with several jobs at once, as on a GPU: same results, and an end when nobody waits."""

import threading
import time
from dataclasses import replace

import pytest
import torch

from divea.config import ModelSettings
from divea.executors import Done, base, check_executor, inline
from divea.executors.base import Failed, FailureKind, Steps
from divea.executors.inline import Inline, jobs_at_once
from divea.resources.budget import UNLIMITED_JOB_MEMORY
from tests.executors.small import run_jobs


@pytest.fixture
def three_at_once(monkeypatch):
    monkeypatch.setattr(inline, "jobs_at_once", lambda jobs: 3 if jobs else 1)


def test_several_jobs_at_once_meet_the_contract(three_at_once):
    check_executor(Inline())


MODELS = {
    "label-propagation": {"labels": 32, "heads": 40, "rounds": 2},
    "rrea": {"steps": 4, "loss": "hard"},
    "dual-amn": {"steps": 4},
    "gcn-align": {"steps": 4},
}


@pytest.mark.parametrize("name", MODELS)
def test_several_jobs_at_once_give_the_bytes_of_one_after_the_other(folder, jobs, monkeypatch, name):
    model = ModelSettings.checked({"name": name, name: MODELS[name]})
    chosen = [replace(job, model=model, threads=1) for job in jobs]
    found = {}
    for at_once in (1, 3):
        monkeypatch.setattr(inline, "jobs_at_once", lambda jobs, at_once=at_once: at_once)
        found[at_once] = run_jobs(Inline(), folder, chosen)
    assert found[3] == found[1]


def test_threads_of_torch_are_as_before(folder, jobs, three_at_once):
    before = torch.get_num_threads()
    list(Inline().run(folder, [replace(job, threads=1) for job in jobs]))
    assert torch.get_num_threads() == before


class FakeJob:
    def __init__(self, device="cuda", memory=None, model="label-propagation"):
        self.device, self.memory, self.model = device, memory, ModelSettings(name=model)
        self.threads = 2


@pytest.mark.parametrize(
    ("jobs", "free", "expected"),
    [
        ([], 1 << 40, 1),
        ([FakeJob()] * 9, 4 * UNLIMITED_JOB_MEMORY["cuda"] - 1, 1),
        ([FakeJob()] * 9, 8 * UNLIMITED_JOB_MEMORY["cuda"], 2),
        ([FakeJob()] * 9, 1 << 40, inline.THREADS_PER_GPU),
        ([FakeJob()], 1 << 40, 1),
        ([FakeJob(memory=1 << 30)] * 9, 1 << 40, 1),
        ([FakeJob(model="rrea")] * 9, 1 << 40, 1),
        ([FakeJob(model="label-propagation+rrea")] * 9, 1 << 40, 1),
        ([FakeJob("cpu")] * 9, 0, 4),
        ([FakeJob("cpu")] * 3, 0, 3),
        ([FakeJob("cpu", model="label-propagation+rrea")] * 9, 0, 4),
        ([FakeJob("cpu", memory=1 << 30)] * 9, 0, 1),
    ],
)
def test_jobs_run_at_once_only_where_there_is_room(monkeypatch, jobs, free, expected):
    monkeypatch.setattr(base, "free_gpu_memory", lambda device: free)
    monkeypatch.setattr(inline, "cores", lambda: 8)
    assert jobs_at_once(jobs) == expected


def test_results_come_in_the_order_of_the_jobs(monkeypatch, three_at_once):
    running, most = set(), []

    def attempt(task, position, job, **options):
        running.add(position)
        most.append(len(running))
        time.sleep(0.05 / (1 + position))
        running.remove(position)
        return Done(position, [])

    monkeypatch.setattr(inline, "attempt", attempt)
    monkeypatch.setattr(inline, "load_task", lambda folder: None)
    assert [done.position for done in Inline().run(None, [FakeJob()] * 8)] == list(range(8))
    assert 1 < max(most) <= 3


def test_jobs_end_when_nobody_reads_their_results(monkeypatch, three_at_once):
    started = threading.Event()

    def attempt(task, position, job, on_steps, **options):
        if position == 0:
            return Done(0, [])
        started.set()
        try:
            while True:
                on_steps(Steps(position, 1, 2))
                time.sleep(0.01)
        except Exception as error:
            return Failed(position, FailureKind.ERROR, str(error), "")

    monkeypatch.setattr(inline, "attempt", attempt)
    monkeypatch.setattr(inline, "load_task", lambda folder: None)
    results = Inline().run(None, [FakeJob()] * 8)
    assert next(results) == Done(0, [])
    assert started.wait(10)
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ThreadPoolExecutor")]
