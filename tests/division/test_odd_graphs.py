"""Odd graphs: a hub, thousands of components, a chain. Work and memory must grow as on ordinary graphs.

Calls and bytes are counted, because times depend on the machine. `python -m benchmarks run odd_graphs` prints
the times.
"""

import cProfile
import tracemalloc

import numpy as np
import pytest

from divea.config import DivisionSettings
from divea.division import Division, Feedback, parallel
from divea.division.locality import MOST_PRODUCTS, HopLocality
from divea.division.strategy import Strategy
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.ids import contains
from divea.registry import DIVISIONS

PARTS = 4
SMALL, LARGE = 1000, 4000
"""Triples of the two graphs that are compared."""

GRAPHS = {
    "hub": lambda number: ("hub", "r", f"e{number}"),
    "components": lambda number: (f"a{number}", "r", f"b{number}"),
    "chain": lambda number: (f"e{number}", "r", f"e{number + 1}"),
}
"""Name -> the triple of each number."""


def odd_task(kind: str, triples: int) -> AlignmentTask:
    """A graph that is aligned with itself; every fifth entity is a seed."""
    graph = KnowledgeGraph.from_triples([GRAPHS[kind](number) for number in range(triples)])
    anchors = np.arange(0, graph.num_entities, 5, dtype=np.int32)
    return AlignmentTask(graph, graph, Links(anchors, anchors))


def divide_twice(strategy: Strategy, task: AlignmentTask) -> Division:
    """A first division, and one of a later iteration that has found half of the pairs."""
    first = strategy.divide(task)
    found = task.unmatched_source[: len(task.unmatched_source) // 2]
    return strategy.divide(task, Feedback(first, Links(found, found)))


def size_for(task: AlignmentTask) -> int:
    """A size limit that leaves room for candidates and context."""
    return int(2.4 * len(task.unmatched_source) / PARTS)


def calls_and_bytes(name: str, settings: DivisionSettings, task: AlignmentTask) -> tuple[int, int]:
    """Python calls of a division, and the peak of the memory that numpy and Python allocate for it."""
    strategy = DIVISIONS.load(name).from_settings(PARTS, size_for(task), settings)
    profile = cProfile.Profile()
    tracemalloc.start()
    try:
        profile.runcall(divide_twice, strategy, task)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return sum(entry.callcount for entry in profile.getstats()), peak


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("joint", {}),
        ("divea", {"locality": "bfs"}),
        ("divea", {"delta1": 0.5, "delta2": 0.1, "evidence": {"method": "rounds"}}),
        ("random", {}),
        ("cps", {}),
        ("isbp", {}),
    ],
)
def test_a_graph_of_four_times_the_size_takes_as_many_calls_and_four_times_the_memory(
    kind, name, settings, monkeypatch
):
    # A profile does not count the calls of other threads.
    monkeypatch.setattr(parallel, "THREADS", 1)
    chosen = DivisionSettings.checked(settings)
    calls_and_bytes(name, chosen, odd_task(kind, 50))  # so that all modules are imported
    small, large = (calls_and_bytes(name, chosen, odd_task(kind, triples)) for triples in (SMALL, LARGE))
    assert large[0] < 1.5 * small[0], "something is done for each entity in turn"
    assert large[1] < 1.2 * LARGE / SMALL * small[1], "something is larger than the graph"


def test_a_hop_along_a_chain_is_not_a_product_over_the_whole_graph(monkeypatch):
    task = odd_task("chain", 500)
    (end,) = task.source.find(["e0"])
    near = HopLocality(task.source.adjacency, np.array([end]), np.zeros(1, dtype=np.int32), 1)
    products = []
    monkeypatch.setattr(
        near, "_neighbours_of", lambda frontier: products.append(0) or near._matrix @ frontier
    )
    distance = -near.scores(range(1), None).numpy()[:, 0]
    chain = task.source.find([f"e{number}" for number in range(501)])
    np.testing.assert_array_equal(distance[chain], np.arange(501))
    assert len(products) == MOST_PRODUCTS


@pytest.mark.parametrize("kind", GRAPHS)
def test_every_unmatched_entity_of_an_odd_graph_is_in_a_subtask_of_balanced_size(kind):
    task = odd_task(kind, SMALL)
    strategy = DIVISIONS.load("joint").from_settings(PARTS, size_for(task), DivisionSettings())
    division = divide_twice(strategy, task)
    assert division.covers_unmatched_of(task)
    assert max(len(subtask.unmatched) for subtask in division.subtasks) < 0.4 * len(task.unmatched_source)
    assert all(contains(task.unmatched_target, subtask.candidates).all() for subtask in division.subtasks)
