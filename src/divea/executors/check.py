"""The contract of an executor as an executable check, for the built-in ones and for plug-ins."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from divea.config import LabelPropagationOptions, ModelSettings, Settings
from divea.division import make_strategy
from divea.errors import InputError
from divea.executors.base import Done, Executor, Failed
from divea.executors.inline import Inline
from divea.executors.job import Job, make_jobs
from divea.graphs import Links, save_task
from divea.graphs.planted import planted_pair
from divea.loop.lists import Mapper
from divea.loop.loop import Work
from divea.types import Solved


def check_executor(executor: Executor) -> None:
    """Raise AssertionError with a plain sentence if the executor breaks its contract.

    It returns every job's result once and with the same bytes as `inline`, in whatever order and however
    often jobs are given. If a job fails, it continues with the others, and the log says why the job failed.
    Its mapper returns the results of a function in order, and raises what the function raises.

    >>> from divea.executors import ExecutorSettings, make_executor
    >>> check_executor(make_executor(ExecutorSettings(name="inline")))
    """
    task = planted_pair(120, 500, 5, 30, random_seed=5).task
    options = LabelPropagationOptions(labels=32, heads=8, rounds=2)
    model = ModelSettings(name="label-propagation", label_propagation=options)
    settings = Settings(subtasks=4, size=100, model=model)
    division = make_strategy(task, settings).divide(task)
    work = Work(0, task, division.subtasks, Links.from_pairs([]))
    jobs = make_jobs(work, settings, device="cpu", memory=None, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        task_folder = Path(folder) / "task"
        save_task(task, task_folder)
        expected = _results(Inline(), task_folder, jobs)
        _check_same(expected, _results(executor, task_folder, jobs), "the same jobs")
        reverse = _results(executor, task_folder, jobs[::-1])
        _check_same(expected[::-1], reverse, "the same jobs in another order")
        assert list(executor.run(task_folder, [])) == [], "no jobs gave a result"
        _check_failure(executor, task_folder, jobs, expected)
        _check_stopped_early(executor, task_folder, jobs, expected)
        _check_mapper(executor.mapper(task_folder))


def _results(executor: Executor, folder: Path, jobs: Sequence[Job]) -> list[list[Solved]]:
    results = list(executor.run(folder, jobs))
    for result in results:
        assert isinstance(result, Done), f"job {result.position} failed:\n{result.log}"
    positions = [result.position for result in results]
    assert sorted(positions) == list(range(len(jobs))), f"{len(jobs)} jobs gave results for {positions}"
    found = {result.position: result.solved for result in results if isinstance(result, Done)}
    return [found[position] for position in range(len(jobs))]


def _check_same(expected: Sequence[list[Solved]], found: Sequence[list[Solved]], what: str) -> None:
    for position, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        assert list(map(_bytes, ours)) == list(map(_bytes, theirs)), f"{what}: job {position} differs"


def _bytes(solved: Solved) -> tuple[bytes, ...]:
    found = solved.matches
    arrays = found.source, found.target, found.score, found.mutual, solved.top_sums
    return tuple(array.tobytes() for array in arrays)


def _check_failure(
    executor: Executor, folder: Path, jobs: Sequence[Job], expected: Sequence[list[Solved]]
) -> None:
    bad = replace(jobs[0], matching="no such method")
    results = {result.position: result for result in executor.run(folder, [bad, *jobs])}
    failed = results.pop(0, None)
    assert isinstance(failed, Failed), f"a job whose matching method does not exist gave {failed}"
    assert "no such method" in failed.log, f"the log of a failed job does not say why: {failed.log!r}"
    solved = {place - 1: result.solved for place, result in results.items() if isinstance(result, Done)}
    assert len(solved) == len(jobs), f"beside a failing job, {len(solved)} of {len(jobs)} jobs were done"
    _check_same(expected, [solved[place] for place in range(len(jobs))], "beside a failing job")


def _check_stopped_early(
    executor: Executor, folder: Path, jobs: Sequence[Job], expected: Sequence[list[Solved]]
) -> None:
    results = iter(executor.run(folder, jobs))
    next(results)
    results.close()  # type: ignore[attr-defined]
    _check_same(expected, _results(executor, folder, jobs), "after results that nobody read")


def _check_mapper(mapper: Mapper) -> None:
    numbers = list(range(40))
    assert list(mapper(_doubled, numbers)) == [2 * number for number in numbers], (
        "a mapped function gave other results, or in another order"
    )
    assert list(mapper(_doubled, [])) == [], "no items gave a result"
    results = mapper(_doubled, [1, -1, 2])
    try:
        found: object = list(results)
    except InputError as error:
        found = error
    assert isinstance(found, InputError) and "negative" in str(found), (
        f"a mapped function that raises an error gave {found!r}"
    )


def _doubled(number: int) -> int:
    if number < 0:
        raise InputError("a negative number")
    return 2 * number
