"""Aligns a task in a run directory: the loop, with all that is expensive kept on disk as it gets ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from divea.alignment.loop import Iteration, Outcome, Work, run_loop
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved
from divea.division import Subtask
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.matching import Matches
from divea.run.directory import MAPPINGS, MAPPINGS_TSV, RANKED, RunDirectory, open_run
from divea.run.executors import Executor
from divea.run.jobs import Failed, Job, jobs_of
from divea.run.log import Log, Tell
from divea.run.manifest import stored_manifest
from divea.run.peaks import peak_memory
from divea.run.prepare import Limits, prepare
from divea.run.staff import Staff
from divea.run.tables import mappings_table, write_mappings_parquet, write_mappings_tsv, write_ranked


@dataclass(frozen=True)
class Unsolved:
    """A job that could not be done however often it was tried; the alignment goes without it."""

    iteration: int
    subtasks: tuple[int, ...]
    log: str


def align_in(
    out: Path,
    read: Callable[[], AlignmentTask] | None,
    given: dict[str, Any],
    limits: Limits,
    staff: Staff,
    listener: Tell | None = None,
    folder: str | None = None,
) -> list[Unsolved]:
    """Align a task in a folder, or go on with the run that the folder holds.

    Without a task to read, the run's own task and settings are taken. `folder` is the task's, if it came
    from one. The task is read here so that nobody else holds it: the run has its own copy, mapped from disk.
    """
    stored = stored_manifest(out)
    task, wanted, notes = None, None, list[str]()
    if read is not None:
        task = read()
        wanted, notes = prepare(task, given, limits, stored=stored, folder=folder)
    elif stored is None:
        raise InputError("no run to go on with: name a task", path=out)
    elif given:
        raise InputError(f"a run goes on as it was begun: {', '.join(given)} cannot be changed", path=out)
    with closing(open_run(out, task, wanted)) as run:
        del task
        tell = Log(out, listener)
        for note in notes:
            tell("note", text=note)
        tell("started", subtasks=run.manifest.settings.subtasks, iterations=run.manifest.settings.iterations)
        if run.is_finished():
            tell("finished before")
            return []
        with closing(staff.executor(run.manifest, run.task)) as executor:
            return _align(run, executor, tell)


def _align(run: RunDirectory, executor: Executor, tell: Tell) -> list[Unsolved]:
    """Do what is left of a run; what comes back is what could not be solved.

    The loop is deterministic and cheap, so it always runs from the start and finds in the run directory
    what was solved before.
    """
    solver = _Solver(run, executor, tell)
    outcome = run_loop(run.task, run.manifest.settings, solver, solver.learned)
    solver.ended("merge", outcome.iteration - 1)
    complete = not solver.unsolved
    _write_tables(run, outcome, run.manifest.identity if complete else "incomplete", tell)
    solver.ended("write", outcome.iteration - 1)
    run.add_stages(solver.stages)
    tell("finished", unsolved=len(solver.unsolved))
    return solver.unsolved


@dataclass
class _Solver:
    """Gives the loop what is committed, has the rest done, and commits it as it arrives."""

    run: RunDirectory
    executor: Executor
    tell: Tell
    unsolved: list[Unsolved] = field(default_factory=list)
    stages: list[dict[str, Any]] = field(default_factory=list)
    _notes: set[str] = field(default_factory=set)
    _since: float = field(default_factory=time.perf_counter)
    _peak: int = 0
    """Bytes that the hungriest process has held so far."""
    _peak_gpu: int = 0

    def __call__(self, work: Work) -> Iterable[Solved]:
        self.ended("divide", work.iteration)
        manifest = self.run.manifest
        jobs = jobs_of(
            work,
            manifest.settings,
            device=manifest.device,
            memory=manifest.memory,
            threads=manifest.threads,
        )
        made_from = [self.run.made_from(job) for job in jobs]
        found: dict[int, Solved] = {}
        missing = []
        for at, job in enumerate(jobs):
            results = {item.index: self.run.result(job, item, made_from[at]) for item in job.subtasks}
            sound = {index: result for index, result in results.items() if result is not None}
            # A job is done as a whole: on a GPU its subtasks are solved together.
            if len(sound) == len(results):
                found.update(sound)
            else:
                missing.append(at)
        self.tell(
            "iteration", iteration=work.iteration, subtasks=len(work.subtasks), solved_before=len(found)
        )
        for done in self.executor.run(self.run.task_folder, [jobs[at] for at in missing]):
            at = missing[done.position]
            if isinstance(done, Failed):
                found.update(self._set_aside(jobs[at], done.log))
                continue
            for subtask, solved in zip(jobs[at].subtasks, done.solved, strict=True):
                self.run.commit_result(jobs[at], subtask, made_from[at], solved)
                found[subtask.index] = solved
            self._peak = max(self._peak, done.peak_memory)
            self._peak_gpu = max(self._peak_gpu, done.peak_gpu_memory)
            for note in done.notes:
                self.tell("note", text=note)
            self.tell(
                "solved",
                iteration=work.iteration,
                subtasks=[subtask.index for subtask in jobs[at].subtasks],
                seconds=round(done.seconds, 3),
                peak_memory=done.peak_memory,
                peak_gpu_memory=done.peak_gpu_memory,
            )
        self.ended("solve", work.iteration)
        return [found[subtask.index] for subtask in work.subtasks]

    def learned(self, iteration: Iteration) -> None:
        """What the loop says after an iteration."""
        for note in iteration.division.notes:
            if note not in self._notes:
                self.tell("note", text=note)
                self._notes.add(note)
        self.tell("learned", iteration=iteration.number, pseudo_seeds=len(iteration.pseudo_seeds))
        self.ended("learn", iteration.number)

    def ended(self, stage: str, iteration: int) -> None:
        """Measure a stage, from the end of the one before."""
        now = time.perf_counter()
        self._peak = max(self._peak, peak_memory())
        measured = {
            "seconds": round(now - self._since, 3),
            "peak_memory": self._peak,
            "peak_gpu_memory": self._peak_gpu,
        }
        self.stages.append({"stage": stage, "iteration": iteration, **measured})
        self.tell("stage", stage=stage, iteration=iteration, **measured)
        self._since = now

    def _set_aside(self, job: Job, log: str) -> dict[int, Solved]:
        indices = tuple(subtask.index for subtask in job.subtasks)
        self.unsolved.append(Unsolved(job.iteration, indices, log))
        self.tell("failed", iteration=job.iteration, subtasks=list(indices), log=log)
        return {subtask.index: _nothing(subtask) for subtask in job.subtasks}


def _nothing(subtask: Subtask) -> Solved:
    """The result of a subtask that nobody could solve: no target for anybody."""
    rows = len(subtask.unmatched)
    matches = Matches(
        subtask.unmatched,
        np.zeros((rows, 0), dtype=np.int32),
        np.zeros((rows, 0), dtype=np.float32),
        np.zeros(rows, dtype=bool),
    )
    return Solved(matches, np.zeros(len(subtask.candidates), dtype=np.float32))


def _least_confidence(outcome: Outcome, settings: Settings, tell: Tell) -> float:
    """Below which pairs are left out."""
    if outcome.calibration is None:
        tell("note", text="no confidence: too few seeds to learn it on, so no pair is left out")
        return 0.0
    if settings.precision is None:
        return settings.min_confidence
    least = outcome.calibration.confidence_for(settings.precision)
    tell("note", text=f"pairs from a confidence of {least:.3f} on, for a precision of {settings.precision}")
    return least


def _write_tables(run: RunDirectory, outcome: Outcome, made_from: str, tell: Tell) -> None:
    table = mappings_table(outcome, run.task, _least_confidence(outcome, run.manifest.settings, tell))
    run.commit_division(outcome.division)
    run.commit(RANKED, made_from, lambda path: write_ranked(outcome, run.task, path))
    try:
        run.commit(MAPPINGS_TSV, made_from, lambda path: write_mappings_tsv(table, path))
    except InputError as error:
        # A label with a tab in it has no place in TSV; Parquet takes it. A full disk is found below.
        tell("note", text=f"no {MAPPINGS_TSV}: {error}")
    run.commit(MAPPINGS, made_from, lambda path: write_mappings_parquet(table, path))
