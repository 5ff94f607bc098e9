"""The contract of an executor, as a check that ours pass and anybody's own can call."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from divea.alignment.loop import Work
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved
from divea.division import division_strategy
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.storage import save_task
from divea.run.executors.inline import Inline
from divea.run.executors.interface import Executor
from divea.run.jobs import Done, Failed, Job, jobs_of

_ENTITIES, _TRIPLES, _RELATIONS, _SEEDS, _PARTS = 120, 500, 5, 30, 4


def check_executor(executor: Executor) -> None:
    """Raise AssertionError with a plain sentence if the executor breaks a promise.

    It gives every job's result once and the same bytes as `inline`, in whatever order jobs are asked for
    and however often; it goes on when a job fails, and says why that one failed.
    """
    task = _planted()
    settings = Settings(subtasks=_PARTS, model_options={"labels": 32, "heads": 8, "rounds": 2})
    division = division_strategy("divea", _PARTS, 100).divide(task)
    work = Work(0, task, division.subtasks, Links.from_pairs([]))
    jobs = jobs_of(work, settings, device="cpu", memory=None, threads=1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "task"
        save_task(task, place)
        expected = _done(Inline(), place, jobs)
        _same(expected, _done(executor, place, jobs), "the same jobs")
        _same(expected[::-1], _done(executor, place, jobs[::-1]), "the same jobs in another order")
        assert list(executor.run(place, [])) == [], "no job gave a result"
        _check_failure(executor, place, jobs, expected)
        _check_stopped_early(executor, place, jobs, expected)


def _planted() -> AlignmentTask:
    """Two copies of a random graph under unrelated labels."""
    rng = np.random.default_rng(5)
    heads, tails = rng.integers(_ENTITIES, size=(2, _TRIPLES))
    relations = rng.integers(_RELATIONS, size=_TRIPLES)
    names = [[f"{side}{name}" for name in rng.permutation(_ENTITIES)] for side in ("left", "right")]
    source, target = (
        KnowledgeGraph.from_triples(
            ((side[h], f"r{r}", side[t]) for h, r, t in zip(heads, relations, tails, strict=True)), side
        )
        for side in names
    )
    seeds = Links.from_labels(names[0][:_SEEDS], names[1][:_SEEDS], source, target)
    return AlignmentTask(source, target, seeds)


def _done(executor: Executor, folder: Path, jobs: Sequence[Job]) -> list[list[Solved]]:
    results = list(executor.run(folder, jobs))
    for result in results:
        assert isinstance(result, Done), f"job {result.position} failed:\n{result.log}"
    positions = [result.position for result in results]
    assert sorted(positions) == list(range(len(jobs))), f"{len(jobs)} jobs gave results for {positions}"
    found = {result.position: result.solved for result in results if isinstance(result, Done)}
    return [found[position] for position in range(len(jobs))]


def _same(expected: Sequence[list[Solved]], found: Sequence[list[Solved]], what: str) -> None:
    for position, (ours, theirs) in enumerate(zip(expected, found, strict=True)):
        assert list(map(_bytes, ours)) == list(map(_bytes, theirs)), f"{what}: job {position} differs"


def _bytes(solved: Solved) -> tuple[bytes, ...]:
    found = solved.matches
    arrays = found.source, found.target, found.score, found.mutual, solved.top_sums
    return tuple(array.tobytes() for array in arrays)


def _check_failure(
    executor: Executor, folder: Path, jobs: Sequence[Job], expected: Sequence[list[Solved]]
) -> None:
    bad = replace(jobs[0], model="no such model")
    results = {result.position: result for result in executor.run(folder, [bad, *jobs])}
    failed = results.pop(0, None)
    assert isinstance(failed, Failed), f"a job whose model does not exist gave {failed}"
    assert "no such model" in failed.log, f"the log of a failed job does not say why: {failed.log!r}"
    solved = {place - 1: result.solved for place, result in results.items() if isinstance(result, Done)}
    assert len(solved) == len(jobs), f"beside a failing job, {len(solved)} of {len(jobs)} were done"
    _same(expected, [solved[place] for place in range(len(jobs))], "beside a failing job")


def _check_stopped_early(
    executor: Executor, folder: Path, jobs: Sequence[Job], expected: Sequence[list[Solved]]
) -> None:
    results = iter(executor.run(folder, jobs))
    next(results)
    results.close()  # type: ignore[attr-defined]
    _same(expected, _done(executor, folder, jobs), "after results that nobody took")
