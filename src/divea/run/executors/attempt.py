"""Tries a job in this process, measures it, and turns what it raises into a log."""

from __future__ import annotations

import time
import traceback

from divea.graphs import AlignmentTask
from divea.run.jobs import Done, Failed, Job
from divea.run.limits import return_what_is_freed
from divea.run.peaks import peak_gpu_memory, peak_memory
from divea.run.shrinking import solve_within

TRIES = 3
"""How often a job may fail before it is set aside."""


def attempt(task: AlignmentTask, position: int, job: Job, *, in_pieces: bool = False) -> Done | Failed:
    """One try at a job."""
    return_what_is_freed()
    notes: list[str] = []
    start = time.perf_counter()
    try:
        solved = solve_within(task, job, notes.append, in_pieces=in_pieces)
    except Exception:
        return Failed(position, "\n".join([*notes, traceback.format_exc()]))
    seconds = time.perf_counter() - start
    return Done(position, solved, tuple(notes), seconds, peak_memory(), peak_gpu_memory(job.device))
