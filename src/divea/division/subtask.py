"""What a division returns: subtasks, each an alignment task small enough to be solved on its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from divea.errors import InputError
from divea.graphs import AlignmentTask, Links
from divea.graphs.ids import contains, positions
from divea.types import Ids


@dataclass(frozen=True, eq=False)
class Subtask:
    """A piece of an alignment task, in the entity ids of the whole task.

    `source_entities` are the unmatched entities and their context, `target_entities` the candidates and
    their context; both are sorted. `seeds` are the task's seeds with both ends inside.
    """

    index: int
    source_entities: Ids
    target_entities: Ids
    seeds: Links
    unmatched: Ids
    """Source entities that this subtask, and no other, must match."""
    candidates: Ids
    """Target entities that it may match them with; never an anchor."""

    @classmethod
    def of(
        cls,
        index: int,
        task: AlignmentTask,
        *,
        source_entities: np.ndarray,
        target_entities: np.ndarray,
        unmatched: np.ndarray,
        candidates: np.ndarray,
    ) -> Subtask:
        """Sort the lists of entities and find the seeds that lie inside."""
        source, target = _sorted(source_entities), _sorted(target_entities)
        # Seeds are sorted by source, and a subtask has few entities: look the entities up among the seeds.
        anchors = source[contains(task.seeds.source, source)]
        seed = np.searchsorted(task.seeds.source, anchors)
        seed = seed[contains(target, task.seeds.target[seed])]
        seeds = Links(task.seeds.source[seed], task.seeds.target[seed])
        return cls(index, source, target, seeds, _sorted(unmatched), _sorted(candidates))

    @property
    def size(self) -> int:
        """Number of entities of both graphs, which the limit S applies to."""
        return len(self.source_entities) + len(self.target_entities)

    def local(self, task: AlignmentTask) -> AlignmentTask:
        """The subtask as a task of its own; a local id is a rank in `source_entities` or
        `target_entities`.
        """
        return AlignmentTask(
            task.source.subgraph(self.source_entities),
            task.target.subgraph(self.target_entities),
            self._local_links(self.seeds),
            rejected=self._local_links(self._inside(task.rejected)),
        )

    def _inside(self, links: Links) -> Links:
        """The links with both ends inside."""
        inside = contains(self.source_entities, links.source) & contains(self.target_entities, links.target)
        return Links(links.source[inside], links.target[inside])

    def _local_links(self, links: Links) -> Links:
        return Links(
            positions(self.source_entities, links.source), positions(self.target_entities, links.target)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subtask):
            return NotImplemented
        return (
            self.index == other.index
            and self.seeds == other.seeds
            and np.array_equal(self.source_entities, other.source_entities)
            and np.array_equal(self.target_entities, other.target_entities)
            and np.array_equal(self.unmatched, other.unmatched)
            and np.array_equal(self.candidates, other.candidates)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Subtask({self.index}: {len(self.source_entities)} + {len(self.target_entities)} entities, "
            f"{len(self.seeds)} seeds, {len(self.unmatched)} unmatched, {len(self.candidates)} candidates)"
        )


@dataclass(frozen=True)
class Shares:
    """How a subtask's size limit S is shared between its two sides.

    `source` is the source side's share of S (the paper's delta1). `connecting` is the share of the target
    side that goes to connecting entities (delta2 as the paper's code counts it, where it is 0).
    """

    source: float = 0.5
    connecting: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.source < 1:
            raise InputError(f"delta1 is a share between 0 and 1, not {self.source}")
        if not 0 <= self.connecting < 1:
            raise InputError(f"delta2 is a share from 0 to below 1, not {self.connecting}")

    def source_size(self, limit: int) -> int:
        """Source entities that a subtask may hold; at least one place is left to the target."""
        return min(max(1, int(self.source * limit)), limit - 1)


@dataclass(frozen=True)
class Division:
    """The subtasks of a task, and the decisions made on the way."""

    subtasks: tuple[Subtask, ...]
    groups: Ids = field(repr=False)
    """The part of each source entity, anchors included: the index of its subtask, or -1."""
    notes: tuple[str, ...] = ()
    """Decisions that a user should know of: shares chosen, groups divided further."""
    shares: Shares | None = None
    """How the size limit was shared; reused in the next iteration."""
    seconds: dict[str, float] = field(default_factory=dict, repr=False, compare=False)
    """Wall time of each step."""

    def __len__(self) -> int:
        return len(self.subtasks)

    def covers_unmatched_of(self, task: AlignmentTask) -> bool:
        """Whether the subtasks hold exactly the task's unmatched entities, so no seed was added or
        removed.
        """
        lists = [subtask.unmatched for subtask in self.subtasks]
        return np.array_equal(np.sort(np.concatenate([*lists, np.zeros(0, np.int32)])), task.unmatched_source)


@dataclass(frozen=True)
class Feedback:
    """What an iteration learned, for the division of the next one."""

    previous: Division | None
    """None in the first iteration."""
    pseudo_seeds: Links
    """Confident matches of the previous iteration. Their entities stay unmatched."""
    similarity: csr_array | None = None
    """Similarity weight (Eq. 4) of each part and target entity; see `discovery.similarity_weights`."""
    listed: csr_array | None = None
    """The scores of pairs that features list, such as those with similar names; source x target."""


def _sorted(ids: np.ndarray) -> Ids:
    return np.sort(np.asarray(ids, dtype=np.int32))
