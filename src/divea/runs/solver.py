"""Has a task divided and its subtasks solved, and commits each result as soon as it is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from divea.config import Settings
from divea.division import Division, Feedback, Strategy, Subtask
from divea.errors import SubtaskError
from divea.executors import Done, Executor, Failed, FailureKind, Job, Steps, make_jobs
from divea.graphs import AlignmentTask, Links
from divea.graphs.storage import StoredTask
from divea.loop.lists import Mapper
from divea.loop.loop import Divider, Iteration, Work
from divea.resources.machine import cores
from divea.runs.directory import RunDirectory
from divea.runs.layout import LOG
from divea.runs.log import Log
from divea.runs.refine import Before
from divea.runs.stages import Stages
from divea.types import Matches, Solved


@dataclass(frozen=True)
class FailedJob:
    """A job that failed in every try; the alignment continues without it."""

    fold: int
    """The fold of the cross-validation, from 1; 0 for the main loop."""
    iteration: int
    subtasks: tuple[int, ...]
    kind: FailureKind
    reason: str
    """What happened, in one line."""
    log: str
    """What is known about every try."""


def counted_subtasks(failed: Sequence[FailedJob]) -> str:
    """The number of subtasks of failed jobs, for messages."""
    count = sum(len(job.subtasks) for job in failed)
    return f"{count} subtask{'s' if count > 1 else ''}"


@dataclass
class Solver:
    """Gives the loop the committed results, has the missing ones solved, and commits them as they arrive."""

    run: RunDirectory
    executor: Executor
    log: Log
    stages: Stages
    before: Before | None = None
    """The runs that this one takes results from, if it refines another run."""
    failed: list[FailedJob] = field(default_factory=list)
    _notes: set[str] = field(default_factory=set)

    def __call__(self, work: Work) -> Iterable[Solved]:
        self.stages.end("divide", work.iteration)
        manifest = self.run.manifest
        jobs = make_jobs(
            work,
            manifest.settings,
            device=manifest.device,
            memory=manifest.memory,
            threads=manifest.threads,
            subtasks_per_job=manifest.subtasks_per_job,
            stored=StoredTask(self.run.task, self.run.task_folder),
            mapper=self.executor.mapper(self.run.task_folder),
        )
        self._log_notes(work.notes)
        if work.features:
            weights = {feature.name: round(feature.weight, 4) for feature in work.features}
            self.log("features", fold=work.fold, iteration=work.iteration, weights=weights)
        solved, missing = self._committed(jobs)
        self.log(
            "iteration",
            fold=work.fold,
            iteration=work.iteration,
            subtasks=len(work.subtasks),
            solved_before=len(solved),
        )
        solved |= self._solve(missing)
        self.stages.end("solve", work.iteration)
        self._refuse_total_failure(work)
        return [solved[subtask.index] for subtask in work.subtasks]

    def _solve(self, jobs: list[Job]) -> dict[int, Solved]:
        """The results of the jobs, by subtask; each is committed while the next ones are solved."""
        solved: dict[int, Solved] = {}
        self.executor.on_steps = lambda steps: self._pass_on_steps(jobs[steps.position], steps)
        self.executor.results_folder = self.run.path.absolute()
        with ThreadPoolExecutor(1) as committer:
            committing: tuple[Job, Done, Future[dict[int, Solved]]] | None = None
            for result in self.executor.run(self.run.task_folder, jobs):
                job = jobs[result.position]
                if isinstance(result, Failed):
                    solved |= self._record_failure(job, result)
                    continue
                solved |= self._committed_by(committing)
                committing = (
                    job,
                    result,
                    committer.submit(self._commit, job, result.solved, divided=result.divided),
                )
                if self.run.manifest.memory is not None:
                    # The next job's limit applies to the whole process, so nothing else may run beside it.
                    solved |= self._committed_by(committing)
                    committing = None
            solved |= self._committed_by(committing)
        return solved

    def _pass_on_steps(self, job: Job, steps: Steps) -> None:
        indices = [subtask.index for subtask in job.subtasks]
        self.log.pass_on("steps", subtasks=indices, done=steps.done, all=steps.all)

    def _committed(self, jobs: list[Job]) -> tuple[dict[int, Solved], list[Job]]:
        """The committed results, by subtask, and the jobs without any."""
        solved: dict[int, Solved] = {}
        missing = []
        with ThreadPoolExecutor(cores()) as pool:
            for job, found in zip(jobs, pool.map(self.run.results, jobs), strict=True):
                if found is None:
                    missing.append(job)
                else:
                    solved.update(found.solved)
        if self.before is None or not missing:
            return solved, missing
        taken, missing = self._taken_over(missing, self.before)
        if not solved:
            again = sum(len(job.subtasks) for job in missing)
            self.log(
                "note", text=_what_is_solved_again(again, again + len(taken), self.run.manifest.settings)
            )
        return solved | taken, missing

    def _taken_over(self, jobs: list[Job], before: Before) -> tuple[dict[int, Solved], list[Job]]:
        """The results that the run before has, by subtask, and the jobs that it has not solved."""
        taken: dict[int, Solved] = {}
        missing = []
        for job in jobs:
            found = before.results(job, self.run)
            if found is None:
                missing.append(job)
                continue
            taken |= self._commit(
                job, [found.solved[item.index] for item in job.subtasks], divided=found.divided
            )
        return taken, missing

    def _commit(self, job: Job, solved: list[Solved], *, divided: bool) -> dict[int, Solved]:
        """Commit the results of a job, and return them by subtask, as mapped files."""
        made_from = self.run.made_from(job, divided=divided)
        return {
            subtask.index: self.run.commit_result(job, subtask, made_from, result)
            for subtask, result in zip(job.subtasks, solved, strict=True)
        }

    def _committed_by(
        self, committing: tuple[Job, Done, Future[dict[int, Solved]]] | None
    ) -> dict[int, Solved]:
        """Wait until a job's results are committed, log that it is solved, and return them by subtask."""
        if committing is None:
            return {}
        job, done, commit = committing
        solved = commit.result()
        self.stages.add_job(done)
        for note in done.notes:
            self.log("note", text=note)
        self.log(
            "solved",
            iteration=job.iteration,
            subtasks=[subtask.index for subtask in job.subtasks],
            seconds=round(done.seconds, 3),
            peak_memory=done.peak_memory,
            peak_gpu_memory=done.peak_gpu_memory,
        )
        return solved

    def _record_failure(self, job: Job, failed: Failed) -> dict[int, Solved]:
        indices = tuple(subtask.index for subtask in job.subtasks)
        found = FailedJob(job.fold, job.iteration, indices, failed.kind, failed.reason, failed.log)
        self.failed.append(found)
        self.log(
            "failed",
            fold=job.fold,
            iteration=job.iteration,
            subtasks=list(indices),
            kind=failed.kind,
            reason=failed.reason,
            log=failed.log,
        )
        return {subtask.index: _no_matches(subtask) for subtask in job.subtasks}

    def _refuse_total_failure(self, work: Work) -> None:
        """Raise SubtaskError if no subtask of an iteration was solved: nothing can be learned from it."""
        failed = [item for item in self.failed if (item.fold, item.iteration) == (work.fold, work.iteration)]
        count = sum(len(item.subtasks) for item in failed)
        if count and count == len(work.subtasks):
            place = f"iteration {work.iteration + 1}" + (f" of fold {work.fold}" if work.fold else "")
            what = f"no subtask of {place} could be solved" if count > 1 else f"{place} could not be solved"
            raise SubtaskError(f"{what}: {failed[0].reason}; {LOG} has the details", path=self.run.path)

    def _log_notes(self, notes: Iterable[str]) -> None:
        """Log the notes that were not logged before."""
        for note in notes:
            if note not in self._notes:
                self.log("note", text=note)
                self._notes.add(note)

    def report(self, iteration: Iteration) -> None:
        """Log what an iteration learned."""
        self.log("learned", iteration=iteration.number, pseudo_seeds=len(iteration.pseudo_seeds))
        self.stages.end("learn", iteration.number)


