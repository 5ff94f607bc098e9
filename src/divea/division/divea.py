"""The DivEA division: partition the source, discover counterparts, build contexts within a size limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from scipy.sparse import csr_array

from divea.division.columns import tie_draw
from divea.division.context import connect, pick_contexts
from divea.division.discovery import discover
from divea.division.evidence import EvidenceSettings
from divea.division.groups import group_source, members_of, target_anchors
from divea.division.locality import measure
from divea.division.shares import choose_shares
from divea.division.subtask import Division, Feedback, Shares, Subtask
from divea.division.threads import side_by_side
from divea.errors import InputError
from divea.graphs import AlignmentTask
from divea.graphs.labels import Ids

MOST_COPIES = 100
"""A group of fewer than one in so many of a subtask's entities is refused: the rest would be context,
written over and over, N times S in all."""

ROOM = 2.4
"""An S of so many times a group is enough: members, as many candidates, and a fifth of both for context."""


@dataclass(frozen=True)
class DivEA:
    """Divides a task into `parts` subtasks of at most `size` entities.

    `delta1` and `delta2` share the size out (see `Shares`); `delta1` left at None is chosen on a
    validation part of the seeds.
    """

    parts: int
    size: int
    seed: int = 0
    partitioner: str = "metis"
    locality: str = "propagate"
    beta: float = 1.0
    evidence: EvidenceSettings = field(default_factory=EvidenceSettings)
    delta1: float | None = None
    delta2: float = 0.0

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InputError(f"a subtask holds at least one entity of each graph, so S >= 2, not {self.size}")

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The subtasks; after the first iteration only the target sides are built anew.

        Where the task has more seeds than before, the source contexts are as well, in the same groups.
        """
        watch = _Watch()
        with watch.step("adjacency"):
            jobs: list[Callable[[], csr_array]] = [
                lambda: task.source.adjacency,
                lambda: measure(self.locality).passing(task.target.adjacency),
            ]
            _, passing = side_by_side(lambda job: job(), jobs)
        if feedback is None:
            groups, shares, notes = self._plan(task, passing, watch)
        else:
            groups, notes = feedback.previous.groups, feedback.previous.notes
            shares = feedback.previous.shares or Shares()
        if feedback is not None and feedback.previous.matches_the_same(task):
            unmatched = [subtask.unmatched for subtask in feedback.previous.subtasks]
            contexts = [
                np.setdiff1d(subtask.source_entities, subtask.unmatched)
                for subtask in feedback.previous.subtasks
            ]
        else:
            unmatched = members_of(groups, task.unmatched_source)
            with watch.step("source contexts"):
                contexts = self._source_contexts(task, unmatched, shares)
        subtasks = self._target_sides(task, passing, groups, unmatched, contexts, shares, feedback, watch)
        if feedback is None:
            notes = (*notes, *self._without_seeds(task, subtasks))
        return Division(tuple(subtasks), groups, notes, shares, watch.seconds)

    def _without_seeds(self, task: AlignmentTask, subtasks: list[Subtask]) -> tuple[str, ...]:
        """A note on subtasks without anything known: too small an S, or too few seeds for so many."""
        empty = sum(len(subtask.seeds) == 0 for subtask in subtasks)
        if not empty or not len(task.seeds):
            return ()
        said = f"{empty} of {len(subtasks)} subtasks hold no seed, so no model can learn anything there"
        enough = int(ROOM * len(task.unmatched_source) / self.parts)
        if self.size < enough:
            return (f"{said}: N = {self.parts} wants an S of {enough} or more",)
        return (f"{said}: there are too few seeds for N = {self.parts}",)

    def _plan(
        self, task: AlignmentTask, passing: csr_array, watch: _Watch
    ) -> tuple[Ids, Shares, tuple[str, ...]]:
        """Groups that fit, and the shares of the size limit."""
        unmatched = len(task.unmatched_source)
        most = max(MOST_COPIES, MOST_COPIES * unmatched // self.size)
        if self.parts > most:
            raise InputError(
                f"{self.parts} subtasks of {self.size} entities for {unmatched} that are to be matched: "
                f"N is at most {most} here, or S must be smaller"
            )
        # Left to itself, a group may fill half of S: a subtask needs a candidate for each member.
        share = Shares(0.5 if self.delta1 is None else self.delta1).source_size(self.size)
        with watch.step("partition"):
            groups, notes = group_source(
                task, self.parts, share=share, partitioner=self.partitioner, seed=self.seed
            )
        if self.delta1 is not None:
            return groups, Shares(self.delta1, self.delta2), notes
        with watch.step("shares"):
            shares, note = choose_shares(
                task,
                groups,
                self.size,
                locality=self.locality,
                evidence=self.evidence,
                connecting=self.delta2,
                seed=self.seed,
                passing=passing,
            )
        return groups, shares, (*notes, note)

    def _source_contexts(self, task: AlignmentTask, unmatched: list[Ids], shares: Shares) -> list[Ids]:
        size = shares.source_size(self.size)
        return list(
            pick_contexts(
                task.source.adjacency,
                unmatched,
                [task.seeds.source],
                [size - len(members) for members in unmatched],
                tie_draw(task.source.num_entities, self.seed, "source"),
                self.evidence,
                # An anchor takes a place on the target side too: leave half of it to candidates.
                anchor_limits=[(self.size - size) // 2] * len(unmatched),
            )
        )

    def _target_sides(
        self,
        task: AlignmentTask,
        passing: csr_array,
        groups: Ids,
        unmatched: list[Ids],
        contexts: list[Ids],
        shares: Shares,
        feedback: Feedback | None,
        watch: _Watch,
    ) -> list[Subtask]:
        sources = [
            np.concatenate([members, context]) for members, context in zip(unmatched, contexts, strict=True)
        ]
        anchors = target_anchors(task.seeds, task.source.num_entities, contexts)
        room = np.array(
            [self.size - len(own) - len(fixed) for own, fixed in zip(sources, anchors, strict=True)],
            dtype=np.int64,
        )
        with watch.step("discovery"):
            ranked = self._candidates(task, passing, groups, room, feedback)
        with watch.step("target contexts"):
            sides = connect(
                task.target.adjacency,
                ranked,
                anchors,
                shares.connecting,
                tie_draw(task.target.num_entities, self.seed, "target"),
                self.evidence,
                # A foreign anchor would stand in the subtask without its match.
                barred=task.seeds.target,
            )

        def subtask(index: int) -> Subtask:
            candidates, connecting = sides[index]
            return Subtask.of(
                index,
                task,
                source_entities=sources[index],
                target_entities=np.concatenate([anchors[index], candidates, connecting]),
                unmatched=unmatched[index],
                candidates=candidates,
            )

        return list(side_by_side(subtask, range(len(sides))))

    def _candidates(
        self,
        task: AlignmentTask,
        passing: csr_array,
        groups: Ids,
        room: np.ndarray,
        feedback: Feedback | None,
    ) -> list[Ids]:
        """As many candidates for each part as there is room, by what is known so far."""
        near, learned = task.seeds, None
        if feedback is not None:
            near = near.union(feedback.pseudo_seeds)
            learned = feedback.similarity
        ranked = discover(
            task.target.adjacency,
            near,
            groups,
            room,
            taken=task.seeds.target,
            locality=self.locality,
            similarity=learned,
            beta=self.beta,
            seed=self.seed,
            device=self.evidence.device,
            passing=passing,
        )
        return list(ranked)


class _Watch:
    """Wall time by step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began
