"""The inline executor with several jobs at once, as on a GPU: same results, and an end when nobody waits."""

import threading
import time

import pytest

from divea.config import ModelSettings
from divea.executors import Done, check_executor, inline
from divea.executors.base import Failed, FailureKind, Steps
from divea.executors.inline import Inline, jobs_at_once
from divea.resources.budget import UNLIMITED_JOB_MEMORY


@pytest.fixture
def three_at_once(monkeypatch):
    monkeypatch.setattr(inline, "jobs_at_once", lambda jobs: 3)


def test_several_jobs_at_once_meet_the_contract(three_at_once):
    check_executor(Inline())


class FakeJob:
    def __init__(self, device="cuda", memory=None, model="label-propagation"):
        self.device, self.memory, self.model = device, memory, ModelSettings(name=model)


@pytest.mark.parametrize(
    ("jobs", "free", "expected"),
    [
        ([], 1 << 40, 1),
        ([FakeJob("cpu")], 1 << 40, 1),
        ([FakeJob(memory=1 << 30)], 1 << 40, 1),
        ([FakeJob(model="rrea")], 1 << 40, 1),
        ([FakeJob(model="label-propagation+rrea")], 1 << 40, 1),
        ([FakeJob()], 4 * UNLIMITED_JOB_MEMORY["cuda"] - 1, 1),
        ([FakeJob()], 8 * UNLIMITED_JOB_MEMORY["cuda"], 2),
        ([FakeJob()], 1 << 40, inline.AT_ONCE),
    ],
)
def test_jobs_run_at_once_only_where_there_is_room(monkeypatch, jobs, free, expected):
    monkeypatch.setattr(inline, "free_gpu_memory", lambda device: free)
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
