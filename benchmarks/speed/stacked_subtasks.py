"""Eight subtasks of a fifth of the graph, trained together, next to one of them alone.

A subtask is a random fifth of the seeds of DBP15K zh-en (split 20/0) with the entities nearest to them:
only its size matters here. Times include everything that `embed_many` does. Aim on a GPU: eight together
take at most twice as long as one.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from benchmarks.common import (
    DataSet,
    Figures,
    Needs,
    add_data,
    add_device,
    add_models,
    add_rounds,
    in_turns,
    make_models,
    measure,
)
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.models import Model
from divea.types import Ids

NEEDS = Needs("DBP15K", "CPU or GPU", "2 min (GPU)")

PARTS = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, ["zh-en"])
    add_device(parser)
    add_models(parser, ["rrea", "dual-amn", "gcn-align"])
    parser.add_argument("--count", type=int, default=8, help="subtasks that are trained together")
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = {"model": "", "subtask": "", "one": "s", "together": "s", "ratio": ""}
    table = figures.table(f"{options.count} subtasks together", units)
    whole = DataSet("zh-en", options.data).task()
    subtasks = [subtask(whole, number) for number in range(options.count)]
    first = subtasks[0]
    entities = f"{first.source.num_entities} + {first.target.num_entities} entities"
    for name, model in make_models(options.models, options.set).items():
        works = {"one": subtasks[:1], "together": subtasks}
        embed(model, subtasks[:1], options.device)  # so that the first measurement does not load kernels
        found = in_turns(
            {
                key: partial(measure, partial(embed, model, tasks, options.device), options.device)
                for key, tasks in works.items()
            },
            options.rounds,
        )
        table.add(
            {
                "model": name,
                "subtask": f"{entities}, {len(first.seeds)} seeds",
                "one": found["one"].seconds,
                "together": found["together"].seconds,
                "ratio": found["together"].times(found["one"]),
            }
        )
    return figures


def embed(model: Model, tasks: list[AlignmentTask], device: str) -> None:
    model.embed_many(tasks, random_seeds=range(len(tasks)), device=device)


def subtask(task: AlignmentTask, number: int) -> AlignmentTask:
    """A fifth of the seeds, drawn at random, with as many of the nearest entities as a subtask has."""
    rng = np.random.default_rng(number)
    anchors = task.seeds.pairs[rng.permutation(len(task.seeds))[: len(task.seeds) // PARTS]]
    source = nearest(task.source, anchors[:, 0], task.source.num_entities // PARTS)
    target = nearest(task.target, anchors[:, 1], task.target.num_entities // PARTS)
    local = np.searchsorted(source, anchors[:, 0]), np.searchsorted(target, anchors[:, 1])
    seeds = Links.from_pairs(np.stack(local, axis=1))
    return AlignmentTask(task.source.subgraph(source), task.target.subgraph(target), seeds)


def nearest(graph: KnowledgeGraph, anchors: Ids, count: int) -> Ids:
    """The anchors and the entities with most paths of one and two hops to them, sorted."""
    inside = np.zeros(graph.num_entities)
    inside[anchors] = 1
    score = graph.adjacency @ inside + graph.adjacency @ (graph.adjacency @ inside) * 1e-3
    score[anchors] = np.inf
    return np.sort(np.argsort(-score, kind="stable")[:count]).astype(np.int32)
