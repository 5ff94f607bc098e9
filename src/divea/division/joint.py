"""Joint division: once a first iteration has found matches, both graphs are cut together.

DivEA cuts the source and then looks for counterparts in the target; what the cut separates stays separate.
With pseudo-seeds at hand, the two graphs can be laid over each other: matched entities become one node, and
a cut of the joined graph puts a source entity and its counterpart, which hang on the same nodes, into one
part. The cut is drawn anew in every iteration, so that a pair that one division separates meets in another.

Where a part leaves room in S, its surroundings come in from both graphs alike. Candidates from elsewhere
alone would cover more links and still lose accuracy: they would be forced upon members, with nobody there
who wants them more.

The first iteration is DivEA's: with few seeds the joined graph falls apart into its two halves.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from divea.division.columns import NEVER, tie_draw
from divea.division.discovery import discover
from divea.division.divea import DivEA
from divea.division.groups import members_of, renumbered
from divea.division.partition import partition
from divea.division.subtask import Division, Feedback, Subtask
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.labels import Ids

UNEVEN = 1.5
"""A part with this many times the mean number of unmatched entities: the cut followed the graphs' border."""

LEAST_ANCHORS = 0.05
"""Share of S that anchors may take in any case, however many candidates there are."""

MEMBER = 2.0
"""Weight of a candidate that lies in the part itself: above every share of `propagate`, which are at most 1
(with `bfs`, whose scores are negative, it is worth two hops).
Weighing members by how likely they have a counterpart raised coverage and lowered H@1 on held-out seeds:
they are context to each other."""

KNOWN = 0.5
"""Share of the room left over that goes to links of other parts that are known already; the rest goes to the
nearest unmatched entities of both graphs. Known links teach, unmatched ones may be counterparts."""


