"""Chooses how a subtask's size is shared, by trying several shares on validation folds of the seeds.

More source context gives more evidence, more candidates give more coverage, and both take places of the same
S. Some seeds are held out and treated as unmatched. For each choice, a held-out link scores the mean evidence
at its two ends if its target is a candidate of its part, and 0 otherwise. This estimates
H@1 = coverage x informativeness without training a model; docs/notes/division.md compares it with the H@1 of
a model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.sparse import csr_array

from divea.config import DivisionSettings
from divea.division.context import connect_candidates, pick_contexts
from divea.division.discovery import discover_candidates
from divea.division.groups import members_of, target_anchors
from divea.division.informativeness import Informativeness
from divea.division.parallel import in_parallel
from divea.division.selection import tie_breakers
from divea.division.subtask import Shares
from divea.graphs import AlignmentTask, Links
from divea.types import Ids

FOLD_SHARE = 0.1
"""Share of the seeds that a fold holds out."""

MOST_FOLDS = 5
ENOUGH_LINKS = 500
"""Folds are held out one after the other until they hold this many links."""

FEWEST_LINKS = 20
"""With fewer held-out links, the paper's shares are used."""

MOST_PARTS = 4
"""The most parts that shares are tried on; the chosen shares hold for all parts. The parts are neighbours
in the graph, so that one small region holds them all."""

CONTEXT_SHARES = (0.04, 0.07, 0.1, 0.13, 0.16, 0.2, 0.25, 0.3, 0.4)
"""Source context, as a share of what the unmatched entities leave of S."""


@dataclass(frozen=True)
class _Setup:
    """What is to be divided: everything that all folds have in common."""

    task: AlignmentTask
    groups: Ids
    """The validated part of every source entity, -1 for entities of other parts."""
    size: int
    settings: DivisionSettings
    random_seed: int
    device: str
    hop_matrix: csr_array | None


def choose_shares(
    task: AlignmentTask,
    groups: Ids,
    size: int,
    settings: DivisionSettings,
    *,
    random_seed: int = 0,
    device: str = "cpu",
    hop_matrix: csr_array | None = None,
) -> tuple[Shares, str]:
    """The source share that scores best on held-out seeds, and a note that says so."""
    rng = np.random.default_rng([random_seed, 3])
    groups_here = _neighbouring_parts(groups, rng)
    setup = _Setup(task, groups_here, size, settings, random_seed, device, hop_matrix)
    folds = _validation_folds(setup, rng)
    links = sum(len(fold.held_out) for fold in folds)
    if links < FEWEST_LINKS:
        paper = Shares(connecting=settings.delta2)
        return paper, (
            f"the source side takes {paper.source:.3f} of a subtask (delta1): too few seeds to choose it by"
        )
    largest = max(len(members) for members in members_of(groups, task.unmatched_source))
    options = [
        Shares((largest + share * (size - largest)) / size, settings.delta2) for share in CONTEXT_SHARES
    ]
    best = _climb(options, lambda shares: sum(fold.score(shares) for fold in folds) / links)
    return options[best], (
        f"the source side takes {options[best].source:.3f} of a subtask (delta1), chosen on {links} "
        "held-out seeds"
    )


def _climb(options: Sequence[Shares], score: Callable[[Shares], float]) -> int:
    """The position of the best option, by hill climbing from the middle: it assumes a single maximum."""
    scores: dict[int, float] = {}

    def score_of(at: int) -> float:
        if at not in scores:
            scores[at] = score(options[at])
        return scores[at]

    here = len(options) // 2
    for step in (1, -1):
        while 0 <= here + step < len(options) and score_of(here + step) > score_of(here):
            here += step
    return here


def _neighbouring_parts(groups: Ids, rng: np.random.Generator) -> Ids:
    """Groups with a few consecutive parts numbered from 0, and -1 for all others."""
    parts = int(groups.max(initial=-1)) + 1
    first = int(rng.integers(max(1, parts - MOST_PARTS + 1)))
    validated = range(first, min(first + MOST_PARTS, parts))
    number = np.full(parts + 1, -1, dtype=np.int32)  # the last entry is for group -1
    number[validated] = np.arange(len(validated))
    return number[groups]


def _validation_folds(setup: _Setup, rng: np.random.Generator) -> list[ValidationFold]:
    """Disjoint folds of the seeds, until they hold out enough links to tell shares apart."""
    seeds = setup.task.seeds
    fold_of_seed = rng.integers(round(1 / FOLD_SHARE), size=len(seeds))
    fold_of_seed[setup.groups[seeds.source] < 0] = -1
    folds: list[ValidationFold] = []
    while len(folds) < MOST_FOLDS and sum(len(fold.held_out) for fold in folds) < ENOUGH_LINKS:
        folds.append(ValidationFold.of(setup, is_held_out=fold_of_seed == len(folds)))
    return folds


