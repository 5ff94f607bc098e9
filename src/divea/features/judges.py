"""Judges without seeds: pairs that structure alone is sure of, to learn from what other features are worth.

A pseudo-seed that was chosen for its name says nothing about names, and structure that started from it is
sure of it for its name. So pseudo-seeds are split in two halves: labels are propagated from one half, and
judge the entities of the other half and all entities without a pseudo-seed, and then the other way round.
"""

from __future__ import annotations

import numpy as np

from divea.features.fusion import nearest_vectors
from divea.features.propagation import Propagation
from divea.features.start import sure_pairs
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, PairScores

_SALT = 0x1D6E


def propagated_halves(
    task: AlignmentTask, pseudo_seeds: Links, *, random_seed: int = 0, device: str = "cpu"
) -> list[tuple[EntityVectors, np.ndarray]]:
    """For each half, vectors that start from the other half, and the source entities that they judge."""
    in_first = np.random.default_rng([random_seed, _SALT]).random(task.source.num_entities) < 0.5
    in_first[task.seeds.source] = False
    is_anchor = np.zeros(task.source.num_entities, dtype=bool)
    is_anchor[task.seeds.source] = True
    found = []
    for is_hidden in (in_first, ~in_first & ~is_anchor):
        known = Links.from_pairs(pseudo_seeds.pairs[~is_hidden[pseudo_seeds.source]]).union(task.seeds)
        vectors = Propagation().compute(task, known, random_seed=random_seed, device=device)
        if vectors is not None:
            found.append((vectors, np.flatnonzero(is_hidden).astype(np.int32)))
    return found


def pairs_of_structure(
    task: AlignmentTask, pseudo_seeds: Links, *, random_seed: int = 0, device: str = "cpu"
) -> Links:
    """Pairs that structure alone is sure of, none of which it was told."""
    judged = []
    for vectors, sources in propagated_halves(task, pseudo_seeds, random_seed=random_seed, device=device):
        listed = nearest_vectors(vectors, sources, device)
        judged.append(sure_pairs((PairScores("structure", sources, vectors.target_ids, listed),)).pairs)
    pairs = np.concatenate(judged) if judged else np.zeros((0, 2), np.int32)
    # The two halves may claim the same target: it judges nothing then.
    _, first, count = np.unique(pairs[:, 1], return_index=True, return_counts=True)
    return Links.from_pairs(pairs[np.sort(first[count == 1])])
