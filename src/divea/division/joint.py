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
from scipy.sparse import coo_array, csr_array

from divea.config import DivisionSettings
from divea.division.discovery import discover_candidates, listed_bonus
from divea.division.divea import DivEA
from divea.division.groups import members_of, renumbered
from divea.division.partition import partition
from divea.division.selection import EXCLUDED, tie_breakers
from divea.division.strategy import Strategy
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.ids import marked
from divea.types import Ids

MOST_UNEVEN = 1.5
"""If a part has this many times the mean number of unmatched entities, the partition has followed the border
between the two graphs, and DivEA's division is used instead."""

LEAST_ANCHOR_SHARE = 0.05
"""Share of S that anchors may take in any case, however many candidates there are."""

MEMBER_WEIGHT = 2.0
"""Weight of a candidate that lies in the part itself. It is above every score of `propagate`, which are at
most 1; with `bfs`, whose scores are negative, it is worth two hops. Weighing members by their odds of
having a counterpart raised coverage and lowered H@1 on held-out seeds, because members are also context to
one another."""

KNOWN_LINK_SHARE = 0.5
"""Share of the spare room that goes to links (seeds and pseudo-seeds) of other parts; the rest goes to the
nearest unmatched entities of both graphs. Known links teach the model, unmatched entities may be
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
        # What unmatched source entities and anchors leave of S is for candidates. Where that is more than the
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
        inside = _neighbours_in_same_part(task.source.adjacency, parts.source)[seeds.source]
        inside = inside + _neighbours_in_same_part(task.target.adjacency, parts.target)[seeds.target]
        order = np.lexsort((self._ties(task, seeds), -inside))
        chosen = []
        for part, unmatched in enumerate(parts.unmatched):
            free = size - len(unmatched)
            most = max((free - int(target_counts[part])) // 2, int(LEAST_ANCHOR_SHARE * size))
            # At least one place is left for a candidate.
            most = min(most, (free - 1) // 2)
            own = order[parts.source[seeds.source[order]] == part][: max(most, 0)]
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
        touching = _triples_into_parts(task.source.adjacency[links.source], parts.source, len(counts))
        touching = touching + _triples_into_parts(
            task.target.adjacency[links.target], parts.target, len(counts)
        )
        touching = touching.tocsc()
        ties = self._ties(task, links)
        chosen = []
        for part, count in enumerate(counts):
            column = slice(touching.indptr[part], touching.indptr[part + 1])
            link, triples = touching.indices[column], touching.data[column]
            elsewhere = parts.source[links.source[link]] != part
            link, triples = link[elsewhere], triples[elsewhere]
            best = link[np.lexsort((ties[link], -triples))[:count]]
            chosen.append(Links.from_pairs(links.pairs[best]))
        return chosen

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
            # An entity with a link has its counterpart beside it already. Further candidates would only be
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


def partition_jointly(
    task: AlignmentTask, links: Links, parts: int, random_seed: int, partitioner: str = "metis"
) -> tuple[Ids, Ids]:
    """The part of every source and of every target entity; linked entities share one.

    Parts are balanced on the unmatched entities of both graphs together, which a subtask must hold. A part
    without unmatched source entities is dropped: its entities get -1.
    """
    node, size = _merged_nodes(task, links)
    merged = _merged_adjacency(task, node, size)
    weights = np.zeros(size, dtype=np.int64)
    weights[task.unmatched_source] += 1
    np.add.at(weights, node[task.unmatched_target], 1)
    part = partition(merged, parts, weights, method=partitioner, random_seed=random_seed)
    is_unmatched_source = np.zeros(size, dtype=np.int64)
    is_unmatched_source[task.unmatched_source] = 1
    part = renumbered(part, is_unmatched_source)
    return part[: task.source.num_entities], part[node]


def _merged_nodes(task: AlignmentTask, links: Links) -> tuple[np.ndarray, int]:
    """The node of every target entity in the merged graph, and the number of nodes.

    A linked target entity is the node of its source; the others follow after the sources.
    """
    sources = task.source.num_entities
    is_free = ~marked(links.target, task.target.num_entities)
    node = np.zeros(task.target.num_entities, dtype=np.int64)
    node[is_free] = sources + np.arange(is_free.sum())
    node[links.target] = links.source
    return node, sources + int(is_free.sum())


def _merged_adjacency(task: AlignmentTask, node: np.ndarray, size: int) -> csr_array:
    source, target = task.source.adjacency.tocoo(), task.target.adjacency.tocoo()
    rows = np.concatenate([source.row, node[target.row]])
    columns = np.concatenate([source.col, node[target.col]])
    values = np.concatenate([source.data, target.data])
    proper = rows != columns
    merged = coo_array((values[proper], (rows[proper], columns[proper])), shape=(size, size)).tocsr()
    merged.sum_duplicates()
    return merged


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
    subtasks = []
    for part, (members, fixed, pairs, context, nearest) in enumerate(
        zip(unmatched, anchors, known, contexts, candidates, strict=True)
    ):
        subtask = Subtask.of(
            part,
            task,
            source_entities=np.unique(np.concatenate([members, context, fixed.source, pairs.source])),
            target_entities=np.unique(np.concatenate([nearest, fixed.target, pairs.target])),
            unmatched=members,
            candidates=np.union1d(nearest, pairs.target[is_free_target[pairs.target]]),
        )
        subtasks.append(subtask)
    return tuple(subtasks)


def _triples_into_parts(adjacency: csr_array, part: Ids, parts: int) -> csr_array:
    """For each row of an adjacency and each part, the number of triples that lead into the part."""
    assigned = np.flatnonzero(part >= 0)
    membership = csr_array(
        (np.ones(len(assigned), np.int64), (assigned, part[assigned])), shape=(len(part), parts)
    )
    return adjacency @ membership


def _neighbours_in_same_part(adjacency: csr_array, part: Ids) -> np.ndarray:
    """For each entity, the number of its neighbours in the same part."""
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    same = part[row] == part[adjacency.indices]
    return np.bincount(row[same], minlength=adjacency.shape[0])