@dataclass(frozen=True)
class ValidationFold:
    """Some parts without the held-out seeds, with contexts and candidates ranked once.

    The ranked lists are as long as any shares need, so shares are tried by taking the head of each list.
    """

    setup: _Setup
    training: Links
    held_out: Links
    part_of_held_out: Ids
    members: list[Ids]
    """For every part, its unmatched entities and the held-out ones."""
    contexts: list[Ids]
    candidates: list[Ids]
    source: Informativeness
    target: Informativeness

    @classmethod
    def of(cls, setup: _Setup, is_held_out: np.ndarray) -> ValidationFold:
        """Hold out the marked seeds, and rank contexts and candidates without them."""
        task, groups = setup.task, setup.groups
        seeds = task.seeds
        held_out = Links(seeds.source[is_held_out], seeds.target[is_held_out])
        training = Links(seeds.source[~is_held_out], seeds.target[~is_held_out])
        unmatched = task.unmatched_source
        own_members = members_of(groups, np.sort(unmatched[groups[unmatched] >= 0]))
        # Held-out entities come on top of the limit, so that they displace no other entity.
        members = [
            np.union1d(own, held_out.source[groups[held_out.source] == part])
            for part, own in enumerate(own_members)
        ]
        room = [setup.size - len(own) for own in own_members]

        # Contexts and candidates are ranked in parallel.
        jobs: list[Callable[[], list[Ids]]] = [
            lambda: _longest_contexts(setup, members, training, room),
            lambda: _longest_candidates(setup, training, room),
        ]
        contexts, candidates = in_parallel(lambda job: job(), jobs)
        source, target = _informativeness(setup, training)
        return cls(
            setup=setup,
            training=training,
            held_out=held_out,
            part_of_held_out=groups[held_out.source],
            members=members,
            contexts=contexts,
            candidates=candidates,
            source=source,
            target=target,
        )

    def score(self, shares: Shares) -> float:
        """The sum over held-out links of the mean evidence at both ends if covered, else 0."""
        contexts = self._contexts(shares)
        anchors = target_anchors(self.training, self.setup.task.source.num_entities, contexts)
        sides = self._target_sides(shares, anchors)

        def score_of_part(part: int) -> float:
            candidates, connecting = sides[part]
            mine = self.part_of_held_out == part
            covered = np.isin(self.held_out.target[mine], candidates)
            source = np.concatenate([self.members[part], contexts[part]])
            target = np.concatenate([candidates, connecting, anchors[part]])
            left = self.source.evidence(source, self.held_out.source[mine][covered])
            right = self.target.evidence(target, self.held_out.target[mine][covered], anchors[part])
            return float((left + right).sum()) / 2

        return sum(in_parallel(score_of_part, range(len(sides))))

    def _contexts(self, shares: Shares) -> list[Ids]:
        """The source contexts that fit beside the unmatched entities."""
        limit = shares.source_size(self.setup.size)
        contexts = []
        for part, context in enumerate(self.contexts):
            unmatched = len(self.members[part]) - int((self.part_of_held_out == part).sum())
            contexts.append(context[: max(0, limit - unmatched)])
        return contexts

    def _target_sides(self, shares: Shares, anchors: list[Ids]) -> list[tuple[Ids, Ids]]:
        """Candidates and connecting entities that fit beside the anchors."""
        setup = self.setup
        limit = setup.size - shares.source_size(setup.size)
        candidates = [
            order[: max(0, limit - len(fixed))] for order, fixed in zip(self.candidates, anchors, strict=True)
        ]
        return connect_candidates(
            setup.task.target.adjacency,
            candidates,
            anchors,
            shares.connecting,
            tie_breakers(setup.task.target.num_entities, setup.random_seed, "target"),
            setup.settings.evidence,
            barred=self.training.target,
            device=setup.device,
        )


def _longest_contexts(setup: _Setup, members: list[Ids], training: Links, room: list[int]) -> list[Ids]:
    source = setup.task.source
    return list(
        pick_contexts(
            source.adjacency,
            members,
            training.source,
            [int(max(CONTEXT_SHARES) * free) for free in room],
            tie_breakers(source.num_entities, setup.random_seed, "source"),
            setup.settings.evidence,
            device=setup.device,
        )
    )


def _longest_candidates(setup: _Setup, training: Links, room: list[int]) -> list[Ids]:
    return list(
        discover_candidates(
            setup.task.target.adjacency,
            training,
            setup.groups,
            np.array(room),
            taken=training.target,
            locality=setup.settings.locality,
            random_seed=setup.random_seed,
            device=setup.device,
            hop_matrix=setup.hop_matrix,
        )
    )


def _informativeness(setup: _Setup, training: Links) -> tuple[Informativeness, Informativeness]:
    """Measures for both graphs, in single precision, which chooses as double precision does on DBP15K."""
    source, target = (
        Informativeness.of(graph.adjacency, anchors, setup.settings.evidence, torch.float32, setup.device)
        for graph, anchors in (
            (setup.task.source, training.source),
            (setup.task.target, training.target),
        )
    )
    return source, target