def _what_is_solved_again(again: int, subtasks: int, settings: Settings) -> str:
    """What a refined run solves, for the user."""
    share = again / (subtasks * settings.iterations * (1 + (settings.confidence.folds or 0)))
    which = f"in the last of {settings.iterations} iterations" if settings.iterations > 1 else "once"
    return f"solves {again} of {subtasks} subtasks again, {which}: {share:.0%} of the work of a new run"


def divider(mapper: Mapper, stored: StoredTask) -> Divider:
    """What divides a stored task where `mapper` runs functions.

    On a cluster that is a node, so the process that runs the loop does not need the memory.
    """

    def divide(strategy: Strategy, visible: AlignmentTask, feedback: Feedback | None) -> Division:
        (division,) = mapper(
            partial(_divided, strategy=strategy, stored=stored, seeds=visible.seeds), [feedback]
        )
        return division

    return divide


def _divided(feedback: Feedback | None, *, strategy: Strategy, stored: StoredTask, seeds: Links) -> Division:
    # Only the path of a stored task is sent to another process.
    return strategy.divide(replace(stored.task, seeds=seeds), feedback)


def _no_matches(subtask: Subtask) -> Solved:
    """The result of a subtask that could not be solved."""
    rows = len(subtask.unmatched)
    matches = Matches(
        subtask.unmatched,
        np.zeros((rows, 0), dtype=np.int32),
        np.zeros((rows, 0), dtype=np.float32),
        np.zeros(rows, dtype=bool),
    )
    return Solved(matches, np.zeros(len(subtask.candidates), dtype=np.float32))
