"""Joint division: once an iteration has found matches, both graphs are partitioned together.

DivEA partitions the source and then looks for candidates in the target; a pair that the partition separates
stays separate. With pseudo-seeds the two graphs can be merged: matched entities become one node, and a
partition of the merged graph puts a source entity and its counterpart, which share neighbours, into one part.
The partition is drawn again in every iteration, so a pair that one division separates may meet in another.

Where a part leaves room in S, its surroundings come in from both graphs alike. Filling the room with
candidates alone would cover more links and still lower accuracy: their true sources are absent, so they
produce false matches.

The first iteration is DivEA's: with few seeds, the merged graph falls apart into its two halves.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.sparse import csr_array, vstack

from divea.config import DivisionSettings
from divea.division.blocks import row_blocks
from divea.division.discovery import discover_candidates, listed_bonus
from divea.division.divea import DivEA
from divea.division.groups import members_of
from divea.division.merged import partition_jointly
from divea.division.selection import EXCLUDED, tie_breakers
from divea.division.strategy import Strategy
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.ids import marked
from divea.resources.row_blocks import in_threads
from divea.types import Ids

MOST_UNEVEN = 1.5
"""If a part has this many times the mean number of unmatched entities, the partition has followed the border
between the two graphs, and DivEA's division is used instead."""

LEAST_ANCHOR_SHARE = 0.05
"""The share of S that anchors may always take, however many candidates there are."""

MEMBER_WEIGHT = 2.0
"""Weight of a candidate that lies in the part itself. It is above every score of `propagate`, which are at
most 1; with `bfs`, whose scores are negative, it is worth two hops. Weighing members by their odds of
having a counterpart raised coverage and lowered H@1 on held-out seeds, because members are also context to
one another."""

KNOWN_LINK_SHARE = 0.5
"""Share of the spare room that goes to links (seeds and pseudo-seeds) of other parts; the rest goes to the
nearest unmatched entities of both graphs. Known links teach the model; unmatched entities may be
counterparts."""


@dataclass(frozen=True)
class JointParts:
    """A partition of the merged graphs: the part of every source and of every target entity, -1 for none."""

    source: Ids
    target: Ids
    unmatched: list[Ids]
    """The unmatched source entities of every part."""
    requested: int
    """The number of parts that were asked for; parts without unmatched source entities are dropped."""

    @property
    def largest(self) -> int:
        """The most unmatched source entities of a part."""
        return max((len(members) for members in self.unmatched), default=0)