@dataclass(frozen=True)
class Joint:
    """Divides by `first`, and in later iterations by a cut of the joined graphs, with its size limit."""

    first: DivEA

    def divide(self, task: AlignmentTask, feedback: Feedback | None = None) -> Division:
        """The subtasks, in view of what an earlier iteration found."""
        if feedback is None or not len(task.unmatched_source):
            return self.first.divide(task, feedback)
        near = task.seeds.union(feedback.pseudo_seeds)
        inside = len(task.unmatched_source) + len(task.unmatched_target)
        parts = max(len(feedback.previous), math.ceil(inside / self.first.size))
        groups, homes = cut_jointly(task, near, parts, self._draw(near))
        unmatched = members_of(groups, task.unmatched_source)
        largest = max((len(members) for members in unmatched), default=0)
        if largest * parts > UNEVEN * len(task.unmatched_source) or largest > self.first.size - 1:
            return self.first.divide(task, feedback)
        housed = homes[task.unmatched_target]
        at_home = np.bincount(housed[housed >= 0], minlength=len(unmatched))
        anchors = self._anchors(task, groups, homes, unmatched, at_home)
        sizes = np.array([len(members) for members in unmatched])
        room = self.first.size - sizes - 2 * np.array([len(fixed) for fixed in anchors])
        spare = np.maximum(room - at_home, 0)
        known = self._known_around(task, near, groups, homes, (KNOWN * spare).astype(np.int64) // 2)
        taken_up = 2 * np.array([len(pairs) for pairs in known])
        around = (spare - taken_up) // 2
        turned = Links.from_pairs(near.pairs[:, ::-1])
        context = self._nearest(
            task.source,
            turned,
            homes,
            groups,
            around,
            weight=NEVER,
            taken=task.seeds.source,
            side="source",
        )
        candidates = self._nearest(
            task.target,
            near,
            groups,
            homes,
            room - taken_up - around,
            weight=MEMBER,
            taken=task.seeds.target,
            side="target",
        )
        free_target = np.ones(task.target.num_entities, dtype=bool)
        free_target[task.seeds.target] = False
        subtasks = tuple(
            Subtask.of(
                part,
                task,
                source_entities=np.unique(np.concatenate([members, around_it, fixed.source, pairs.source])),
                target_entities=np.unique(np.concatenate([nearest, fixed.target, pairs.target])),
                unmatched=members,
                candidates=np.union1d(nearest, pairs.target[free_target[pairs.target]]),
            )
            for part, (members, fixed, pairs, around_it, nearest) in enumerate(
                zip(unmatched, anchors, known, context, candidates, strict=True)
            )
        )
        return Division(subtasks, groups, feedback.previous.notes, feedback.previous.shares)

    def _nearest(
        self,
        graph: KnowledgeGraph,
        links: Links,
        parts: Ids,
        homes: Ids,
        counts: np.ndarray,
        *,
        weight: float,
        taken: Ids,
        side: str,
    ) -> Iterator[Ids]:
        """For each part the `counts` nearest entities of a graph, none of them an anchor.

        `links` lead into this graph from the other one; `parts` are those of the other's entities, `homes`
        those of this one's, which get `weight` in their own part.
        """
        housed = np.flatnonzero(homes >= 0)
        own = csr_array(
            (np.full(len(housed), weight, dtype=np.float32), (homes[housed], housed)),
            shape=(len(counts), len(homes)),
        )
        return discover(
            graph.adjacency,
            links,
            parts,
            counts,
            taken=taken,
            locality=self.first.locality,
            similarity=own,
            seed=self.first.seed,
            device=self.first.evidence.device,
            side=side,
        )

    def _known_around(
        self, task: AlignmentTask, near: Links, groups: Ids, homes: Ids, counts: np.ndarray
    ) -> list[Links]:
        """For each part the links of other parts with most neighbours inside, up to `counts` of them."""
        touching = _neighbours_inside(task.source.adjacency[near.source], groups, len(counts))
        touching = touching + _neighbours_inside(task.target.adjacency[near.target], homes, len(counts))
        touching = touching.tocsc()
        draw = tie_draw(task.source.num_entities, self.first.seed, "source")[near.source]
        chosen = []
        for part, count in enumerate(counts):
            column = slice(touching.indptr[part], touching.indptr[part + 1])
            link, inside = touching.indices[column], touching.data[column]
            elsewhere = groups[near.source[link]] != part
            link, inside = link[elsewhere], inside[elsewhere]
            chosen.append(Links.from_pairs(near.pairs[link[np.lexsort((draw[link], -inside))[:count]]]))
        return chosen

    def _draw(self, near: Links) -> int:
        """A seed that differs between iterations, because what they know differs."""
        return zlib.crc32(near.pairs.tobytes(), self.first.seed) >> 1

    def _anchors(
        self, task: AlignmentTask, groups: Ids, homes: Ids, unmatched: list[Ids], at_home: np.ndarray
    ) -> list[Links]:
        """The seeds of each part, as many as its size allows; those with most neighbours inside first."""
        seeds = task.seeds
        inner = _inner_degrees(task.source.adjacency, groups)[seeds.source]
        inner = inner + _inner_degrees(task.target.adjacency, homes)[seeds.target]
        draw = tie_draw(task.source.num_entities, self.first.seed, "source")[seeds.source]
        order = np.lexsort((draw, -inner))
        chosen = []
        for part, members in enumerate(unmatched):
            free = self.first.size - len(members)
            most = max((free - int(at_home[part])) // 2, int(LEAST_ANCHORS * self.first.size))
            # At least one place is left to a candidate.
            most = min(most, (free - 1) // 2)
            own = order[groups[seeds.source[order]] == part][: max(most, 0)]
            chosen.append(Links.from_pairs(seeds.pairs[own]))
        return chosen


def cut_jointly(task: AlignmentTask, links: Links, parts: int, seed: int) -> tuple[Ids, Ids]:
    """The part of every source and of every target entity; linked entities share one.

    Balanced on unmatched entities of both graphs together, which is what a subtask must hold. A part
    without an unmatched source is no part; its entities get -1.
    """
    sources, targets = task.source.num_entities, task.target.num_entities
    # A linked target becomes its source; the others are numbered after the sources.
    is_free = np.ones(targets, dtype=bool)
    is_free[links.target] = False
    node = np.zeros(targets, dtype=np.int64)
    node[is_free] = sources + np.arange(is_free.sum())
    node[links.target] = links.source
    left, right = task.source.adjacency.tocoo(), task.target.adjacency.tocoo()
    rows = np.concatenate([left.row, node[right.row]])
    columns = np.concatenate([left.col, node[right.col]])
    between = rows != columns
    size = sources + int(is_free.sum())
    joined = coo_array(
        (np.concatenate([left.data, right.data])[between], (rows[between], columns[between])),
        shape=(size, size),
    ).tocsr()
    joined.sum_duplicates()
    weights = np.zeros(size, dtype=np.int64)
    weights[task.unmatched_source] += 1
    np.add.at(weights, node[task.unmatched_target], 1)
    part = partition(joined, parts, weights, seed=seed)
    is_unmatched = np.zeros(size, dtype=np.int64)
    is_unmatched[task.unmatched_source] = 1
    part = renumbered(part, is_unmatched)
    return part[:sources], part[node]


def _neighbours_inside(adjacency: csr_array, part: Ids, parts: int) -> csr_array:
    """For each row of an adjacency and each part, the triples that lead into the part."""
    housed = np.flatnonzero(part >= 0)
    one = csr_array((np.ones(len(housed), np.int64), (housed, part[housed])), shape=(len(part), parts))
    return adjacency @ one


def _inner_degrees(adjacency: csr_array, part: Ids) -> np.ndarray:
    """For each entity its neighbours in the same part."""
    row = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    same = part[row] == part[adjacency.indices]
    return np.bincount(row[same], minlength=adjacency.shape[0])
