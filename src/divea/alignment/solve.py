"""Solves subtasks: embed, match, and nothing else. The unit of work of every executor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from divea.division import Subtask
from divea.division.columns import contains, positions
from divea.graphs import AlignmentTask, Links
from divea.matching import MEMORY_BUDGET, Matches, match
from divea.matching.similarity import UnitRows, mean_of_best
from divea.models.batching import embed_all
from divea.models.interface import Model


@dataclass(frozen=True)
class Solved:
    """What a subtask gives: ranked matches of its unmatched entities, in the ids of the whole task."""

    matches: Matches
    top_sums: npt.NDArray[np.float32]
    """For each candidate the sum of its highest similarities to the unmatched entities (Eq. 3)."""


def solve(
    model: Model,
    task: AlignmentTask,
    subtasks: Sequence[Subtask],
    pseudo_seeds: Links,
    *,
    seeds: Sequence[int],
    matching: str = "sinkhorn",
    top: int = 50,
    nearest: int = 10,
    device: str = "cpu",
    memory: int = 4 << 30,
) -> Iterator[Solved]:
    """The result of each subtask, in order; a pure function of what is given.

    `seeds` are random seeds, one for each subtask (see `seed_of`). Pseudo-seeds with both ends inside
    a subtask are seeds to its model, but their entities are matched like all others, so that a mistake can
    be taken back. Subtasks are embedded together as far as `memory` bytes allow, and matching keeps
    within a quarter of them.
    """
    for_matching = min(MEMORY_BUDGET, memory // 4)
    local = [with_pseudo_seeds(subtask, task, pseudo_seeds) for subtask in subtasks]
    embedded = embed_all(model, local, seeds=seeds, device=device, memory=memory)
    for subtask, seed, embeddings in zip(subtasks, seeds, embedded, strict=True):
        # Context entities take part: a candidate that is the match of one is not forced upon a member.
        # Who is an anchor the subtask says: the task may know seeds that were held back from it.
        rows = np.setdiff1d(subtask.source_entities, subtask.seeds.source, assume_unique=True)
        sources = np.searchsorted(subtask.source_entities, rows)
        candidates = np.searchsorted(subtask.target_entities, subtask.candidates)
        found = match(
            embeddings, sources, candidates, method=matching, top=top, seed=seed, memory=for_matching
        )
        sums = np.zeros(len(candidates), dtype=np.float32)
        if nearest and len(subtask.unmatched):
            members = np.searchsorted(subtask.source_entities, subtask.unmatched)
            pair = UnitRows(embeddings.target, candidates), UnitRows(embeddings.source, members)
            mean = mean_of_best(*pair, for_matching, nearest)
            sums = nearest * mean.cpu().numpy()
        own = np.searchsorted(rows, subtask.unmatched)
        place = found.target[own]
        target = np.where(place >= 0, subtask.target_entities[place], -1).astype(np.int32)
        yield Solved(Matches(subtask.unmatched, target, found.score[own], found.mutual[own]), sums)


def with_pseudo_seeds(subtask: Subtask, task: AlignmentTask, pseudo_seeds: Links) -> AlignmentTask:
    """The subtask as a task of its own, in which pseudo-seeds are seeds like others."""
    local = subtask.local(task)
    inside = contains(subtask.source_entities, pseudo_seeds.source)
    inside &= contains(subtask.target_entities, pseudo_seeds.target)
    more = Links(
        positions(subtask.source_entities, pseudo_seeds.source[inside]),
        positions(subtask.target_entities, pseudo_seeds.target[inside]),
    )
    return AlignmentTask(local.source, local.target, local.seeds.union(more))


def seed_of(run_seed: int, iteration: int, subtask: int) -> int:
    """A random seed that depends on nothing but these: not on who solves a subtask, or when.

    >>> seed_of(0, 1, 2) == seed_of(0, 1, 2) != seed_of(0, 2, 1)
    True
    """
    text = f"{run_seed}/{iteration}/{subtask}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
