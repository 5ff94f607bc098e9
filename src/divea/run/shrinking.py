"""Does jobs within their memory: where it runs out, in smaller batches, and then in smaller subtasks.

Subtasks that were to be done together are done in halves, which changes nothing. A subtask that alone is
too large is divided like any task: it is one. Its pieces see less of the graphs, so its result differs
from what more memory would have given; a note says so. Which pieces depends on the job alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from textwrap import shorten

import numpy as np

from divea.alignment.merge import merge
from divea.alignment.solve import Solved, seed_of
from divea.division import DivEA, Subtask
from divea.graphs import AlignmentTask, Links
from divea.run.jobs import Job, solve_job
from divea.run.limits import free, is_out_of_memory, limit

Say = Callable[[str], None]

SMALLEST = 64
"""Entities of a subtask that is not divided any further: it is not what fills the memory."""


def solve_within(task: AlignmentTask, job: Job, say: Say, *, in_pieces: bool = False) -> list[Solved]:
    """Do a job within its memory; with `in_pieces` its subtasks are divided from the start."""
    if not in_pieces:
        try:
            with limit(job.device, job.memory):
                return solve_job(task, job)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            failure = shorten(f"{type(error).__name__}: {error}", 140)
        # Only here, outside of the handler, are the arrays of the failed attempt let go of.
        free(job.device)
        if len(job.subtasks) > 1:
            middle = len(job.subtasks) // 2
            say(f"memory ran out over {len(job.subtasks)} subtasks at once ({failure}): done in two halves")
            halves = job.subtasks[:middle], job.subtasks[middle:]
            return [item for half in halves for item in solve_within(task, replace(job, subtasks=half), say)]
        say(f"memory ran out over subtask {job.subtasks[0].index} ({failure})")
    return [_solve_in_pieces(task, job, subtask, say) for subtask in job.subtasks]


def _solve_in_pieces(task: AlignmentTask, job: Job, subtask: Subtask, say: Say) -> Solved:
    pieces = divide_further(task, subtask, seed_of(job.seed, job.iteration, subtask.index))
    sizes = " + ".join(str(piece.size) for piece in pieces)
    say(f"subtask {subtask.index} of {subtask.size} entities was divided further, into {sizes}")
    found = [solve_within(task, replace(job, subtasks=(piece,)), say)[0] for piece in pieces]
    # A candidate of several pieces is as near to the unmatched as it is in the best of them.
    sums = np.zeros(len(subtask.candidates), dtype=np.float32)
    for piece, solved in zip(pieces, found, strict=True):
        at = np.searchsorted(subtask.candidates, piece.candidates)
        sums[at] = np.maximum(sums[at], solved.top_sums)
    return Solved(merge([solved.matches for solved in found])[0], sums)


def divide_further(task: AlignmentTask, subtask: Subtask, seed: int) -> Sequence[Subtask]:
    """The subtask as pieces of at most half its size, which share its unmatched entities out."""
    if subtask.size <= SMALLEST:
        raise MemoryError(f"no room for a subtask of {subtask.size} entities")
    local = subtask.local(task)
    divided = DivEA(2, subtask.size // 2, seed, delta1=0.5, delta2=0.0).divide(local)
    source, target = subtask.source_entities, subtask.target_entities
    return [
        Subtask(
            subtask.index,
            source[piece.source_entities],
            target[piece.target_entities],
            Links(source[piece.seeds.source], target[piece.seeds.target]),
            # What is context in the subtask is context in its pieces.
            np.intersect1d(source[piece.unmatched], subtask.unmatched),
            np.intersect1d(target[piece.candidates], subtask.candidates),
        )
        for piece in divided.subtasks
    ]
