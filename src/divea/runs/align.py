"""Aligns a task in a run directory: the loop, with each expensive result committed as soon as it is ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from divea.config import Settings
from divea.config.group import flattened
from divea.errors import InputError
from divea.executors import Executor, ExecutorSettings, choose_executor, make_executor
from divea.executors.job import Rehearsal
from divea.graphs import AlignmentTask
from divea.graphs.storage import StoredTask
from divea.loop.checkpoint import NO_CHECKPOINTS
from divea.loop.features import Computing
from divea.loop.lists import Blocks
from divea.loop.loop import Iteration, Observer, Runtime, run_loop
from divea.models import run_in_threads
from divea.resources.limits import Limits, allow_many_files, return_all_freed
from divea.runs.checkpoints import RunCheckpoints
from divea.runs.directory import INCOMPLETE, RunDirectory
from divea.runs.eta import iteration_costs
from divea.runs.log import Listener, Log
from divea.runs.manifest import Manifest, stored_manifest
from divea.runs.opening import open_run, read_stored_task
from divea.runs.prepare import prepare
from divea.runs.refine import Before, RefinedCheckpoints, open_before, refining
from divea.runs.solver import FailedJob, Solver, divider
from divea.runs.stages import Stages
from divea.runs.write import write_tables
from divea.wording import worded


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
    with closing(open_run(out, task, requested)) as run:
        del task
        allow_many_files()
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
        try:
            with (
                _opened_before(run.manifest) as before_it,
                closing(_make_executor(executor or ExecutorSettings(), run.manifest, run.task)) as workers,
            ):
                failed = _align(run, workers, log, observe, is_finished=is_finished, before=before_it)
        except InputError:
            if stored is None:
                # Otherwise the folder would be a run with these settings, and refuse better ones.
                run.discard()
            raise
        # Workers that were ended may have left temporary files.
        run.sweep()
        return failed


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


def _rehearsal(manifest: Manifest) -> Rehearsal | None:
    """What workers do while the first division is made; None on a CPU, where nothing has to be set up."""
    settings, device = manifest.settings, manifest.device
    return None if device == "cpu" else Rehearsal(settings.model_at(0), settings.matching.method, device)


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
    stages = Stages(log)
    solver = Solver(run, executor, log, stages, before)

    def report(iteration: Iteration) -> None:
        solver.report(iteration)
        if observe is not None:
            observe(iteration)
        # Dividing takes the most memory, so it should not have to add to what learning has left behind.
        return_all_freed()

    computing = Computing(run.manifest.device, run.manifest.memory, run.kept_feature)
    checkpoints = NO_CHECKPOINTS
    if before is not None:
        checkpoints = RefinedCheckpoints(run, log, solver.failed, before)
    elif not is_finished:
        checkpoints = RunCheckpoints(run, log, solver.failed, continues=observe is None)
    if not is_finished:
        executor.prepare(run.task_folder, run.manifest.threads, _rehearsal(run.manifest))
    with run.folder_of_lists() as folder:
        mapper = executor.mapper(run.task_folder)
        blocks = Blocks(mapper, folder)
        divide = divider(mapper, StoredTask(run.task, run.task_folder))
        runtime = Runtime(solver, divide, computing, checkpoints, blocks)
        outcome = run_loop(run.task, run.manifest.settings, runtime, report)
        if is_finished:
            # The loop was repeated for the observer alone: the tables are written already.
            return solver.failed
        stages.end("merge", outcome.iterations - 1)
        is_complete = not solver.failed
        write_tables(run, outcome, run.manifest.identity if is_complete else INCOMPLETE, log, blocks)
        stages.end("write", outcome.iterations - 1)
    run.add_stages(stages.measured)
    log("finished", failed=len(solver.failed))
    return solver.failed
