"""Jobs: the whole work and nothing but the work, whoever does it."""

from dataclasses import replace

import pytest

from divea.alignment.loop import Work, run_loop
from divea.alignment.settings import Settings
from divea.alignment.solve import seed_of, solve
from divea.division import division_strategy
from divea.errors import InputError
from divea.graphs import AlignmentTask, Links
from divea.models import resolve_model
from divea.run.executors import check_executor, make_executor
from divea.run.executors.inline import Inline
from divea.run.jobs import Done, jobs_of, solve_job
from tests.run.conftest import bytes_of
from tests.run.parent import SMALL


def test_jobs_give_what_solving_gives(task, jobs):
    subtasks = division_strategy("divea", 4, 100).divide(task).subtasks
    seeds = [seed_of(0, 0, index) for index in range(4)]
    direct = solve(
        resolve_model("label-propagation", **SMALL), task, subtasks, Links.from_pairs([]), seeds=seeds
    )
    assert bytes_of([solve_job(task, job) for job in jobs]) == bytes_of([[solved] for solved in direct])


def test_a_job_needs_the_graphs_alone(task, jobs):
    """Held-back seeds make the task of an iteration another one than the stored."""
    bare = AlignmentTask(task.source, task.target)
    assert bytes_of([solve_job(bare, jobs[0])]) == bytes_of([solve_job(task, jobs[0])])


def test_only_pseudo_seeds_of_its_own_travel_with_a_job(task):
    subtasks = division_strategy("divea", 4, 100).divide(task).subtasks
    pseudo = Links.from_pairs([(subtasks[0].unmatched[0], subtasks[0].candidates[0]), (0, 0)])
    jobs = jobs_of(Work(1, task, subtasks, pseudo), Settings(), device="cpu", memory=None, threads=1)
    for job in jobs:
        (own,) = job.subtasks
        assert set(job.pseudo_seeds.source.tolist()) <= set(own.source_entities.tolist())
        assert set(job.pseudo_seeds.target.tolist()) <= set(own.target_entities.tolist())
    assert subtasks[0].unmatched[0] in jobs[0].pseudo_seeds.source


def test_a_gpu_is_filled_by_memory_alone(task):
    subtasks = division_strategy("divea", 6, 60).divide(task).subtasks
    settings = Settings(model="rrea")
    model = resolve_model("rrea")
    work = Work(0, task, subtasks, Links.from_pairs([]))
    needs = [model.memory(subtask.local(task)) for subtask in subtasks]
    memory = needs[0] + needs[1]
    jobs = jobs_of(work, settings, device="cuda", memory=memory, threads=1)
    assert [subtask.index for job in jobs for subtask in job.subtasks] == [s.index for s in subtasks]
    assert len(jobs) < len(subtasks)
    for job in jobs:
        if len(job.subtasks) > 1:
            assert sum(needs[subtask.index] for subtask in job.subtasks) <= memory
    one_by_one = jobs_of(work, settings, device="cuda", memory=1, threads=1)
    assert [len(job.subtasks) for job in one_by_one] == [1] * len(subtasks)


def test_a_run_through_an_executor(task, folder):
    """The loop with jobs as its solver."""
    settings = Settings(subtasks=4, size=100, model_options=SMALL)

    def by_jobs(work):
        jobs = jobs_of(work, settings, device="cpu", memory=None, threads=1)
        return [solved for done in Inline().run(folder, jobs) for solved in done.solved]

    outcome = run_loop(task, settings, by_jobs)
    assert len(outcome.matches) == len(task.unmatched_source)


def test_inline_keeps_the_contract():
    check_executor(make_executor("inline"))


def test_what_a_job_took_is_measured(folder, jobs):
    (done,) = Inline().run(folder, jobs[:1])
    assert isinstance(done, Done)
    assert done.seconds > 0
    assert done.peak_memory > 50 << 20


def test_the_contract_notices_an_executor_that_loses_a_job():
    class Loses(Inline):
        def run(self, task_folder, jobs):
            yield from list(super().run(task_folder, jobs))[1:]

    with pytest.raises(AssertionError, match="4 jobs gave results for"):
        check_executor(Loses())


def test_the_contract_notices_other_bytes():
    class Other(Inline):
        def run(self, task_folder, jobs):
            return super().run(task_folder, [replace(job, seed=job.seed + 1) for job in jobs])

    with pytest.raises(AssertionError, match="differs"):
        check_executor(Other())


def test_an_unknown_executor_is_refused():
    with pytest.raises(InputError, match="choose from inline, local, ray"):
        make_executor("slurm")
