"""The DivEA division: partition the source, discover candidates, build contexts within a size limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.sparse import csr_array

from divea.config import DivisionSettings
from divea.division.context import connect_candidates, pick_contexts
from divea.division.discovery import discover_candidates, listed_bonus
from divea.division.groups import group_source, members_of, target_anchors
from divea.division.locality import LOCALITIES
from divea.division.parallel import in_parallel
from divea.division.selection import tie_breakers
from divea.division.shares import choose_shares
from divea.division.strategy import Strategy
from divea.division.subtask import Division, Feedback, Shares, Subtask
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.types import Ids

MOST_COPIES = 100
"""How often an entity may be repeated over all subtasks, on average. With tiny groups in large subtasks
almost everything would be context, written N times."""

ROOM = 2.4
"""An S of this many times the size of a group is enough: for its members, as many candidates, and a fifth of
both as context."""


@dataclass(frozen=True)
class DivEA(Strategy):
    """Divides a task into `parts` subtasks of at most `size` entities.

    >>> from divea.graphs.planted import planted_pair
    >>> division = DivEA(parts=2, size=100).divide(planted_pair().task)
    >>> [subtask.size for subtask in division.subtasks]
    [100, 100]
    """

    parts: int
    size: int
    settings: DivisionSettings = field(default_factory=DivisionSettings)
    random_seed: int = 0
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InputError(f"size: a subtask holds at least one entity of each graph, not {self.size}")

    @classmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> Self:
        return cls(parts, size, settings, random_seed, device)

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """Divide the task.

        From the second iteration on, only the target sides are built again. If seeds have been added since,
        source contexts are chosen again, too, for the same groups.
        """
        timer = _Timer()
        with timer.step("adjacency"):
            hop_matrix = self._hop_matrix(task)
        previous = feedback.previous if feedback is not None else None
        if previous is None:
            groups, shares, notes = self._groups_and_shares(task, hop_matrix, timer)
        else:
            groups, notes = previous.groups, previous.notes
            shares = previous.shares or Shares()
        if previous is not None and previous.covers_unmatched_of(task):
            unmatched, contexts = _source_sides_of(previous)
        else:
            unmatched = members_of(groups, task.unmatched_source)
            with timer.step("source contexts"):
                contexts = self._source_contexts(task, unmatched, shares)
        anchors = target_anchors(task.seeds, task.source.num_entities, contexts)
        with timer.step("discovery"):
            candidates = self._candidates(task, hop_matrix, groups, unmatched, contexts, anchors, feedback)
        with timer.step("target contexts"):
            target_sides = self._target_sides(task, candidates, anchors, shares)
        subtasks = _assemble(task, unmatched, contexts, anchors, target_sides)
        if previous is None:
            notes = (*notes, *self._note_on_missing_seeds(task, subtasks))
        return Division(tuple(subtasks), groups, notes, shares, timer.seconds)

    def _hop_matrix(self, task: AlignmentTask) -> csr_array:
        """The locality's matrix over the target graph."""
        locality = LOCALITIES[self.settings.locality]
        jobs: list[Callable[[], csr_array]] = [
            # This is not needed here, but the graph keeps its adjacency, and both jobs take equally long.
            lambda: task.source.adjacency,
            lambda: locality.hop_matrix(task.target.adjacency),
        ]
        _, hop_matrix = in_parallel(lambda job: job(), jobs)
        return hop_matrix

    def _groups_and_shares(
        self, task: AlignmentTask, hop_matrix: csr_array, timer: _Timer
    ) -> tuple[Ids, Shares, tuple[str, ...]]:
        """The groups of unmatched source entities, and the shares of the size limit."""
        self._check_number_of_parts(task)
        delta1 = self.settings.delta1
        # Unless told otherwise, a group may fill half of S: a subtask needs a candidate for each member.
        largest = Shares(0.5 if delta1 is None else delta1).source_size(self.size)
        with timer.step("partition"):
            groups, notes = group_source(
                task,
                self.parts,
                largest=largest,
                partitioner=self.settings.partitioner,
                random_seed=self.random_seed,
            )
        if delta1 is not None:
            return groups, Shares(delta1, self.settings.delta2), notes
        with timer.step("shares"):
            shares, note = choose_shares(
                task,
                groups,
                self.size,
                self.settings,
                random_seed=self.random_seed,
                device=self.device,
                hop_matrix=hop_matrix,
            )
        return groups, shares, (*notes, note)

    def _check_number_of_parts(self, task: AlignmentTask) -> None:
        unmatched = len(task.unmatched_source)
        most = max(MOST_COPIES, MOST_COPIES * unmatched // self.size)
        if self.parts > most:
            raise InputError(
                f"subtasks: {self.parts} subtasks of {self.size} entities for {unmatched} unmatched source "
                f"entities; use at most {most} subtasks, or a smaller size"
            )

    def _source_contexts(self, task: AlignmentTask, unmatched: list[Ids], shares: Shares) -> list[Ids]:
        limit = shares.source_size(self.size)
        return list(
            pick_contexts(
                task.source.adjacency,
                unmatched,
                task.seeds.source,
                [limit - len(members) for members in unmatched],
                tie_breakers(task.source.num_entities, self.random_seed, "source"),
                self.settings.evidence,
                # Every anchor takes a place on the target side too: half of that side is for candidates.
                anchor_limits=[(self.size - limit) // 2] * len(unmatched),
                device=self.device,
            )
        )

    def _candidates(
        self,
        task: AlignmentTask,
        hop_matrix: csr_array,
        groups: Ids,
        unmatched: list[Ids],
        contexts: list[Ids],
        anchors: list[Ids],
        feedback: Feedback | None,
    ) -> list[Ids]:
        """As many candidates for each part as its size limit leaves room for."""
        sides = zip(unmatched, contexts, anchors, strict=True)
        used = [len(own) + len(context) + len(fixed) for own, context, fixed in sides]
        room = self.size - np.array(used, dtype=np.int64)
        links, similarity, listed = task.seeds, None, None
        if feedback is not None:
            links = links.union(feedback.pseudo_seeds)
            similarity = feedback.similarity
            if feedback.listed is not None:
                without_link = np.setdiff1d(task.unmatched_source, links.source)
                ties = tie_breakers(task.target.num_entities, self.random_seed, "target")
                listed = listed_bonus(feedback.listed, groups, len(unmatched), without_link, ties)
                similarity = listed if similarity is None else similarity + listed
        return list(
            discover_candidates(
                task.target.adjacency,
                links,
                groups,
                room,
                taken=task.seeds.target,
                locality=self.settings.locality,
                bonus=similarity,
                beta=self.settings.beta,
                listed=listed,
                random_seed=self.random_seed,
                device=self.device,
                hop_matrix=hop_matrix,
            )
        )

    def _target_sides(
        self, task: AlignmentTask, candidates: list[Ids], anchors: list[Ids], shares: Shares
    ) -> list[tuple[Ids, Ids]]:
        """Candidates and connecting entities of every part."""
        return connect_candidates(
            task.target.adjacency,
            candidates,
            anchors,
            shares.connecting,
            tie_breakers(task.target.num_entities, self.random_seed, "target"),
            self.settings.evidence,
            # An anchor of another part would stand in the subtask without its source end.
            barred=task.seeds.target,
            device=self.device,
        )

    def _note_on_missing_seeds(self, task: AlignmentTask, subtasks: list[Subtask]) -> tuple[str, ...]:
        """A note if subtasks hold no seed: S is too small, or there are too few seeds for so many
        subtasks.
        """
        without = sum(len(subtask.seeds) == 0 for subtask in subtasks)
        if not without or not len(task.seeds):
            return ()
        note = f"{without} of {len(subtasks)} subtasks hold no seed, so no model can learn anything there"
        enough = int(ROOM * len(task.unmatched_source) / self.parts)
        if self.size < enough:
            return (f"{note}: with {self.parts} subtasks the size should be {enough} or more",)
        return (f"{note}: there are too few seeds for {self.parts} subtasks",)


@dataclass(frozen=True)
class RandomGroups(DivEA):
    """DivEA with random groups instead of coherent ones: the paper's ablation."""

    @classmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> Self:
        settings = settings.model_copy(update={"partitioner": "random"})
        return cls(parts, size, settings, random_seed, device)


def _source_sides_of(division: Division) -> tuple[list[Ids], list[Ids]]:
    """Unmatched entities and source contexts of an earlier division."""
    unmatched = [subtask.unmatched for subtask in division.subtasks]
    contexts = [np.setdiff1d(subtask.source_entities, subtask.unmatched) for subtask in division.subtasks]
    return unmatched, contexts


def _assemble(
    task: AlignmentTask,
    unmatched: list[Ids],
    contexts: list[Ids],
    anchors: list[Ids],
    target_sides: list[tuple[Ids, Ids]],
) -> list[Subtask]:
    def subtask(part: int) -> Subtask:
        candidates, connecting = target_sides[part]
        return Subtask.of(
            part,
            task,
            source_entities=np.concatenate([unmatched[part], contexts[part]]),
            target_entities=np.concatenate([anchors[part], candidates, connecting]),
            unmatched=unmatched[part],
            candidates=candidates,
        )

    return list(in_parallel(subtask, range(len(target_sides))))


class _Timer:
    """Wall time by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start
