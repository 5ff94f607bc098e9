"""Jobs: the work of an iteration, in pieces that any process on any machine can run.

A job holds everything that decides its result except for the task (graphs and rejected pairs), which every
worker opens itself. The same job therefore gives the same bytes wherever and whenever it runs, and however
often it has to be tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from divea.config import ModelSettings, Settings
from divea.division import Subtask, Whole
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import Features, take_features
from divea.graphs.ids import contains, ranges
from divea.graphs.planted import planted_pair
from divea.graphs.storage import StoredTask
from divea.loop.lists import Mapper
from divea.loop.loop import Work
from divea.loop.solve import solve, subtask_random_seed
from divea.models import make_model
from divea.resources.budget import UNLIMITED_JOB_MEMORY, pack
from divea.resources.row_blocks import in_threads
from divea.types import Solved


@dataclass(frozen=True)
class Job:
    """Subtasks to be solved together."""

    fold: int
    """The fold of the cross-validation that it belongs to; 0 for the main loop."""
    iteration: int
    subtasks: tuple[Subtask, ...]
    pseudo_seeds: Links
    """The pseudo-seeds with both ends in one of the subtasks."""
    features: Features
    """The features of the entities of the subtasks."""
    model: ModelSettings
    matching: str
    top: int
    nearest: int
    random_seed: int
    """The run's random seed, from which those of the subtasks are derived."""
    device: str
    memory: int | None
    """Bytes that solving may take on the device; None for no limit. It decides the size of batches and
    blocks, and so how a subtask is matched."""
    threads: int
    """Threads of torch on a CPU. With another number of threads, sums differ in the last bits."""


def make_jobs(
    work: Work,
    settings: Settings,
    *,
    device: str,
    memory: int | None,
    threads: int,
    subtasks_per_job: int | None = None,
    stored: StoredTask | None = None,
    mapper: Mapper = in_threads,
) -> list[Job]:
    """The jobs of an iteration, which together hold its subtasks in order.

    On a CPU, every subtask is a job. On a GPU, consecutive subtasks share a job as long as the model's
    estimate says that they fit into memory together. The number of workers makes no difference.

    Parameters
    ----------
    stored, mapper
        The same task in a folder, and what runs the model's estimates for its subtasks.
    """
    model = settings.model_at(work.iteration)
    batches: list[tuple[Subtask, ...]] = [(subtask,) for subtask in work.subtasks]
    if device != "cpu":
        estimate = partial(_memory, model=model, stored=stored or StoredTask(work.task, Path()))
        needs = list(mapper(estimate, work.subtasks))
        parts = pack(needs, memory or UNLIMITED_JOB_MEMORY[device], subtasks_per_job)
        batches = [work.subtasks[part.start : part.stop] for part in parts]
    pseudo_seeds = inside_each(work.pseudo_seeds, batches)
    return [
        Job(
            fold=work.fold,
            iteration=work.iteration,
            subtasks=subtasks,
            pseudo_seeds=own_pseudo_seeds,
            features=_features_of(work.features, subtasks),
            model=model,
            matching=settings.matching.method,
            top=settings.output.top,
            # Similarity sums cost a matrix product; they are skipped unless the division uses them.
            nearest=settings.division.nearest if settings.weighs_similarity else 0,
            random_seed=settings.random_seed,
            device=device,
            memory=memory,
            threads=threads,
        )
        for subtasks, own_pseudo_seeds in zip(batches, pseudo_seeds, strict=True)
    ]


def _memory(subtask: Subtask, *, model: ModelSettings, stored: StoredTask) -> int:
    """The bytes that a model takes for a subtask."""
    return make_model(model).memory(subtask.local(stored.task))


def inside_each(links: Links, batches: Sequence[Sequence[Subtask]]) -> Iterator[Links]:
    """For each batch of subtasks, the links with both ends in one of them."""
    return in_threads(partial(_inside, links=links), batches)


def _inside(batch: Sequence[Subtask], *, links: Links) -> Links:
    """The links with both ends in one of the subtasks."""
    found = [np.zeros(0, dtype=np.int64)]
    for subtask in batch:
        # Links are sorted by source, so those of an entity are consecutive.
        first = np.searchsorted(links.source, subtask.source_entities)
        count = np.searchsorted(links.source, subtask.source_entities, side="right") - first
        row = ranges(first, count)
        found.append(row[contains(subtask.target_entities, links.target[row])])
    inside = np.unique(np.concatenate(found))
    return Links(links.source[inside], links.target[inside])


def _features_of(features: Features, subtasks: Sequence[Subtask]) -> Features:
    """The features of the entities of the subtasks."""
    if not features:
        return ()
    source = np.unique(np.concatenate([subtask.source_entities for subtask in subtasks]))
    target = np.unique(np.concatenate([subtask.target_entities for subtask in subtasks]))
    return take_features(features, source, target)


def solve_job(task: AlignmentTask, job: Job) -> list[Solved]:
    """Solve a job's subtasks: a pure function of the task and the job."""
    random_seeds = [
        subtask_random_seed(job.random_seed, job.iteration, subtask.index) for subtask in job.subtasks
    ]
    with _torch_threads(job.threads):
        return list(
            solve(
                make_model(job.model),
                task,
                job.subtasks,
                job.pseudo_seeds,
                job.features,
                random_seeds=random_seeds,
                matching=job.matching,
                top=job.top,
                nearest=job.nearest,
                device=job.device,
                memory=job.memory or UNLIMITED_JOB_MEMORY[job.device],
            )
        )


@dataclass(frozen=True)
class Rehearsal:
    """A tiny job that sets up all libraries, for a process that waits for its first real one.

    On a GPU, loading libraries and compiling kernels takes seconds.

    >>> Rehearsal(ModelSettings(), "sinkhorn", "cpu")()
    """

    model: ModelSettings
    matching: str
    device: str

    def __call__(self) -> None:
        task = planted_pair().task
        # Two subtasks, because a model may stack them.
        work = make_model(self.model), task, 2 * Whole().divide(task).subtasks, Links.from_pairs([])
        for _ in solve(*work, random_seeds=[0, 1], matching=self.matching, device=self.device):
            pass


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
