"""Chooses how a subtask's size is shared out, by trying it on a validation part of the seeds.

More source context gives more evidence, more candidates give more coverage, and both take from the
same S. Some seeds are held out and treated as unmatched; for each way to share, a held-out link is
worth the mean evidence at its two ends if its target is a candidate of its part, and nothing
otherwise. That is the product the user is after (H@1 = coverage x informativeness), without a model;
docs/division.md compares it with a model's H@1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.division.columns import tie_draw
from divea.division.context import connect, pick_contexts
from divea.division.discovery import discover
from divea.division.evidence import EvidenceSettings
from divea.division.groups import members_of, target_anchors
from divea.division.subtask import Shares
from divea.division.threads import side_by_side
from divea.division.yardstick import Yardstick
from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import Ids

HELD_OUT = 0.1
MOST_FOLDS = 5
ENOUGH = 500
"""Links to validate on; folds are held out one after the other until there are so many."""

FEWEST = 20
"""With fewer, the paper's shares are used."""

MOST_PARTS = 4
"""Parts that are tried; the shares hold for all. Neighbours, so that they cost one small region."""

CONTEXT_SHARES = (0.04, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4)
"""Source context, as a share of what the unmatched entities leave of S."""


def choose_shares(
    task: AlignmentTask,
    groups: Ids,
    size: int,
    *,
    locality: str,
    evidence: EvidenceSettings,
    connecting: float = 0.0,
    seed: int = 0,
    passing: csr_array | None = None,
) -> tuple[Shares, str]:
    """The source share that serves held-out seeds best, and a note that says so."""
    trials = _trials(task, groups, size, locality, evidence, seed, passing)
    held = sum(len(trial.held) for trial in trials)
    if held < FEWEST:
        return Shares(connecting=connecting), f"delta1 {Shares().source:.3f}: too few seeds to choose by"
    largest = max(len(members) for members in members_of(groups, task.unmatched_source))
    line = [Shares((largest + share * (size - largest)) / size, connecting) for share in CONTEXT_SHARES]
    tried: dict[int, float] = {}

    def worth(at: int) -> float:
        if at not in tried:
            tried[at] = sum(trial.worth(line[at]) for trial in trials) / held
        return tried[at]

    # From the middle on uphill: the worth has one summit.
    here = len(line) // 2
    for step in (1, -1):
        while 0 <= here + step < len(line) and worth(here + step) > worth(here):
            here += step
    return line[here], (
        f"delta1 {line[here].source:.3f}: best of {len(tried)} on {held} held-out seeds "
        f"(worth {tried[here]:.3f})"
    )


def _trials(
    task: AlignmentTask,
    groups: Ids,
    size: int,
    locality: str,
    evidence: EvidenceSettings,
    seed: int,
    passing: csr_array | None,
) -> list[_Trial]:
    """Trials on disjoint folds of the seeds, until they hold out enough to tell shares apart."""
    rng = np.random.default_rng([seed, 3])
    parts = int(groups.max(initial=-1)) + 1
    first = int(rng.integers(max(1, parts - MOST_PARTS + 1)))
    number = np.full(parts + 1, -1, dtype=np.int32)  # the last one is for group -1
    tried = range(first, min(first + MOST_PARTS, parts))
    number[tried] = np.arange(len(tried))
    here = number[groups]
    fold = rng.integers(round(1 / HELD_OUT), size=len(task.seeds))
    fold[here[task.seeds.source] < 0] = -1
    trials: list[_Trial] = []
    while len(trials) < MOST_FOLDS and sum(len(trial.held) for trial in trials) < ENOUGH:
        out = fold == len(trials)
        trials.append(_Trial.prepare(task, here, out, size, locality, evidence, seed, passing))
    return trials


@dataclass(frozen=True)
class _Trial:
    """Some parts, with contexts and candidates ranked once as far as any way to share may need."""

    task: AlignmentTask
    size: int
    evidence: EvidenceSettings
    seed: int
    train: Links
    held: Links
    held_part: Ids
    members: list[Ids]
    contexts: list[Ids]
    ranked: list[Ids]
    source_yardstick: Yardstick
    target_yardstick: Yardstick

    @classmethod
    def prepare(
        cls,
        task: AlignmentTask,
        groups: Ids,
        out: np.ndarray,
        size: int,
        locality: str,
        evidence: EvidenceSettings,
        seed: int,
        passing: csr_array | None,
    ) -> _Trial:
        """Hold out the seeds marked `out`; `groups` numbers the parts to be tried, -1 for all others."""
        held = Links(task.seeds.source[out], task.seeds.target[out])
        train = Links(task.seeds.source[~out], task.seeds.target[~out])
        unmatched = task.unmatched_source
        members = members_of(groups, np.sort(unmatched[groups[unmatched] >= 0]))
        # Held-out entities ride along on top of the limit, so that they crowd nobody out.
        wanted = [
            np.union1d(own, held.source[groups[held.source] == part]) for part, own in enumerate(members)
        ]
        contexts = pick_contexts(
            task.source.adjacency,
            wanted,
            [train.source],
            [int(max(CONTEXT_SHARES) * (size - len(own))) for own in members],
            tie_draw(task.source.num_entities, seed, "source"),
            evidence,
        )
        ranked = discover(
            task.target.adjacency,
            train,
            groups,
            np.array([size - len(own) for own in members]),
            taken=train.target,
            locality=locality,
            seed=seed,
            device=evidence.device,
            passing=passing,
        )
        ends = (task.source.adjacency, train.source), (task.target.adjacency, train.target)
        jobs: list[Callable[[], tuple[list[Ids], list[Yardstick]]]] = [
            # Single precision tells shares apart: on zh-en and fr-en it chooses as double does.
            lambda: (list(contexts), [Yardstick.of(*end, evidence, torch.float32) for end in ends]),
            lambda: (list(ranked), []),
        ]
        (near, yardsticks), (likely, _) = side_by_side(lambda job: job(), jobs)
        return cls(
            task, size, evidence, seed, train, held, groups[held.source], wanted, near, likely, *yardsticks
        )

    def worth(self, shares: Shares) -> float:
        """Sum over the held-out links of: the mean evidence at both ends if covered, else 0."""
        source_size = shares.source_size(self.size)
        contexts = []
        for part, context in enumerate(self.contexts):
            own = len(self.members[part]) - int((self.held_part == part).sum())
            contexts.append(context[: max(0, source_size - own)])
        anchors = target_anchors(self.train, self.task.source.num_entities, contexts)
        ranked = [
            order[: max(0, self.size - source_size - len(fixed))]
            for order, fixed in zip(self.ranked, anchors, strict=True)
        ]
        sides = connect(
            self.task.target.adjacency,
            ranked,
            anchors,
            shares.connecting,
            tie_draw(self.task.target.num_entities, self.seed, "target"),
            self.evidence,
            barred=self.train.target,
        )

        def of_part(part: int) -> float:
            candidates, connecting = sides[part]
            mine = self.held_part == part
            covered = np.isin(self.held.target[mine], candidates)
            source = np.concatenate([self.members[part], contexts[part]])
            target = np.concatenate([candidates, connecting, anchors[part]])
            left = self.source_yardstick.evidence(source, self.held.source[mine][covered])
            right = self.target_yardstick.evidence(target, self.held.target[mine][covered], anchors[part])
            return float((left + right).sum()) / 2

        return sum(side_by_side(of_part, range(len(sides))))
