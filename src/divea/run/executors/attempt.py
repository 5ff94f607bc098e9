"""Tries a job in this process, measures it, and turns what it raises into a log."""

from __future__ import annotations

import time
import traceback

from divea.graphs import AlignmentTask
from divea.run.jobs import Done, Failed, Job, solve_job
from divea.run.peaks import peak_gpu_memory, peak_memory


def attempt(task: AlignmentTask, position: int, job: Job) -> Done | Failed:
    """The result of a job; a job is a pure function, so what raises here would raise again."""
    notes: list[str] = []
    start = time.perf_counter()
    try:
        solved = solve_job(task, job, notes.append)
    except Exception:
        return Failed(position, "\n".join([*notes, traceback.format_exc()]))
    seconds = time.perf_counter() - start
    return Done(position, solved, tuple(notes), seconds, peak_memory(), peak_gpu_memory(job.device))
