"""Solves subtasks: embed and match, nothing else. This is the unit of work of every executor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from divea.division import Subtask
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import Features, take_features
from divea.graphs.ids import contains, positions
from divea.matching import match
from divea.matching.similarity import UnitRows, mean_of_best
from divea.models import Model, embed_all
from divea.resources.budget import MATCHING_MEMORY, MATCHING_SHARE
from divea.types import Embeddings, Matches, Solved


def solve(
    model: Model,
    task: AlignmentTask,
    subtasks: Sequence[Subtask],
    pseudo_seeds: Links,
    features: Features = (),
    *,
    random_seeds: Sequence[int],
    matching: str = "sinkhorn",
    top: int = 50,
    nearest: int = 10,
    device: str = "cpu",
    memory: int = 4 << 30,
) -> Iterator[Solved]:
    """The result of each subtask, in order; a pure function of the arguments.

    Pseudo-seeds with both ends inside a subtask are seeds for its model, but their entities are matched
    like all others, so that a mistake can be corrected.

    Parameters
    ----------
    features
        They must cover all entities of the subtasks.
    random_seeds
        One per subtask; see `subtask_random_seed`.
    top
        Length of the ranked lists.
    nearest
        The paper's K (Eq. 3); 0 skips the similarity sums.
    memory
        Bytes. Subtasks are embedded together as far as they fit, and matching takes at most a quarter.
    """
    for_matching = min(MATCHING_MEMORY, int(memory * MATCHING_SHARE))
    local = [with_pseudo_seeds(subtask, task, pseudo_seeds, features) for subtask in subtasks]
    embedded = embed_all(model, local, random_seeds=random_seeds, device=device, memory=memory)
    for subtask, inner, random_seed, embeddings in zip(subtasks, local, random_seeds, embedded, strict=True):
        matches = _match(subtask, embeddings, inner, matching, top, random_seed, for_matching)
        yield Solved(matches, _top_sums(subtask, embeddings, nearest, for_matching))


def _match(
    subtask: Subtask,
    embeddings: Embeddings,
    inner: AlignmentTask,
    method: str,
    top: int,
    random_seed: int,
    memory: int,
) -> Matches:
    """The ranked candidates of the unmatched entities; `inner` is the subtask as a task of its own."""
    # Context entities compete, so that a candidate that matches one of them is not forced upon an unmatched
    # entity. The subtask's own seeds decide what is an anchor: the task may have seeds it must not see.
    competing = np.setdiff1d(subtask.source_entities, subtask.seeds.source, assume_unique=True)
    found = match(
        embeddings,
        np.searchsorted(subtask.source_entities, competing),
        np.searchsorted(subtask.target_entities, subtask.candidates),
        inner.features,
        inner.rejected,
        method=method,
        top=top,
        random_seed=random_seed,
        memory=memory,
    )
    own = np.searchsorted(competing, subtask.unmatched)
    place = found.target[own]
    target = np.where(place >= 0, subtask.target_entities[place], -1).astype(np.int32)
    return Matches(subtask.unmatched, target, found.score[own], found.mutual[own])


def _top_sums(subtask: Subtask, embeddings: Embeddings, nearest: int, memory: int) -> npt.NDArray[np.float32]:
    """Eq. 3 for every candidate; zeros if `nearest` is 0 or nothing is unmatched."""
    if not nearest or not len(subtask.unmatched):
        return np.zeros(len(subtask.candidates), dtype=np.float32)
    candidates = np.searchsorted(subtask.target_entities, subtask.candidates)
    unmatched = np.searchsorted(subtask.source_entities, subtask.unmatched)
    rows = UnitRows(embeddings.target, candidates), UnitRows(embeddings.source, unmatched)
    # With fewer than K unmatched entities this is K times their mean; Eq. 4 scales the difference away.
    means: npt.NDArray[np.float32] = mean_of_best(*rows, memory, nearest).cpu().numpy()
    return nearest * means


def with_pseudo_seeds(
    subtask: Subtask, task: AlignmentTask, pseudo_seeds: Links, features: Features = ()
) -> AlignmentTask:
    """The subtask as a task of its own: pseudo-seeds are seeds, and features are those of its entities."""
    local = subtask.local(task)
    inside = contains(subtask.source_entities, pseudo_seeds.source)
    inside &= contains(subtask.target_entities, pseudo_seeds.target)
    more = Links(
        positions(subtask.source_entities, pseudo_seeds.source[inside]),
        positions(subtask.target_entities, pseudo_seeds.target[inside]),
    )
    own = take_features(features, subtask.source_entities, subtask.target_entities)
    return replace(local, seeds=local.seeds.union(more), features=own)


def subtask_random_seed(run_random_seed: int, iteration: int, subtask: int) -> int:
    """A random seed that depends on the arguments alone, not on where or when the subtask is solved.

    >>> subtask_random_seed(0, 1, 2) == subtask_random_seed(0, 1, 2) != subtask_random_seed(0, 2, 1)
    True
    """
    text = f"{run_random_seed}/{iteration}/{subtask}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest(), "big")
