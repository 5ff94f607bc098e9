"""Loops that solve their subtasks in this process, and pairs whose names say nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.config import Settings
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.loop.assignment import Assignment, assign
from divea.loop.lists import Lists, rank
from divea.loop.loop import Outcome, Runtime, Work, run_loop
from divea.loop.solve import solve, subtask_random_seed
from divea.models import make_model
from divea.types import Matches, Solved

SMALL = {"label-propagation": {"labels": 128, "heads": 64, "draft_heads": 32, "rounds": 2}}


def solver_of(settings: Settings) -> Callable[[Work], Iterable[Solved]]:
    """A solver that runs the model of each iteration in this process."""

    def solver(work: Work) -> Iterable[Solved]:
        return solve(
            make_model(settings.model_at(work.iteration)),
            work.task,
            work.subtasks,
            work.pseudo_seeds,
            work.features,
            random_seeds=[
                subtask_random_seed(settings.random_seed, work.iteration, subtask.index)
                for subtask in work.subtasks
            ],
            matching=settings.matching.method,
            top=settings.output.top,
            nearest=0,
        )

    return solver


def align(task: AlignmentTask, settings: Settings) -> Outcome:
    """The outcome of the loop."""
    return run_loop(task, settings, Runtime(solver_of(settings)))


def assigned(source: npt.ArrayLike, target: npt.ArrayLike) -> Assignment:
    """An assignment of these targets to these sources, each the only one of its list."""
    ids = np.asarray(source, dtype=np.int32), np.asarray(target, dtype=np.int32)
    score = np.ones((len(ids[0]), 1), dtype=np.float32)
    blocks = [Matches(ids[0], ids[1][:, None], score, np.zeros(len(score), dtype=bool))]
    return assign(rank(Lists.of(blocks)), one_to_one=False)


def with_shuffled_literals(graph: KnowledgeGraph, random_seed: int = 0) -> KnowledgeGraph:
    """The graph, in which every entity has the names and attributes of another one."""
    old = graph.attributes
    assert old is not None
    other = np.random.default_rng(random_seed).permutation(graph.num_entities).astype(np.int32)
    entities = other[old.entities]
    # Literals are sorted by entity, and then as they are here.
    order = np.argsort(entities, kind="stable")
    take = pa.array(order)
    attributes = replace(
        old,
        entities=entities[order],
        predicates=old.predicates[order],
        values=old.values.take(take),
        kinds=old.kinds.take(take),
    )
    return KnowledgeGraph(graph.entities, graph.relations, graph.triples, attributes)
