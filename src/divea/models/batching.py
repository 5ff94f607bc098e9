"""Many tasks through one model: as many at once as fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

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
    """
    position = 0
    while position < len(tasks):
        count = _how_many_fit(model, tasks[position:], memory)
        batch = slice(position, position + count)
        yield from model.embed_many(tasks[batch], seeds=seeds[batch], device=device)
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
