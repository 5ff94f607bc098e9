"""Jobs: the work of an iteration cut into pieces that any process on any machine can do.

A job holds all that decides its result but the graphs, which a worker has of its own. So the same job
gives the same bytes wherever and whenever it is done, and however often it has to be tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from divea.alignment.loop import Work
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved, seed_of, solve
from divea.division import Subtask
from divea.division.columns import contains
from divea.graphs import AlignmentTask, Links
from divea.models import resolve_model
from divea.models.interface import Model

UNLIMITED = {"cpu": 1 << 30, "cuda": 4 << 30}
"""Bytes that batches and blocks are sized for where there is no limit; more gains little."""


@dataclass(frozen=True)
class Job:
    """Subtasks to be solved in one go."""

    iteration: int
    subtasks: tuple[Subtask, ...]
    pseudo_seeds: Links
    """Those with both ends in one of the subtasks."""
    model: str
    options: dict[str, Any]
    matching: str
    top: int
    nearest: int
    seed: int
    """Of the run; `seed_of` makes each subtask's own of it."""
    device: str
    memory: int | None
    """Bytes that solving may take on the device, None for no limit. They size batches and blocks, and may
    decide how a subtask is matched, so they belong to the job."""
    threads: int
    """Of torch on a CPU. Sums in another order differ in the last bits, so it belongs to the job too."""


@dataclass(frozen=True)
class Done:
    """A job's results, in the order of its subtasks, and what they cost."""

    position: int
    """Of the job among those that were asked for."""
    solved: list[Solved]
    notes: tuple[str, ...] = ()
    """What had to be done otherwise than asked, for the user to hear."""
    seconds: float = 0.0
    peak_memory: int = 0
    """The most bytes that the process that did it has held so far."""
    peak_gpu_memory: int = 0


@dataclass(frozen=True)
class Failed:
    """A job that failed as often as is tried."""

    position: int
    log: str


def jobs_of(work: Work, settings: Settings, *, device: str, memory: int | None, threads: int) -> list[Job]:
    """The jobs of an iteration, which together hold its subtasks in order.

    A CPU gets one subtask a job. A GPU is filled: consecutive subtasks share a job while the model says
    that they fit `memory` bytes together. It depends on nothing else, least of all on how many workers
    there are.
    """
    name, options = settings.model_at(work.iteration)
    model = resolve_model(name, **options)
    groups = [[subtask] for subtask in work.subtasks]
    if device != "cpu":
        groups = _filled(model, work, memory or UNLIMITED[device])
    return [
        Job(
            iteration=work.iteration,
            subtasks=tuple(group),
            pseudo_seeds=_inside(work.pseudo_seeds, group),
            model=name,
            options=options,
            matching=settings.matching,
            top=settings.top,
            # A product of its own, for nothing where no division asks for the weights.
            nearest=settings.nearest if settings.weighs_candidates else 0,
            seed=settings.seed,
            device=device,
            memory=memory,
            threads=threads,
        )
        for group in groups
    ]


def _filled(model: Model, work: Work, memory: int) -> list[list[Subtask]]:
    groups: list[list[Subtask]] = []
    taken = 0
    for subtask in work.subtasks:
        # A model that cannot say what it needs (0) gets subtasks one at a time.
        need = model.memory(subtask.local(work.task)) or memory
        if groups and taken + need <= memory:
            groups[-1].append(subtask)
            taken += need
        else:
            groups.append([subtask])
            taken = need
    return groups


def _inside(links: Links, subtasks: Sequence[Subtask]) -> Links:
    inside = np.zeros(len(links), dtype=bool)
    for subtask in subtasks:
        inside |= contains(subtask.source_entities, links.source) & contains(
            subtask.target_entities, links.target
        )
    return Links(links.source[inside], links.target[inside])


def solve_job(task: AlignmentTask, job: Job) -> list[Solved]:
    """Do a job: a pure function of the task's graphs and the job."""
    with _torch_threads(job.threads):
        return list(
            solve(
                resolve_model(job.model, **job.options),
                task,
                job.subtasks,
                job.pseudo_seeds,
                seeds=[seed_of(job.seed, job.iteration, subtask.index) for subtask in job.subtasks],
                matching=job.matching,
                top=job.top,
                nearest=job.nearest,
                device=job.device,
                memory=job.memory or UNLIMITED[job.device],
            )
        )


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
