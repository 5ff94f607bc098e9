"""What structure says about pairs that it was not told: a judge of names and other features.

A pseudo-seed that was chosen for its name says nothing about names, and structure that started from it is
sure of it for its name. So the entities are split in two halves: labels are propagated from the pseudo-seeds
of one half, and judge the entities of the other half, and then the other way round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from divea.config import LabelPropagationOptions
from divea.features.fusion import nearest_vectors
from divea.features.propagation import Propagation
from divea.features.start import sure_pairs
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, PairScores

OPTIONS = LabelPropagationOptions(labels=512, heads=64, width=8, rounds=1)
"""Fewer dimensions than a model has: judges have to be right, not complete."""

MOST_JUDGED = 20_000
"""Source entities of each half that structure is asked about."""

_BLOCK = 1 << 16
_SALT = 0x1D6E


@dataclass(frozen=True)
class _Half:
    """One half: its source entities, and vectors that do not know their pseudo-seeds."""

    sources: npt.NDArray[np.int32]
    vectors: EntityVectors


@dataclass(frozen=True)
class Structure:
    """Similarity by structure, of pairs that it was not told."""

    halves: Sequence[_Half]
    half_of_source: npt.NDArray[np.int8]
    """The half of each source entity, -1 for anchors."""
    device: str
    random_seed: int

    @classmethod
    def of(
        cls,
        task: AlignmentTask,
        pseudo_seeds: Links,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> Structure:
        """Propagate labels from the seeds, and from each half of the pseudo-seeds."""
        draw = np.random.default_rng([random_seed, _SALT])
        half_of = draw.integers(0, 2, task.source.num_entities, dtype=np.int8)
        half_of[task.seeds.source] = -1
        halves = []
        for half in (0, 1):
            told = Links.from_pairs(pseudo_seeds.pairs[half_of[pseudo_seeds.source] != half])
            vectors = Propagation(OPTIONS).compute(
                task, told.union(task.seeds), random_seed=random_seed, device=device, memory=memory
            )
            if vectors is not None:
                halves.append(_Half(np.flatnonzero(half_of == half).astype(np.int32), vectors))
        return cls(halves, half_of, device, random_seed)

    def similarity(self, source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> np.ndarray:
        """The cosine of each pair; 0 where nothing is known."""
        similarity = np.zeros(len(source))
        for number, half in enumerate(self.halves):
            rows = np.flatnonzero(self.half_of_source[source] == number)
            for first in range(0, len(rows), _BLOCK):
                some = rows[first : first + _BLOCK]
                ends = half.vectors.source[source[some]], half.vectors.target[target[some]]
                left, right = (end.astype(np.float32) for end in ends)
                lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
                similarity[some] = (left * right).sum(axis=1) / np.maximum(lengths, 1e-12)
        return similarity

    def nearest(self, sources: npt.NDArray[np.int64]) -> tuple[np.ndarray, np.ndarray]:
        """The nearest targets of some sources: the position of the source, and the target."""
        positions, targets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number, half in enumerate(self.halves):
            rows = np.flatnonzero(self.half_of_source[sources] == number)
            if len(rows):
                listed = nearest_vectors(half.vectors, sources[rows], self.device, count=10)
                positions.append(np.repeat(rows, np.diff(listed.indptr)))
                targets.append(listed.indices.astype(np.int64))
        return np.concatenate(positions), np.concatenate(targets)

    @cached_property
    def sure(self) -> Links:
        """Pairs that structure alone is sure of, at most one for each entity."""
        found = [np.zeros((0, 2), dtype=np.int32)]
        draw = np.random.default_rng([self.random_seed, _SALT, 1])
        for half in self.halves:
            sources = np.sort(draw.permutation(half.sources)[:MOST_JUDGED])
            listed = nearest_vectors(half.vectors, sources, self.device)
            scores = PairScores("structure", sources, half.vectors.target_ids, listed)
            found.append(sure_pairs((scores,)).pairs)
        pairs = np.concatenate(found)
        # The two halves may claim the same target, which then judges nothing.
        _, first, count = np.unique(pairs[:, 1], return_index=True, return_counts=True)
        return Links.from_pairs(pairs[np.sort(first[count == 1])])
