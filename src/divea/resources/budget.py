"""Memory budgets: what a limit leaves for jobs, what each kind of work may take, and how work is packed."""

from __future__ import annotations

from collections.abc import Sequence

from divea.errors import InputError
from divea.graphs import AlignmentTask

DIVISION_BLOCK_MEMORY = 3 << 30
"""Bytes that the dense arrays of one block of parts may take while dividing. Two blocks are computed at a
time, or four if both graphs are processed at once."""

MATCHING_MEMORY = 1 << 30
"""Bytes that a block of similarity scores and its temporaries may take, unless the caller says otherwise."""

MATCHING_SHARE = 1 / 4
"""Share of a job's memory that matching may take."""

UNLIMITED_JOB_MEMORY = {"cpu": 1 << 30, "cuda": 4 << 30}
"""Bytes that batches and blocks are sized for if there is no limit; more gains little."""

PROCESS_MEMORY = 480 << 20
"""Bytes of the interpreter and its libraries, most of them torch's."""

ENTITY_MEMORY = 1000
"""Bytes per entity of both graphs that a run keeps between jobs: labels, adjacency, division, ranked
lists."""

GPU_PROCESS_MEMORY = 800 << 20
"""Bytes of a GPU that driver and libraries take, which torch does not count; 753 MiB on an H200."""


def job_memory(task: AlignmentTask, limit: int, device: str) -> int:
    """What a limit on a process's memory leaves for a job. It depends on the task alone."""
    overhead = GPU_PROCESS_MEMORY
    if device == "cpu":
        overhead = PROCESS_MEMORY + ENTITY_MEMORY * (task.source.num_entities + task.target.num_entities)
    if limit <= overhead:
        raise InputError(
            f"memory: a run of this task takes {overhead / 2**20:.0f} MiB before it solves anything, and the "
            f"limit is {limit / 2**20:.0f} MiB"
        )
    return limit - overhead


def pack(needs: Sequence[int], budget: int, most: int | None = None) -> list[range]:
    """Batches of at most `most` consecutive pieces whose needs add up to at most `budget` bytes.

    A piece that alone exceeds the budget, or whose need is unknown (0), is a batch of its own.

    >>> pack([3, 3, 3, 9, 1], budget=6)
    [range(0, 2), range(2, 3), range(3, 4), range(4, 5)]
    """
    batches: list[range] = []
    first = total = 0
    for position, need in enumerate(needs):
        is_full = total + need > budget or position - first == most
        if position > first and (is_full or not need):
            batches.append(range(first, position))
            first, total = position, 0
        total += need or budget
    if needs:
        batches.append(range(first, len(needs)))
    return batches
