"""Reports of training steps: every executor that can tell passes them on, and no result changes."""

from dataclasses import replace

import pytest

from divea.config import ModelSettings, Settings
from divea.executors import FailureKind, Steps, base
from divea.executors.inline import Inline
from divea.executors.local import Local
from divea.models import steps as steps_module
from divea.models.steps import report_step, reporting
from divea.runs.align import align_in
from divea.runs.log import read_log
from tests.executors.small import TASK, run_jobs


def trained(job, steps):
    model = ModelSettings.checked({"name": "rrea", "rrea": {"steps": steps, "dimensions": 64}})
    return replace(job, model=model)


@pytest.fixture
def at_every_step(monkeypatch):
    monkeypatch.setattr(steps_module, "REPORT_SECONDS", 0.0)


def test_reports_are_limited_in_time(monkeypatch):
    now, seen = 0.0, []
    monkeypatch.setattr("divea.models.steps.time.monotonic", lambda: now)
    with reporting(lambda step, steps: seen.append((step, steps))):
        for step in range(1, 101):
            now += 0.3
            report_step(step, 100)
    assert seen == [(step, 100) for step in range(4, 101, 4)]


def test_a_report_outside_of_a_block_goes_nowhere(at_every_step):
    seen = []
    with reporting(lambda *report: seen.append(report)):
        with reporting(None):
            report_step(1, 2)
        report_step(2, 2)
    report_step(1, 3)
    assert seen == [(2, 2)]


def test_inline_passes_every_step_on_and_the_bytes_stay_the_same(folder, jobs, at_every_step):
    chosen = [trained(job, steps) for job, steps in zip(jobs[:2], (3, 4), strict=True)]
    executor, seen = Inline(), []
    expected = run_jobs(executor, folder, chosen)
    executor.on_steps = seen.append
    assert run_jobs(executor, folder, chosen) == expected
    # The jobs run at the same time.
    assert [found for found in seen if found.position == 0] == [Steps(0, step, 3) for step in (1, 2, 3)]
    assert [found for found in seen if found.position == 1] == [Steps(1, step, 4) for step in (1, 2, 3, 4)]


def test_local_workers_pass_steps_on_and_the_bytes_stay_the_same(folder, jobs):
    """Real workers, which report once a second: enough steps for some seconds."""
    chosen = [jobs[0], trained(jobs[1], 500)]
    executor, seen = Local(1), []
    executor.on_steps = seen.append
    try:
        found = run_jobs(executor, folder, chosen)
        # The same worker does the next job as if nothing had been reported.
        assert run_jobs(executor, folder, [jobs[0]]) == found[:1]
    finally:
        executor.close()
    assert found == run_jobs(Inline(), folder, chosen)
    assert seen and {(steps.position, steps.all) for steps in seen} == {(1, 500)}
    done = [steps.done for steps in seen]
    assert done == sorted(set(done)) and done[0] >= 1 and done[-1] <= 500


def test_a_worker_that_reports_is_still_ended_when_its_time_is_up(folder, jobs, monkeypatch):
    monkeypatch.setattr(base, "TRIES", 1)
    executor = Local(1, timeout=15)
    seen = []
    executor.on_steps = seen.append
    try:
        (failed,) = executor.run(folder, [trained(jobs[0], 1_000_000)])
    finally:
        executor.close()
    assert failed.kind == FailureKind.TIMEOUT
    assert len(seen) >= 2


def test_steps_are_events_of_a_run_but_not_of_its_log(tmp_path, at_every_step):
    events = []
    settings = Settings.of(
        None, {"subtasks": 2, "iterations": 1, "model.name": "rrea", "model.rrea.steps": 3}
    )
    align_in(tmp_path, lambda: TASK, settings, listener=lambda event, **facts: events.append((event, facts)))
    steps = [facts for event, facts in events if event == "steps"]
    assert sorted(steps, key=lambda facts: facts["subtasks"]) == [
        {"subtasks": [subtask], "done": done, "all": 3} for subtask in (0, 1) for done in (1, 2, 3)
    ]
    assert "steps" not in {line["event"] for line in read_log(tmp_path)}
