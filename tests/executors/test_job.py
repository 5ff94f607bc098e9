"""Jobs hold the whole work of an iteration, and give the same result in every executor."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.config import Settings
from divea.division import make_strategy
from divea.executors import Done, ExecutorSettings, check_executor, make_executor, make_jobs
from divea.executors import job as job_module
from divea.executors.inline import Inline
from divea.executors.job import solve_job
from divea.graphs import AlignmentTask, Links
from divea.loop.loop import Runtime, Work, run_loop
from divea.loop.solve import solve, subtask_random_seed
from divea.models import make_model
from tests.executors.small import SETTINGS, TASK, result_bytes, small_work


def test_jobs_give_the_same_results_as_solving_directly(jobs):
    subtasks = small_work().subtasks
    direct = solve(
        make_model(SETTINGS.model),
        TASK,
        subtasks,
        Links.from_pairs([]),
        random_seeds=[subtask_random_seed(0, 0, index) for index in range(4)],
    )
    by_job = [result_bytes(solve_job(TASK, job)) for job in jobs]
    assert by_job == [result_bytes([solved]) for solved in direct]


def test_a_job_does_not_depend_on_the_seeds_of_the_stored_task(jobs):
    """Seeds that are held back make the task of an iteration differ from the stored one."""
    without_seeds = AlignmentTask(TASK.source, TASK.target)
    assert result_bytes(solve_job(without_seeds, jobs[0])) == result_bytes(solve_job(TASK, jobs[0]))


@given(random_seed=st.integers(0, 1 << 20), links=st.integers(0, 200))
def test_pseudo_seeds_of_a_job_are_those_inside_one_of_its_subtasks(random_seed, links):
    subtasks = small_work().subtasks
    rng = np.random.default_rng(random_seed)
    ends = TASK.source.num_entities, TASK.target.num_entities
    pseudo_seeds = Links.from_pairs(rng.integers(0, ends, size=(links, 2)))
    batches = [subtasks[:3], subtasks[3:]]
    found = job_module.inside_each(pseudo_seeds, batches)
    for batch, inside in zip(batches, found, strict=True):
        expected = [
            pair
            for pair in pseudo_seeds.pairs.tolist()
            if any(pair[0] in one.source_entities and pair[1] in one.target_entities for one in batch)
        ]
        assert inside.pairs.tolist() == expected


def test_a_job_holds_only_pseudo_seeds_inside_its_subtasks():
    subtasks = small_work().subtasks
    pseudo_seeds = Links.from_pairs([(subtasks[0].unmatched[0], subtasks[0].candidates[0]), (0, 0)])
    work = Work(1, TASK, subtasks, pseudo_seeds)
    jobs = make_jobs(work, SETTINGS, device="cpu", memory=None, threads=1)
    for job in jobs:
        (subtask,) = job.subtasks
        assert set(job.pseudo_seeds.source.tolist()) <= set(subtask.source_entities.tolist())
        assert set(job.pseudo_seeds.target.tolist()) <= set(subtask.target_entities.tolist())
    assert subtasks[0].unmatched[0] in jobs[0].pseudo_seeds.source


@pytest.fixture(scope="module")
def six_subtasks():
    """The work, the settings and the estimated memory of each subtask."""
    settings = Settings.of(None, {"subtasks": 6, "size": 60, "division.delta1": 0.5, "model": "rrea"})
    subtasks = make_strategy(TASK, settings).divide(TASK).subtasks
    model = make_model(settings.model)
    needs = [model.memory(subtask.local(TASK)) for subtask in subtasks]
    return Work(0, TASK, subtasks, Links.from_pairs([])), settings, needs


def test_jobs_of_a_gpu_are_filled_by_memory(six_subtasks):
    work, settings, needs = six_subtasks
    memory = needs[0] + needs[1]
    jobs = make_jobs(work, settings, device="cuda", memory=memory, threads=1)
    indices = [subtask.index for job in jobs for subtask in job.subtasks]
    assert indices == [subtask.index for subtask in work.subtasks]
    assert len(jobs) < len(work.subtasks)
    for job in jobs:
        if len(job.subtasks) > 1:
            assert sum(needs[subtask.index] for subtask in job.subtasks) <= memory


@pytest.mark.parametrize("limit", [{"memory": 1}, {"memory": None, "subtasks_per_job": 1}])
def test_jobs_of_a_gpu_hold_one_subtask_if_nothing_else_fits_or_is_allowed(six_subtasks, limit):
    work, settings, _ = six_subtasks
    jobs = make_jobs(work, settings, device="cuda", threads=1, **limit)
    assert [len(job.subtasks) for job in jobs] == [1] * len(work.subtasks)


def test_the_loop_runs_with_jobs_as_its_solver(folder):
    def by_jobs(work):
        jobs = make_jobs(work, SETTINGS, device="cpu", memory=None, threads=1)
        return [solved for done in Inline().run(folder, jobs) for solved in done.solved]

    outcome = run_loop(TASK, SETTINGS, Runtime(by_jobs))
    assert len(outcome.matches) == len(TASK.unmatched_source)


def test_a_result_says_what_the_job_took(folder, jobs):
    (done,) = Inline().run(folder, jobs[:1])
    assert isinstance(done, Done)
    assert done.seconds > 0
    assert done.peak_memory > 50 << 20


def test_inline_meets_the_contract():
    check_executor(make_executor(ExecutorSettings(name="inline")))


def test_the_contract_notices_a_lost_job():
    class Loses(Inline):
        def run(self, task_folder, jobs):
            yield from list(super().run(task_folder, jobs))[1:]

    with pytest.raises(AssertionError, match="4 jobs gave results for"):
        check_executor(Loses())


def test_the_contract_notices_other_bytes():
    class Differs(Inline):
        def run(self, task_folder, jobs):
            return super().run(task_folder, [replace(job, random_seed=job.random_seed + 1) for job in jobs])

    with pytest.raises(AssertionError, match="differs"):
        check_executor(Differs())
