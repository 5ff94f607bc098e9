"""The paper's equations, written down as plainly as possible: the tests compare the fast code with them.

A graph is a number of entities and a list of edges, one per triple; entities are 0, 1, 2, ...
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from scipy.sparse import csr_array


def neighbours(size, edges):
    """The neighbours of every entity, once per triple, in both directions."""
    lists = [[] for _ in range(size)]
    for head, tail in edges:
        lists[head].append(tail)
        lists[tail].append(head)
    return lists


def adjacency(size, edges):
    """The same graph as the matrix that the code works on."""
    matrix = np.zeros((size, size), dtype=np.int32)
    for head, tail in edges:
        matrix[head, tail] += 1
        matrix[tail, head] += 1
    return csr_array(matrix)


def locality(size, edges, anchors):
    """Eq. 2: minus the length of the shortest path to any anchor, by breadth-first search."""
    near = neighbours(size, edges)
    distance = np.full(size, np.inf)
    queue = deque(anchors)
    distance[list(anchors)] = 0
    while queue:
        entity = queue.popleft()
        for other in near[entity]:
            if distance[other] == np.inf:
                distance[other] = distance[entity] + 1
                queue.append(other)
    return -distance


def top_sum(similarities, k):
    """Eq. 3: the sum of the K highest similarities."""
    return sum(sorted(similarities, reverse=True)[:k])


def similarity_weight(sums, alpha):
    """Eq. 4: min-max scaled sums of one part's candidates, minus the threshold alpha."""
    low, high = min(sums), max(sums)
    return [(value - low) / (high - low) - alpha for value in sums]


@dataclass(frozen=True)
class Evidence:
    """What the entities of a context graph hold (Eqs. 6 to 8); entities outside hold 0."""

    training: np.ndarray
    """h at layer L."""
    inference: np.ndarray
    """h at layer 2L."""
    received: np.ndarray
    """h at layer 2L after Eq. 8."""

    def informativeness(self, unmatched):
        """Eq. 9."""
        return sum(self.received[entity] for entity in unmatched)


def pass_evidence(size, edges, context, anchors, *, whole=None, layers=2, strength=2.0):
    """Eqs. 6 to 8 over the context graph with these entities.

    `whole` is the result for the whole graph, which evidence is normalised by; without it, this is the whole
    graph.
    """
    near = neighbours(size, edges)

    def message_passing(h):
        for _ in range(layers):
            h = np.array(
                [
                    h[e] + sum(h[other] for other in near[e] if other in context) if e in context else 0.0
                    for e in range(size)
                ]
            )
        return h

    def normalised(h, of_whole):
        return np.array(
            [
                2 / (1 + np.exp(-strength * h[e] / of_whole[e])) - 1 if of_whole[e] > 0 else 0.0
                for e in range(size)
            ]
        )

    start = np.array([float(e in context and e in anchors) for e in range(size)])
    training = message_passing(start)
    inference = message_passing(normalised(training, training if whole is None else whole.training))
    received = normalised(inference, inference if whole is None else whole.inference)
    return Evidence(training, inference, received)


def drop_cost(size, edges, anchors, unmatched, entity, **options):
    """Eq. 10: the informativeness that is lost without an entity, by passing evidence again without it."""
    everything = set(range(size))
    whole = pass_evidence(size, edges, everything, anchors, **options)
    left = pass_evidence(size, edges, everything - {entity}, anchors, whole=whole, **options)
    return whole.informativeness(unmatched) - left.informativeness(unmatched)


@st.composite
def graphs_with_parts(draw):
    """A small graph, its anchors, and the unmatched entities of three parts."""
    size = draw(st.integers(2, 12))
    end = st.integers(0, size - 1)
    pairs = draw(st.lists(st.tuples(end, end), max_size=30))
    edges = [(head, tail) for head, tail in pairs if head != tail]
    anchors = draw(st.sets(end, max_size=size))
    parts = draw(st.lists(st.integers(-1, 2), min_size=size, max_size=size))
    unmatched = [[e for e in range(size) if parts[e] == part and e not in anchors] for part in range(3)]
    return size, edges, sorted(anchors), unmatched


def ids(values):
    return np.array(sorted(values), dtype=np.int32)
