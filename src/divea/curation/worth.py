"""Which entities are worth a person's time: those whose labels settle most, here and around them.

The worth of an entity's label is a product of three numbers from 0 to 1:

- what it tells about the entity itself, such as the doubt of a run;
- its reach: the number of neighbours that it is evidence for, up to `ENOUGH_NEIGHBOURS`. More neighbours do
  not count, because the neighbours of a hub cannot be told apart by the hub;
- how little is known around it. An entity's neighbours are equal shares of its evidence, and so are their
  neighbours in turn. The more of that evidence is known, the less another label adds.

The most valuable entity is chosen and then counts as known when the next one is chosen. The choice therefore
spreads over the graph. docs/notes/review.md has figures.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import KnowledgeGraph
from divea.graphs.ids import marked
from divea.types import Ids

ENOUGH_NEIGHBOURS = 12
"""The number of neighbours from which the reach of an entity is 1."""

SPREAD = 8.0
"""How fast a label loses worth with the known share of the evidence around it."""

_SALT = 0x1ABE1

Numbers = npt.NDArray[np.float64]


def choose(
    graph: KnowledgeGraph, own: Numbers, count: int, *, known: Ids | None = None, random_seed: int = 0
) -> Ids:
    """The entities whose labels are worth most, the best first.

    Parameters
    ----------
    own
        What a label tells about each entity itself, from 0 to 1; entities with 0 are not chosen.
    known
        Entities whose counterparts are known already.

    Examples
    --------
    Two paths, and one of them has a known end.

    >>> graph = KnowledgeGraph.from_triples([(a, "r", b) for a, b in ("ab", "bc", "de", "ef")])
    >>> graph.label(choose(graph, np.ones(6), 2, known=graph.find(["a"])))
    ['e', 'b']
    """
    shares = _shares(graph)
    degree = np.diff(shares.indptr)
    worth = own * np.minimum(degree / ENOUGH_NEIGHBOURS, 1)
    if known is not None and len(known):
        labels = marked(known, len(worth)).astype(np.float64)
        first = shares @ labels
        worth *= np.exp(-SPREAD * (first + shares @ first))
    # An entity without neighbours is evidence for nothing, but better than no entity at all.
    worth = np.where(own > 0, np.maximum(worth, np.finfo(np.float64).tiny), 0)
    parts = shares.T.tocsr()
    ties = np.random.default_rng([random_seed, _SALT]).permutation(len(worth))
    chosen: list[int] = []
    for _ in range(min(count, int((worth > 0).sum()))):
        best = np.flatnonzero(worth == worth.max())
        entity = int(best[np.argmin(ties[best])])
        chosen.append(entity)
        first = parts[[entity]]
        around = csr_array(first + first @ parts)
        less = worth[around.indices] * np.exp(-SPREAD * around.data)
        worth[around.indices] = np.where(
            worth[around.indices] > 0, np.maximum(less, np.finfo(np.float64).tiny), 0
        )
        worth[entity] = 0
    return np.array(chosen, dtype=np.int32)


def _shares(graph: KnowledgeGraph) -> csr_array:
    """For each entity, the share of its evidence that each neighbour is; all shares are equal."""
    adjacency = csr_array(graph.adjacency, dtype=np.float64)
    adjacency.setdiag(0)
    adjacency.eliminate_zeros()
    degree = np.diff(adjacency.indptr)
    adjacency.data[:] = np.repeat(1 / np.maximum(degree, 1), degree)
    return adjacency
