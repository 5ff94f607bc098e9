"""Dividing and aligning odd graphs (a hub, components of two, a chain) next to an ordinary graph.

All graphs have equally many entities, and one in fifty is an anchor. Each is divided twice: as in a first
iteration, and as in a later one that has found half of the pairs. An alignment has two iterations of
the default model in one subtask for every 2000 entities. Rounds of all graphs take turns, and a ratio is the
time divided by that of the ordinary graph in the same round; the aim is at most 3.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import Figures, Needs, Value, add_rounds, in_turns, measure
from divea import align
from divea.config import DivisionSettings
from divea.division import Feedback
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.registry import DIVISIONS

NEEDS = Needs("none", "CPU", "5 min")

ORDINARY = "ordinary"
ODD: dict[str, Callable[[int], list[tuple[int, int]]]] = {
    "hub": lambda entities: [(0, number) for number in range(1, entities)],
    "components": lambda entities: [(number, number + 1) for number in range(0, entities - 1, 2)],
    "chain": lambda entities: [(number, number + 1) for number in range(entities - 1)],
}
"""Name -> the edges of the graph with this many entities."""

DIVISION_SETTINGS: dict[str, tuple[str, dict[str, object]]] = {
    "joint": ("joint", {}),
    "divea, bfs": ("divea", {"locality": "bfs"}),
    "divea, rounds": ("divea", {"delta1": 0.5, "delta2": 0.1, "evidence": {"method": "rounds"}}),
    **{name: (name, {}) for name in ("random", "cps", "sbp", "isbp")},
}

PARTS = 5
ENTITIES_PER_SUBTASK = 2000
ENTITIES_PER_ANCHOR = 50
MOST_TIMES = 3.0
"""An odd graph that takes longer than this many times the ordinary one is a failure."""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--entities", type=int, default=30_000, help="entities of each graph to divide")
    parser.add_argument("--aligned", type=int, default=4000, help="entities of each graph to align")
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = {**dict.fromkeys((ORDINARY, *ODD), "s"), **{ratio_of(kind): "" for kind in ODD}}
    divisions = figures.table("dividing", {"division": "", **units})
    tasks = tasks_of(options.entities)
    for label, (name, settings) in DIVISION_SETTINGS.items():
        chosen = DivisionSettings.checked(settings)
        works = {kind: partial(divide_twice, name, chosen, task) for kind, task in tasks.items()}
        divisions.add({"division": label, **times(figures, f"dividing, {label}", works, options.rounds)})
    alignments = figures.table("aligning", units)
    works = {kind: partial(align_once, task) for kind, task in tasks_of(options.aligned).items()}
    alignments.add(times(figures, "aligning", works, options.rounds))
    return figures


def ratio_of(kind: str) -> str:
    return f"{kind}, ratio"


def times(
    figures: Figures, label: str, works: Mapping[str, Callable[[], None]], rounds: int
) -> dict[str, Value]:
    """The time of every graph, and its ratio to the ordinary one."""
    found = in_turns({kind: partial(measure, work) for kind, work in works.items()}, rounds)
    ratios = {kind: found[kind].times(found[ORDINARY]) for kind in ODD}
    for kind, ratio in ratios.items():
        if ratio.median > MOST_TIMES:
            figures.fail(f"{label}: {kind} takes {ratio.median:.1f} times as long as an ordinary graph")
    return {
        **{kind: one.seconds for kind, one in found.items()},
        **{ratio_of(kind): ratio for kind, ratio in ratios.items()},
    }


def tasks_of(entities: int) -> dict[str, AlignmentTask]:
    """The graphs, each aligned with a copy of itself; the ordinary one is that of a synthetic pair."""
    ordinary = synthesise(SynthConfig(entities=entities, random_seed=1)).task.source
    odd = {
        kind: KnowledgeGraph.from_triples([(f"e{head}", "r", f"e{tail}") for head, tail in edges(entities)])
        for kind, edges in ODD.items()
    }
    tasks = {}
    for kind, graph in {ORDINARY: ordinary, **odd}.items():
        anchors = np.arange(0, graph.num_entities, ENTITIES_PER_ANCHOR, dtype=np.int32)
        tasks[kind] = AlignmentTask(graph, graph, Links(anchors, anchors))
    return tasks


def divide_twice(name: str, settings: DivisionSettings, task: AlignmentTask) -> None:
    size = int(2.4 * len(task.unmatched_source) / PARTS)
    strategy = DIVISIONS.load(name).from_settings(PARTS, size, settings)
    first = strategy.divide(task)
    found = task.unmatched_source[: len(task.unmatched_source) // 2]
    strategy.divide(task, Feedback(first, Links(found, found)))


def align_once(task: AlignmentTask) -> None:
    subtasks = max(1, task.source.num_entities // ENTITIES_PER_SUBTASK)
    with tempfile.TemporaryDirectory() as folder:
        align(
            task, subtasks=subtasks, iterations=2, device="cpu", executor="inline", out=Path(folder) / "run"
        )
