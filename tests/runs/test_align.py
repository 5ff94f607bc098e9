"""`align_in`: a run is started, continued or observed again, and reports what happens."""

import numpy as np
import pytest

from divea.config import Settings
from divea.errors import InputError, SubtaskError
from divea.executors import ExecutorSettings, FailureKind, attempt
from divea.resources.limits import Limits
from divea.runs.align import align_in
from divea.runs.checksums import divided_further
from divea.runs.journal import read_journal
from divea.runs.layout import MAPPINGS, result_file
from divea.runs.solver import FailedJob
from tests.runs.tiny import PAIR, SETTINGS, events, solved_now, tables

TINY = Settings.of(None, SETTINGS)


def read():
    return PAIR.task


def align(run, **options):
    return align_in(run, read, TINY, limits=Limits("cpu"), **options)


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    """A finished run, and the iterations that were observed."""
    run = tmp_path_factory.mktemp("observed") / "run"
    iterations = []
    assert align(run, observe=iterations.append) == []
    return run, iterations


def fail_to_solve(task, job):
    raise AssertionError(f"subtask {job.subtasks[0].index} is solved again")


def assert_same_iterations(found, expected):
    assert [iteration.number for iteration in found] == [iteration.number for iteration in expected]
    for ours, theirs in zip(found, expected, strict=True):
        for name in ("source", "target", "score", "mutual"):
            np.testing.assert_array_equal(getattr(ours.matches, name), getattr(theirs.matches, name))
        np.testing.assert_array_equal(ours.pseudo_seeds.pairs, theirs.pseudo_seeds.pairs)
        np.testing.assert_array_equal(ours.division.groups, theirs.division.groups)
        for one, other in zip(ours.division.subtasks, theirs.division.subtasks, strict=True):
            np.testing.assert_array_equal(one.source_entities, other.source_entities)
            np.testing.assert_array_equal(one.target_entities, other.target_entities)


def test_every_iteration_is_observed(observed):
    run, iterations = observed
    assert [iteration.number for iteration in iterations] == [0, 1]
    assert all(len(iteration.matches) == len(PAIR.task.unmatched_source) for iteration in iterations[1:])
    assert solved_now(run) == 4


def test_a_finished_run_is_observed_again_without_solving_anything(observed, monkeypatch):
    run, first = observed
    expected = tables(run)
    monkeypatch.setattr(attempt, "solve_job", fail_to_solve)
    again = []
    assert align(run, observe=again.append) == []
    assert_same_iterations(again, first)
    assert solved_now(run) == 0
    assert tables(run) == expected


def test_a_run_without_its_task_and_settings_is_observed_again(observed, monkeypatch):
    run, first = observed
    monkeypatch.setattr(attempt, "solve_job", fail_to_solve)
    again = []
    assert align_in(run, None, observe=again.append) == []
    assert_same_iterations(again, first)


def test_an_interrupted_run_is_observed_from_its_first_iteration(observed, tmp_path):
    _, expected = observed

    def stop(iteration):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        align(tmp_path / "run", observe=stop)
    found = []
    align(tmp_path / "run", observe=found.append)
    assert_same_iterations(found, expected)
    assert solved_now(tmp_path / "run") == 2


def test_an_observed_run_has_the_tables_of_any_other(observed, tmp_path):
    run, _ = observed
    align(tmp_path / "run")
    assert tables(tmp_path / "run") == tables(run)


def test_a_listener_receives_the_events_of_the_log(tmp_path):
    heard = []
    align(tmp_path / "run", listener=lambda event, **facts: heard.append({"event": event, **facts}))
    logged = [
        {name: fact for name, fact in line.items() if name != "time"} for line in events(tmp_path / "run")
    ]
    assert heard[-len(logged) :] == logged
    names = [event["event"] for event in heard]
    assert names.count("iteration") == names.count("learned") == 2
    assert (names[0], names[-1]) == ("started", "finished")


def test_jobs_that_could_not_be_solved_are_returned(tmp_path, monkeypatch):
    solve_job = attempt.solve_job

    def failing(task, job):
        if job.iteration == 1 and job.subtasks[0].index == 1:
            raise RuntimeError("bad luck")
        return solve_job(task, job)

    monkeypatch.setattr(attempt, "solve_job", failing)
    (failed,) = align(tmp_path / "run", executor=ExecutorSettings(name="inline"))
    assert isinstance(failed, FailedJob)
    assert (failed.iteration, failed.subtasks) == (1, (1,))
    assert failed.kind is FailureKind.ERROR and failed.reason == "RuntimeError: bad luck (3 times)"
    assert "RuntimeError: bad luck" in failed.log


@pytest.mark.parametrize("iteration", [0, 1])
def test_an_iteration_without_any_solved_subtask_ends_the_run_with_the_first_reason(
    tmp_path, monkeypatch, iteration
):
    solve_job = attempt.solve_job

    def failing(task, job):
        if job.iteration == iteration:
            raise RuntimeError("bad luck")
        return solve_job(task, job)

    with monkeypatch.context() as patch:
        patch.setattr(attempt, "solve_job", failing)
        with pytest.raises(SubtaskError, match=r"could be solved: RuntimeError: bad luck ") as found:
            align(tmp_path / "run", executor=ExecutorSettings(name="inline"))
    assert found.value.exit_code == 3 and not (tmp_path / "run" / MAPPINGS).exists()
    assert align(tmp_path / "run") == []
    assert solved_now(tmp_path / "run") == 4 - 2 * iteration


def test_a_subtask_that_memory_divided_further_is_named_by_it(tmp_path, monkeypatch, observed):
    """Such a result counts when the run is continued, but is not taken for one of the whole subtask."""
    real = attempt.attempt

    def dividing(task, position, job, **how):
        is_first = (job.iteration, job.subtasks[0].index) == (0, 0)
        return real(task, position, job, **{**how, "in_pieces": is_first})

    with monkeypatch.context() as patch:
        patch.setattr("divea.executors.inline.attempt", dividing)
        assert align(tmp_path / "run", executor=ExecutorSettings(name="inline")) == []
    (tmp_path / "run" / MAPPINGS).unlink()
    assert align(tmp_path / "run") == [] and solved_now(tmp_path / "run") == 0
    runs, name = (tmp_path / "run", observed[0]), result_file(0, 0)
    ours, whole = ({entry.file: entry.made_from for entry in read_journal(run)}[name] for run in runs)
    assert ours == divided_further(whole)


def test_a_folder_without_a_run_cannot_be_continued(tmp_path):
    with pytest.raises(InputError, match="no run to continue: name a task"):
        align_in(tmp_path / "run", None)
    assert not (tmp_path / "run").exists()


def test_a_run_is_continued_with_its_own_settings_or_none(observed):
    run, _ = observed
    assert align_in(run, None, TINY) == []
    with pytest.raises(InputError, match=r"is a run with other settings \(random_seed 0, now 3\)"):
        align_in(run, None, Settings.of(TINY, {"random_seed": 3}))