@dataclass(frozen=True)
class Joint(Strategy):
    """Divides with `first` in the first iteration, and by a joint partition in later ones."""

    first: DivEA

    @classmethod
    def from_settings(
        cls, parts: int, size: int, settings: DivisionSettings, *, random_seed: int = 0, device: str = "cpu"
    ) -> Self:
        return cls(DivEA(parts, size, settings, random_seed, device))

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """Divide the task, along the matches of an earlier iteration if there was one."""
        if feedback is None or not len(task.unmatched_source):
            return self.first.divide(task, feedback)
        links = task.seeds.union(feedback.pseudo_seeds)
        parts = self._partition(task, links, feedback)
        if self._is_unusable(parts, task):
            return self.first.divide(task, feedback)
        target_counts = _count_unmatched_targets(parts, task)
        anchors = self._anchors(task, parts, target_counts)
        # What unmatched source entities and anchors leave of S is for candidates. If that is more than the
        # part's own target entities, the spare places are for known links and the nearest entities.
        room = self._room_beside(parts, anchors)
        spare = np.maximum(room - target_counts, 0)
        most_known = (KNOWN_LINK_SHARE * spare).astype(np.int64) // 2
        known = self._known_links_around(task, links, parts, most_known)
        room_for_known = 2 * np.array([len(pairs) for pairs in known])
        room_for_context = (spare - room_for_known) // 2
        contexts = self._source_context(task, links, parts, room_for_context)
        counts = room - room_for_known - room_for_context
        candidates = self._candidates(task, links, parts, counts, feedback.listed)
        subtasks = _assemble(task, parts.unmatched, anchors, known, list(contexts), list(candidates))
        previous = feedback.previous
        if previous is None:
            return Division(subtasks, parts.source)
        return Division(subtasks, parts.source, previous.notes, previous.shares)

    def _partition(self, task: AlignmentTask, links: Links, feedback: Feedback) -> JointParts:
        """Partition the merged graphs into as many parts as before, or more if they would not fit."""
        unmatched = len(task.unmatched_source) + len(task.unmatched_target)
        before = self.first.parts if feedback.previous is None else len(feedback.previous)
        count = max(before, math.ceil(unmatched / self.first.size))
        # The random seed differs between iterations, because the links that they know differ.
        random_seed = zlib.crc32(links.pairs.tobytes(), self.first.random_seed) >> 1
        source, target = partition_jointly(task, links, count, random_seed, self.first.settings.partitioner)
        return JointParts(source, target, members_of(source, task.unmatched_source), count)

    def _is_unusable(self, parts: JointParts, task: AlignmentTask) -> bool:
        """Whether a part is far larger than the mean, or does not fit into a subtask."""
        limit = MOST_UNEVEN * len(task.unmatched_source)
        return parts.largest * parts.requested > limit or parts.largest > self.first.size - 1

    def _anchors(self, task: AlignmentTask, parts: JointParts, target_counts: np.ndarray) -> list[Links]:
        """The seeds of each part, as many as its size allows; those with most neighbours inside come
        first.
        """
        seeds, size = task.seeds, self.first.size
        inside = _neighbours_in_same_part(task.source.adjacency, seeds.source, parts.source)
        inside = inside + _neighbours_in_same_part(task.target.adjacency, seeds.target, parts.target)
        part_of_seed = parts.source[seeds.source]
        order = np.lexsort((self._ties(task, seeds), -inside, part_of_seed))
        bounds = np.searchsorted(part_of_seed[order], np.arange(len(parts.unmatched) + 1))
        chosen = []
        for part, unmatched in enumerate(parts.unmatched):
            free = size - len(unmatched)
            most = max((free - int(target_counts[part])) // 2, int(LEAST_ANCHOR_SHARE * size))
            # At least one place is left for a candidate.
            most = max(min(most, (free - 1) // 2), 0)
            own = order[bounds[part] : bounds[part + 1]][:most]
            chosen.append(Links.from_pairs(seeds.pairs[own]))
        return chosen

    def _room_beside(self, parts: JointParts, anchors: list[Links]) -> np.ndarray:
        """Places of each subtask that its unmatched source entities and anchors leave."""
        unmatched = np.array([len(members) for members in parts.unmatched])
        return self.first.size - unmatched - 2 * np.array([len(fixed) for fixed in anchors])

    def _known_links_around(
        self, task: AlignmentTask, links: Links, parts: JointParts, counts: np.ndarray
    ) -> list[Links]:
        """For each part, the links of other parts with most triples into it, up to `counts` of them."""
        touching = triples_into_parts(task, links, parts).tocsc()
        ties = self._ties(task, links)

        def choose(part: int) -> Links:
            column = slice(touching.indptr[part], touching.indptr[part + 1])
            link, triples = touching.indices[column], touching.data[column]
            elsewhere = parts.source[links.source[link]] != part
            link, triples = link[elsewhere], triples[elsewhere]
            best = link[np.lexsort((ties[link], -triples))[: counts[part]]]
            return Links.from_pairs(links.pairs[best])

        return list(in_threads(choose, range(len(counts))))

    def _source_context(
        self, task: AlignmentTask, links: Links, parts: JointParts, counts: np.ndarray
    ) -> Iterator[Ids]:
        """For each part, the nearest unmatched source entities of other parts."""
        return self._nearest(
            task.source,
            Links.from_pairs(links.pairs[:, ::-1]),
            parts.target,
            parts.source,
            counts,
            weight=EXCLUDED,
            taken=task.seeds.source,
            side="source",
        )

    def _candidates(
        self,
        task: AlignmentTask,
        links: Links,
        parts: JointParts,
        counts: np.ndarray,
        listed: csr_array | None,
    ) -> Iterator[Ids]:
        """For each part, its own unmatched target entities, then those of other parts that are nearest by
        structure or listed by features.
        """
        bonus = None
        if listed is not None:
            # An entity with a link already has its counterpart in the part. Further candidates would only be
            # rivals, whose true sources are absent.
            without_link = np.setdiff1d(task.unmatched_source, links.source)
            ties = tie_breakers(task.target.num_entities, self.first.random_seed, "target")
            bonus = listed_bonus(listed, parts.source, len(counts), without_link, ties)
        return self._nearest(
            task.target,
            links,
            parts.source,
            parts.target,
            counts,
            weight=MEMBER_WEIGHT,
            taken=task.seeds.target,
            side="target",
            bonus=bonus,
        )

    def _nearest(
        self,
        graph: KnowledgeGraph,
        links: Links,
        other_parts: Ids,
        own_parts: Ids,
        counts: np.ndarray,
        *,
        weight: float,
        taken: Ids,
        side: str,
        bonus: csr_array | None = None,
    ) -> Iterator[Ids]:
        """For each part, the `counts` nearest entities of a graph, none of them an anchor.

        `links` lead from the other graph, whose entities have `other_parts`, into this one, whose entities
        have `own_parts` and get `weight` in their own part. `bonus` is added, part x entity.
        """
        assigned = np.flatnonzero(own_parts >= 0)
        membership = csr_array(
            (np.full(len(assigned), weight, dtype=np.float32), (own_parts[assigned], assigned)),
            shape=(len(counts), len(own_parts)),
        )
        return discover_candidates(
            graph.adjacency,
            links,
            other_parts,
            counts,
            taken=taken,
            locality=self.first.settings.locality,
            bonus=membership if bonus is None else membership + bonus,
            listed=bonus,
            random_seed=self.first.random_seed,
            device=self.first.device,
            side=side,
        )

    def _ties(self, task: AlignmentTask, links: Links) -> np.ndarray:
        return tie_breakers(task.source.num_entities, self.first.random_seed, "source")[links.source]


def _count_unmatched_targets(parts: JointParts, task: AlignmentTask) -> np.ndarray:
    """The number of unmatched target entities of every part."""
    own = parts.target[task.unmatched_target]
    return np.bincount(own[own >= 0], minlength=len(parts.unmatched))


def _assemble(
    task: AlignmentTask,
    unmatched: list[Ids],
    anchors: list[Links],
    known: list[Links],
    contexts: list[Ids],
    candidates: list[Ids],
) -> tuple[Subtask, ...]:
    is_free_target = ~marked(task.seeds.target, task.target.num_entities)

    def assemble(part: int) -> Subtask:
        fixed, pairs = anchors[part], known[part]
        source = [unmatched[part], contexts[part], fixed.source, pairs.source]
        target = [candidates[part], fixed.target, pairs.target]
        return Subtask.of(
            part,
            task,
            # Links of other parts may be among the nearest entities too.
            source_entities=np.unique(np.concatenate(source)),
            target_entities=np.unique(np.concatenate(target)),
            unmatched=unmatched[part],
            candidates=np.union1d(candidates[part], pairs.target[is_free_target[pairs.target]]),
        )

    return tuple(in_threads(assemble, range(len(unmatched))))


def triples_into_parts(task: AlignmentTask, links: Links, parts: JointParts) -> csr_array:
    """For each link and each part, the number of triples that lead from its two ends into the part."""

    def count(rows: slice) -> csr_array:
        from_source = _by_part(task.source.adjacency[links.source[rows]], parts.source, len(parts.unmatched))
        from_target = _by_part(task.target.adjacency[links.target[rows]], parts.target, len(parts.unmatched))
        return from_source + from_target

    return vstack(list(in_threads(count, list(row_blocks(len(links))))), format="csr")


def _by_part(rows: csr_array, part: Ids, parts: int) -> csr_array:
    """Rows of an adjacency with the entities of each part added up; the last column is for those of none."""
    column = part.take(rows.indices)
    column[column < 0] = parts
    summed = csr_array((rows.data, column, rows.indptr), shape=(rows.shape[0], parts + 1))
    summed.sum_duplicates()
    return summed


def _neighbours_in_same_part(adjacency: csr_array, entities: Ids, part: Ids) -> np.ndarray:
    """For some entities, the number of neighbours in the same part."""

    def count(block: slice) -> np.ndarray:
        own = entities[block]
        neighbours = adjacency[own]
        row = np.repeat(np.arange(len(own)), np.diff(neighbours.indptr))
        same = part[own][row] == part[neighbours.indices]
        return np.bincount(row[same], minlength=len(own))

    return np.concatenate(list(in_threads(count, list(row_blocks(len(entities))))))
