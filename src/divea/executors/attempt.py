"""Tries a job once in this process, within its memory limit.

If memory runs out, the subtasks of a job are solved in two halves, which does not change the result. A
subtask that is too large on its own is divided like any task. Its pieces see less of the graphs, so the
result differs from what more memory would have given; `Done.divided` and a note say so. The pieces depend on
the job alone.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import shorten

import numpy as np

from divea.archives import map_matches, write_solved
from divea.config import DivisionSettings
from divea.division import DivEA, Subtask
from divea.errors import InputError, printable
from divea.executors.base import Done, Failed, FailureKind, Steps
from divea.executors.job import Job, solve_job
from divea.graphs import AlignmentTask, Links
from divea.io import temporary_path
from divea.loop.lists import Lists
from divea.loop.solve import subtask_random_seed
from divea.models.steps import reporting
from divea.resources.limits import enforced, is_out_of_memory, release_memory, return_freed_blocks
from divea.resources.machine import peak_gpu_memory, peak_memory
from divea.types import Solved

SMALLEST = 64
"""A subtask of at most this many entities is not divided further: it is not what fills the memory."""


@dataclass
class Changes:
    """What a try did differently from what was asked."""

    notes: list[str] = field(default_factory=list)
    """Sentences for the user."""
    divided: bool = False
    """Whether a subtask was divided further, which changes the result."""


def attempt(
    task: AlignmentTask,
    position: int,
    job: Job,
    *,
    in_pieces: bool = False,
    on_steps: Callable[[Steps], None] | None = None,
    results_folder: Path | None = None,
) -> Done | Failed:
    """Try a job once.

    Parameters
    ----------
    position
        The job's position among those given to the executor.
    in_pieces
        Whether its subtasks are divided further from the start.
    on_steps
        Called about once a second while a model trains.
    results_folder
        Where to leave the ranked lists, as temporary files that the result refers to. None keeps them in
        memory.
    """
    report = None if on_steps is None else lambda done, steps: on_steps(Steps(position, done, steps))
    return_freed_blocks()
    changes = Changes()
    start = time.perf_counter()
    try:
        with reporting(report):
            solved = solve_within_memory(task, job, changes, in_pieces=in_pieces)
            if results_folder is not None:
                solved = [_left_in(results_folder, found) for found in solved]
    except Exception as error:
        log = "\n".join([*changes.notes, traceback.format_exc()])
        return Failed(position, _kind(error, job), _one_line(error), log)
    return Done(
        position,
        solved,
        tuple(changes.notes),
        time.perf_counter() - start,
        peak_memory(),
        peak_gpu_memory(job.device),
        changes.divided,
    )


def _left_in(folder: Path, solved: Solved) -> Solved:
    """The result with its lists in a file; the same result if they cannot be written."""
    path = temporary_path(folder / "result.npz")
    try:
        write_solved(solved, path)
        return Solved(map_matches(path), solved.top_sums)
    except (OSError, InputError):
        path.unlink(missing_ok=True)
        return solved


def _kind(error: Exception, job: Job) -> FailureKind:
    if not is_out_of_memory(error):
        return FailureKind.ERROR
    if job.memory is not None:
        return FailureKind.MEMORY_LIMIT
    return FailureKind.HOST_MEMORY if job.device == "cpu" else FailureKind.GPU_MEMORY


def _one_line(error: Exception) -> str:
    return printable(shorten(f"{type(error).__name__}: {error}", 200, placeholder=" ..."))


def solve_within_memory(
    task: AlignmentTask, job: Job, changes: Changes, *, in_pieces: bool = False
) -> list[Solved]:
    """Solve a job within its memory; with `in_pieces` its subtasks are divided from the start."""
    if not in_pieces:
        try:
            with enforced(job.device, job.memory):
                return solve_job(task, job)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            failure = _one_line(error)
        # The arrays of the failed attempt are released only outside of the handler.
        release_memory(job.device)
        if len(job.subtasks) > 1:
            count = len(job.subtasks)
            changes.notes.append(f"memory ran out over {count} subtasks ({failure}): solved in two halves")
            return _solve_in_halves(task, job, changes)
        changes.notes.append(f"memory ran out over subtask {job.subtasks[0].index} ({failure})")
    return [_solve_in_pieces(task, job, subtask, changes) for subtask in job.subtasks]


def _solve_in_halves(task: AlignmentTask, job: Job, changes: Changes) -> list[Solved]:
    middle = len(job.subtasks) // 2
    halves = job.subtasks[:middle], job.subtasks[middle:]
    return [
        solved
        for half in halves
        for solved in solve_within_memory(task, replace(job, subtasks=half), changes)
    ]


def _solve_in_pieces(task: AlignmentTask, job: Job, subtask: Subtask, changes: Changes) -> Solved:
    random_seed = subtask_random_seed(job.random_seed, job.iteration, subtask.index)
    pieces = divide_further(task, subtask, random_seed)
    changes.divided = True
    sizes = " + ".join(str(piece.size) for piece in pieces)
    changes.notes.append(
        f"subtask {subtask.index} of {subtask.size} entities was divided further, into {sizes}"
    )
    found = [solve_within_memory(task, replace(job, subtasks=(piece,)), changes)[0] for piece in pieces]
    # A candidate that is in several pieces gets the highest of its similarity sums.
    sums = np.zeros(len(subtask.candidates), dtype=np.float32)
    for piece, solved in zip(pieces, found, strict=True):
        at = np.searchsorted(subtask.candidates, piece.candidates)
        sums[at] = np.maximum(sums[at], solved.top_sums)
    return Solved(Lists.of([solved.matches for solved in found]).merged(), sums)


def divide_further(task: AlignmentTask, subtask: Subtask, random_seed: int) -> Sequence[Subtask]:
    """Pieces of at most half a subtask's size, which share its unmatched entities."""
    if subtask.size <= SMALLEST:
        raise MemoryError(f"no room for a subtask of {subtask.size} entities")
    settings = DivisionSettings(delta1=0.5)
    divided = DivEA(2, subtask.size // 2, settings, random_seed).divide(subtask.local(task))
    source, target = subtask.source_entities, subtask.target_entities
    return [
        Subtask(
            subtask.index,
            source[piece.source_entities],
            target[piece.target_entities],
            Links(source[piece.seeds.source], target[piece.seeds.target]),
            # Entities that are context in the subtask are context in its pieces.
            np.intersect1d(source[piece.unmatched], subtask.unmatched),
            np.intersect1d(target[piece.candidates], subtask.candidates),
        )
        for piece in divided.subtasks
    ]
