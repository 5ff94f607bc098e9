"""Similarity by structure, of pairs that it did not start from: it judges other features, and they judge it.

A pseudo-seed that was chosen by its name says nothing about names, and structure that starts from it is sure
of it because of its name. The entities are therefore split into two halves: labels that are propagated from
the pseudo-seeds of one half judge the entities of the other half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, vstack

from divea.config import LabelPropagationOptions
from divea.features.fusion import FEWEST_PAIRS, cosines, learned_weights, nearest_vectors, sample
from divea.features.neighbours import matches_and_seeds, neighbour_support
from divea.features.propagation import Propagation
from divea.features.start import sure_pairs
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, PairScores, all_ids

OPTIONS = LabelPropagationOptions(labels=512, heads=256, width=8, rounds=1)
"""The same dimensions as those of the model, so that the slope of the similarity is about the same. Further
rounds would cost much and change little."""

LEAST_SUPPORT = 3
"""The number of neighbours of a pair that must match each other for structure to be sure of it. Two entities
with one neighbour each may be similar only because nothing else is known about them. `benchmarks run
structure_judges` measures the share of correct pairs by the number of matching neighbours."""

MOST_JUDGED = 20_000
"""The most source entities of each half that structure judges."""

_SALT = 0x1D6E


@dataclass(frozen=True)
class _Half:
    """One half: its source entities, and vectors that do not know their pseudo-seeds."""

    number: int
    """0 or 1: with few pseudo-seeds, only the second half may have vectors."""
    sources: npt.NDArray[np.int32]
    vectors: EntityVectors


@dataclass(frozen=True)
class Structure:
    """Similarity by structure, of pairs that it did not start from."""

    task: AlignmentTask
    pseudo_seeds: Links
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
        if not len(pseudo_seeds):
            # Both halves would start from the same pairs.
            half_of[:] = 0
        half_of[task.seeds.source] = -1
        halves = []
        for half in np.unique(half_of[half_of >= 0]).tolist():
            known = Links.from_pairs(pseudo_seeds.pairs[half_of[pseudo_seeds.source] != half])
            vectors = Propagation(OPTIONS).compute(
                task, known.union(task.seeds), random_seed=random_seed, device=device, memory=memory
            )
            if vectors is not None:
                halves.append(_Half(half, np.flatnonzero(half_of == half).astype(np.int32), vectors))
        return cls(task, pseudo_seeds, halves, half_of, device, random_seed)

    def similarity(self, source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> np.ndarray:
        """The cosine of each pair; 0 where nothing is known."""
        similarity = np.zeros(len(source))
        for half in self.halves:
            rows = np.flatnonzero(self.half_of_source[source] == half.number)
            similarity[rows] = cosines(half.vectors, source[rows], target[rows])
        return similarity

    def nearest(self, sources: npt.NDArray[np.int64]) -> tuple[np.ndarray, np.ndarray]:
        """The nearest targets of some sources: the position of the source, and the target."""
        positions, targets = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for half in self.halves:
            rows = np.flatnonzero(self.half_of_source[sources] == half.number)
            if len(rows):
                listed = nearest_vectors(half.vectors, sources[rows], self.device, count=10)
                positions.append(np.repeat(rows, np.diff(listed.indptr)))
                targets.append(listed.indices.astype(np.int64))
        return np.concatenate(positions), np.concatenate(targets)

    def listed(self, sources: npt.NDArray[np.integer[Any]]) -> PairScores:
        """The similarity of the nearest targets of some sources, which are sorted."""
        targets, listed = all_ids(self.task)[1], []
        for half in self.halves:
            own = sources[self.half_of_source[sources] == half.number].astype(np.int32)
            if len(own):
                listed.append((own, nearest_vectors(half.vectors, own, self.device)))
        if not listed:
            return PairScores(
                "structure", np.zeros(0, np.int32), targets, csr_array((0, len(targets)), dtype=np.float32)
            )
        ids = np.concatenate([own for own, _ in listed])
        order = np.argsort(ids)
        scores = csr_array(vstack([scores for _, scores in listed], format="csr")[order])
        return PairScores("structure", ids[order], targets, scores).without(self.task.rejected)

    @cached_property
    def sure(self) -> Links:
        """Pairs that structure alone is sure of, at most one for each entity."""
        pairs, support = self.likely
        pairs = pairs[support >= LEAST_SUPPORT]
        # The two halves may claim the same target, which then judges nothing.
        _, first, count = np.unique(pairs[:, 1], return_index=True, return_counts=True)
        return Links.from_pairs(pairs[np.sort(first[count == 1])])

    @property
    def likely(self) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Pairs that are each other's best by far, and how many neighbours of each match."""
        found = [np.zeros((0, 2), dtype=np.int32)]
        draw = np.random.default_rng([self.random_seed, _SALT, 1])
        for half in self.halves:
            sources = np.sort(draw.permutation(half.sources)[:MOST_JUDGED])
            found.append(sure_pairs((self.listed(sources),)).pairs)
        pairs = np.concatenate(found)
        # Pseudo-seeds of neighbours may come from either half, because they are not the pair itself.
        known = matches_and_seeds((self.pseudo_seeds.source, self.pseudo_seeds.target), self.task)
        return pairs, neighbour_support((pairs[:, 0], pairs[:, 1]), known, self.task)[0]

    def weight(self, judges: Links) -> float | None:
        """The weight of the similarity, as `learned_weights` fits it; None if there are too few judges.

        Parameters
        ----------
        judges
            Pairs that are known to match. Seeds among them are left out, because structure started from them.
        """
        judges = sample(Links.from_pairs(judges.pairs[self.half_of_source[judges.source] >= 0]))
        listed = self.listed(np.sort(judges.source))
        judges = Links.from_pairs(judges.pairs[np.isin(judges.source, listed.source_ids)])
        return learned_weights((listed,), judges)[0] if len(judges) >= FEWEST_PAIRS else None
