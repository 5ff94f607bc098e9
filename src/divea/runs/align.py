"""Aligns a task in a run directory: the loop, with each expensive result committed as soon as it is ready."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from divea.config import Settings
from divea.config.group import flattened
from divea.division import Subtask
from divea.errors import CalibrationError, InputError, SubtaskError
from divea.executors import (
    Done,
    Executor,
    ExecutorSettings,
    Failed,
    FailureKind,
    Job,
    Steps,
    choose_executor,
    make_executor,
    make_jobs,
)
from divea.graphs import AlignmentTask
from divea.graphs.storage import StoredTask
from divea.loop.checkpoint import NO_CHECKPOINTS
from divea.loop.confidence import threshold_for
from divea.loop.features import Computing
from divea.loop.lists import Blocks
from divea.loop.loop import Iteration, Observer, Outcome, Work, run_loop
from divea.models import run_in_threads
from divea.resources.limits import Limits
from divea.resources.machine import cores, peak_memory
from divea.runs.checkpoints import RunCheckpoints
from divea.runs.directory import INCOMPLETE, RunDirectory, open_run, read_stored_task
from divea.runs.eta import iteration_costs
from divea.runs.evidence import write_evidence
from divea.runs.expectation import expectation, expected_figures, no_expectation, write_json
from divea.runs.layout import CALIBRATION, DIVISION, EVIDENCE, FEATURES, LOG, MAPPINGS, MAPPINGS_TSV, RANKED
from divea.runs.log import Listener, Log
from divea.runs.manifest import Manifest, stored_manifest
from divea.runs.prepare import prepare
from divea.runs.refine import Before, RefinedCheckpoints, open_before, refining
from divea.runs.tables import (
    mappings_table,
    tsv_problem,
    write_mappings_parquet,
    write_mappings_tsv,
    write_ranked,
)
from divea.types import Matches, Solved
from divea.wording import worded

MOST_BELOW = 0.1
"""How far the interval of the expected precision may reach below the precision that was asked for."""

DEFAULT_MIN_CONFIDENCE = 0.5
"""The confidence below which pairs are left out, if no threshold is given."""


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


def align_in(
    out: Path,
    read_task: Callable[[], AlignmentTask] | None,
    settings: Settings | None = None,
    *,
    limits: Limits | None = None,
    executor: ExecutorSettings | None = None,
    listener: Listener | None = None,
    observe: Observer | None = None,
    folder: str | None = None,
    refines: Path | None = None,
) -> list[FailedJob]:
    """Align a task in a run directory, or continue the run that the directory holds.

    Parameters
    ----------
    read_task
        Reads the task. It is read here so that no caller keeps it in memory: the run has its own copy,
        mapped from disk. None continues a run with its own task and settings.
    settings
        The settings, or None for the defaults.
    listener
        Called with every event of the run, such as a solved subtask: for progress displays.
    observe
        Called with the division and the matches of every iteration: for experiments.
    folder
        The task folder, if the task came from one.
    refines
        A finished run to refine: `read_task` returns its task with more seeds or rejected pairs, and the
        settings are those of that run.

    Returns
    -------
    list[FailedJob]
        The jobs that could not be solved.
    """
    stored = stored_manifest(out)
    before = None
    if refines is not None:
        before = _manifest_to_refine(refines, settings, out)
        settings, folder = before.settings, before.folder
    if read_task is not None:
        task = read_task()
    elif stored is None:
        raise InputError("no run to continue: name a task", path=out)
    else:
        _check_unchanged(settings, stored, out, "name another folder to start a new run")
        task, settings, folder = read_stored_task(out, stored), stored.settings, stored.folder
    requested, notes = prepare(
        task, settings or Settings(), limits or Limits(), stored=stored or before, folder=folder
    )
    processor = requested.processors[0]
    if refines is not None and before is not None:
        requested, notes = refining(requested, before, refines), ()
        if stored is None:
            # Anything that is missing must show before a new run is created.
            open_before(refines).close()
    elif read_task is None and stored is not None:
        requested = requested.model_copy(update={"refines": stored.refines})
    with closing(open_run(out, task, requested, stored)) as run:
        del task
        log = Log(out, listener)
        for note in notes:
            log("note", text=note)
        _log_start(log, run)
        is_finished = run.is_finished()
        if is_finished:
            log("finished before")
        if is_finished and observe is None:
            return []
        if refines is not None:
            run.set_folder_before(str(refines.absolute()))
        if run.add_processor(processor):
            kinds = ", then ".join(run.manifest.processors)
            log("note", text=f"continued on another kind of processor ({kinds}): the last digits may differ")
        with (
            _opened_before(run.manifest) as before_it,
            closing(_make_executor(executor or ExecutorSettings(), run.manifest, run.task)) as workers,
        ):
            return _align(run, workers, log, observe, is_finished=is_finished, before=before_it)


def _manifest_to_refine(run: Path, settings: Settings | None, out: Path) -> Manifest:
    """The manifest of the run that the one in `out` is to refine."""
    if run.resolve() == out.resolve():
        raise InputError("is the run to refine; name another folder for the new run", path=out)
    manifest = Manifest.load(run)
    _check_unchanged(settings, manifest, run, "a run is refined with its own settings: leave them out")
    return manifest


@contextmanager
def _opened_before(manifest: Manifest) -> Iterator[Before | None]:
    """The runs that a run with this manifest takes results from; None if it refines no other run."""
    if manifest.folder_before is None:
        yield None
        return
    folder = Path(manifest.folder_before)
    if not folder.is_dir():
        advice = worded(command="name its new place with --from", python="refine it from its new place")
        raise InputError(f"the run that is refined is not there any more; {advice}", path=folder)
    with closing(open_before(folder)) as before:
        if before.latest.manifest.identity != manifest.refines:
            raise InputError("is another run than the one that was refined", path=folder)
        yield before


def _log_start(log: Log, run: RunDirectory) -> None:
    settings = run.manifest.settings
    costs = iteration_costs(run.task, settings, run.manifest.device)
    log(
        "started",
        subtasks=settings.subtasks,
        iterations=settings.iterations,
        folds=settings.confidence.folds or 0,
        costs=costs,
    )


def _check_unchanged(settings: Settings | None, stored: Manifest, run: Path, advice: str) -> None:
    """Raise InputError if a setting that was given differs from that of the run."""
    effective = flattened(stored.settings.plain())
    given = flattened(settings.given()) if settings is not None else {}
    differences = [
        f"{path} {effective.get(path)!r}, now {value!r}"
        for path, value in given.items()
        if effective.get(path) != value
    ]
    if differences:
        what = f"is a run with other settings ({'; '.join(differences)})"
        raise InputError(f"{what}; {advice}", path=run)


def _make_executor(settings: ExecutorSettings, manifest: Manifest, task: AlignmentTask) -> Executor:
    chosen = choose_executor(
        settings,
        subtasks=manifest.settings.subtasks or 1,
        entities=task.source.num_entities + task.target.num_entities,
        device=manifest.device,
        has_memory_limit=manifest.memory is not None,
        in_threads=run_in_threads(manifest.settings.models(), manifest.device),
    )
    return make_executor(chosen)


def _align(
    run: RunDirectory,
    executor: Executor,
    log: Log,
    observe: Observer | None,
    *,
    is_finished: bool,
    before: Before | None,
) -> list[FailedJob]:
    """Do what is left of a run, and return the jobs that could not be solved.

    The loop continues after the last complete iteration. For an observer, it is repeated from the first
    iteration, and reads what was solved before from the run directory.
    """
    stages = _Stages(log)
    solver = _Solver(run, executor, log, stages, before)

    def report(iteration: Iteration) -> None:
        solver.report(iteration)
        if observe is not None:
            observe(iteration)

    computing = Computing(run.manifest.device, run.manifest.memory, run.kept_feature)
    checkpoints = NO_CHECKPOINTS
    if before is not None:
        checkpoints = RefinedCheckpoints(run, log, solver.failed, before)
    elif not is_finished:
        checkpoints = RunCheckpoints(run, log, solver.failed, continues=observe is None)
    if not is_finished:
        executor.prepare()
    with run.folder_of_lists() as folder:
        blocks = Blocks(executor.mapper(run.task_folder), folder)
        outcome = run_loop(run.task, run.manifest.settings, solver, report, computing, checkpoints, blocks)
        if is_finished:
            # The loop was repeated for the observer alone: the tables are written already.
            return solver.failed
        stages.end("merge", outcome.iterations - 1)
        is_complete = not solver.failed
        _write_tables(run, outcome, run.manifest.identity if is_complete else INCOMPLETE, log, blocks)
        stages.end("write", outcome.iterations - 1)
    run.add_stages(stages.measured)
    log("finished", failed=len(solver.failed))
    return solver.failed


class _Stages:
    """Wall time and peak memory of the stages of a run; a stage starts where the previous one ended."""

    def __init__(self, log: Log):
        self._log = log
        self._start = time.perf_counter()
        self.peak = self.peak_gpu = 0
        self.measured: list[dict[str, Any]] = []

    def end(self, stage: str, iteration: int) -> None:
        now = time.perf_counter()
        self.peak = max(self.peak, peak_memory())
        measured = {
            "seconds": round(now - self._start, 3),
            "peak_memory": self.peak,
            "peak_gpu_memory": self.peak_gpu,
        }
        self.measured.append({"stage": stage, "iteration": iteration, **measured})
        self._log("stage", stage=stage, iteration=iteration, **measured)
        self._start = now

    def add_job(self, done: Done) -> None:
        self.peak = max(self.peak, done.peak_memory)
        self.peak_gpu = max(self.peak_gpu, done.peak_gpu_memory)


def _what_is_solved_again(again: int, subtasks: int, settings: Settings) -> str:
    """What a refined run solves, for the user."""
    share = again / (subtasks * settings.iterations * (1 + (settings.confidence.folds or 0)))
    which = f"in the last of {settings.iterations} iterations" if settings.iterations > 1 else "once"
    return f"solves {again} of {subtasks} subtasks again, {which}: {share:.0%} of the work of a new run"


@dataclass
class _Solver:
    """Gives the loop the committed results, has the missing ones solved, and commits them as they arrive."""

    run: RunDirectory
    executor: Executor
    log: Log
    stages: _Stages
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


def _confidence_threshold(outcome: Outcome, settings: Settings, log: Log) -> float:
    """The confidence below which pairs are left out of the mappings."""
    if outcome.calibration is None:
        return 0.0
    precision, least = settings.confidence.precision, settings.confidence.min_confidence
    if precision is None:
        return DEFAULT_MIN_CONFIDENCE if least is None else least
    threshold = threshold_for(precision, outcome.confidence)
    if np.isinf(threshold):
        log("note", text=f"no pair is certain enough for an expected precision of {precision}")
        return threshold
    log("note", text=f"confidence threshold {threshold:.3f}, for an expected precision of {precision}")
    return threshold


def _refuse_wide_interval(expected: dict[str, Any], settings: Settings) -> None:
    """Raise CalibrationError if the seeds say too little about the precision that was asked for."""
    precision, interval = settings.confidence.precision, expected["interval"]
    if precision is not None and interval is not None and interval[0] < precision - MOST_BELOW:
        raise CalibrationError(
            f"a precision of {precision} cannot be promised: the {expected['judged_pairs']} judged pairs "
            f"say only that it is between {interval[0]:.2f} and {interval[1]:.2f}; add seeds, or leave "
            "the threshold out to get all pairs"
        )


def _write_tables(run: RunDirectory, outcome: Outcome, made_from: str, log: Log, blocks: Blocks) -> None:
    threshold = _confidence_threshold(outcome, run.manifest.settings, log)
    table = mappings_table(outcome, run.task, threshold)
    settings = run.manifest.settings
    expected = expected_figures(outcome, settings, len(run.task.seeds), threshold)
    _refuse_wide_interval(expected, settings)
    is_calibrated = outcome.calibration is not None
    for line in expectation(expected) if is_calibrated else [no_expectation(expected, settings)]:
        log("note", text=line)
    if made_from == INCOMPLETE:
        # After a failure, no checkpoint keeps the division, and coverage is measured on it.
        run.commit_division(DIVISION, made_from, outcome.division)
    run.commit(CALIBRATION, made_from, lambda path: write_json(expected, path))
    run.commit(FEATURES, made_from, lambda path: write_json(outcome.learned, path))
    run.commit(EVIDENCE, made_from, lambda path: write_evidence(outcome, path))
    stored = StoredTask(run.task, run.task_folder)
    run.commit(RANKED, made_from, lambda path: write_ranked(outcome, stored, path, blocks))
    if problem := tsv_problem(table):
        log("note", text=f"no {MAPPINGS_TSV}: {problem}")
        run.commit_absence(MAPPINGS_TSV, made_from)
    else:
        run.commit(MAPPINGS_TSV, made_from, lambda path: write_mappings_tsv(table, path))
    run.commit(MAPPINGS, made_from, lambda path: write_mappings_parquet(table, path))
