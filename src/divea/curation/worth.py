"""What it is worth to know the counterpart of an entity: the doubt that it settles, here and nearby.

A label settles the doubt about its own entity, and is evidence for the entities around it. An entity takes
each of its neighbours as the same share of its evidence, so a label counts much where it is one neighbour of
few, and little for a hub. Two steps are taken; the second counts half.

The most valuable entity is chosen, what its label settles is taken off the doubt around it, and the next one
is chosen. So the choice spreads over the graph by itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import KnowledgeGraph
from divea.graphs.ids import marked
from divea.types import Ids

SECOND_STEP = 0.5
"""What the second step counts beside the first."""

_SALT = 0x1ABE1

Numbers = npt.NDArray[np.float64]


class Surroundings:
    """The entities around each entity of a graph, and the share of their evidence that it is."""

    def __init__(self, graph: KnowledgeGraph):
        adjacency = csr_array(graph.adjacency, dtype=np.float64)
        degree = np.maximum(np.asarray(adjacency.sum(axis=1)).ravel(), 1)
        # Row i: the shares of i's evidence. The transpose sums over those whose evidence an entity is.
        self._shares = csr_array(adjacency.multiply(1 / degree[:, None]))
        self._parts = self._shares.T.tocsr()

    def sums(self, doubt: Numbers) -> Numbers:
        """For each entity, the doubt around it that its label would settle."""
        first = self._parts @ doubt
        return first + SECOND_STEP * (self._parts @ first)

    def settled(self, known: Ids) -> Numbers:
        """For each entity, the share of its evidence that comes from known entities, 1 at most."""
        labels = marked(known, self._shares.shape[0]).astype(np.float64)
        first = self._shares @ labels
        return np.minimum(first + SECOND_STEP * (self._shares @ first), 1)

    def shares_of(self, entity: int) -> tuple[Ids, Numbers]:
        """The entities around an entity, and the share of the evidence of each that it is."""
        first = self._parts[[entity]]
        both = csr_array(first + SECOND_STEP * (first @ self._parts))
        return both.indices, np.minimum(both.data, 1)


def choose(
    graph: KnowledgeGraph, doubt: Numbers, own: Numbers, count: int, random_seed: int = 0
) -> tuple[Ids, Numbers]:
    """The entities whose labels are worth most, the best first, and what each is worth.

    Parameters
    ----------
    doubt
        The doubt about each entity, from 0 to 1, that labels around it may settle.
    own
        How likely a label of each entity is to say something new, from 0 to 1; 0 for entities that must not
        be chosen.

    Examples
    --------
    The middle of a star settles most; once it is known, so do the leaves.

    >>> star = KnowledgeGraph.from_triples([("hub", "r", leaf) for leaf in "abc"])
    >>> chosen, _ = choose(star, np.ones(4), np.ones(4), 1)
    >>> star.label(chosen)
    ['hub']
    """
    around = Surroundings(graph)
    doubt, own = doubt.astype(np.float64).copy(), own.astype(np.float64).copy()
    ties = np.random.default_rng([random_seed, _SALT]).permutation(len(doubt))
    chosen, worth = [], []
    for _ in range(min(count, int((own > 0).sum()))):
        value = own * (doubt + around.sums(doubt))
        value[own <= 0] = -1
        best = np.flatnonzero(value == value.max())
        entity = int(best[np.argmin(ties[best])])
        chosen.append(entity)
        worth.append(float(value[entity]))
        near, share = around.shares_of(entity)
        doubt[near] *= 1 - share
        doubt[entity] = own[entity] = 0
    return np.array(chosen, dtype=np.int32), np.array(worth)
