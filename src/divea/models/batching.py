"""Many tasks through one model: as many at once as fit, fewer when memory runs out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.models.interface import Model

if TYPE_CHECKING:
    from divea.matching import Embeddings


def embed_all(
    model: Model,
    tasks: Sequence[AlignmentTask],
    *,
    seeds: Sequence[int],
    device: str = "cpu",
    memory: int = 4 << 30,
) -> Iterator[Embeddings]:
    """The embeddings of each task, in order, the same as `model.embed` gives one by one.

    Consecutive tasks are trained together while their estimated need stays within `memory` bytes.
    Where a GPU runs out nevertheless, the batch is halved and done again, and later batches stay
    that small; nothing is lost but time.
    """
    import torch

    position, most = 0, len(tasks)
    while position < len(tasks):
        count = _how_many_fit(model, tasks[position : position + most], memory)
        batch = slice(position, position + count)
        try:
            done = model.embed_many(tasks[batch], seeds=seeds[batch], device=device)
        except torch.cuda.OutOfMemoryError as error:
            if count == 1:
                raise InputError(
                    f"task {position} alone does not fit in the memory of {device}; make subtasks smaller"
                ) from error
            most = count // 2
            torch.cuda.empty_cache()
            continue
        yield from done
        position += count


def _how_many_fit(model: Model, tasks: Sequence[AlignmentTask], memory: int) -> int:
    """How many of the first tasks keep within the budget; at least one."""
    total = 0
    for count, task in enumerate(tasks):
        need = model.memory(task)
        total += need
        if count and (not need or total > memory):
            return count
    return len(tasks)
