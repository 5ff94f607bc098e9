"""Memory and time of a subtask for each model, fitted to the cost model that `divea plan` uses.

Subtasks of growing size are cut from a synthetic pair and embedded, each in a new process: with all their
triples, and with half of them, because entities and triples otherwise grow together. Peak memory and time are
fitted by least squares of the relative errors to  fixed + a entities + b triples,  with
coefficients of at least 0. A trained model is timed over 5 and over 25 steps, and the difference is scaled to
all steps. On a CPU the time is the CPU time of one thread, so that other work on the machine does not count.
"Worst error" is that of the fit, "error of the table" that of the costs in `divea.resources.costs`; a
positive error means that the table expects more than was measured.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.optimize import nnls

from benchmarks.common import (
    LIGHTEA,
    Figures,
    Needs,
    Table,
    add_device,
    add_pairs,
    clock,
    measure_in_child,
    synthetic_pair,
)
from divea.config import DivisionSettings, ModelSettings
from divea.division import DivEA
from divea.graphs import AlignmentTask, KnowledgeGraph, load_task
from divea.models import make_model
from divea.resources.costs import COSTS, Linear

NEEDS = Needs("synthetic pairs", "CPU or GPU", "10 min")

MODELS = ("rrea", "gcn-align", "dual-amn", "label-propagation")
PUBLISHED = {"label-propagation": LIGHTEA}
"""Options that differ from the defaults: costs are those of the published models."""

FEW_STEPS, MORE_STEPS = 5, 25


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    add_device(parser)
    parser.add_argument("--entities", type=int, default=30_000, help="entities of each graph of the pair")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    sizes = [2_000, 5_000, 10_000, 15_000]
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=sizes, help="entities of a subtask, at least 3"
    )
    parser.add_argument(
        "--shares", type=float, nargs="+", default=[1.0, 0.5], help="shares of the triples that are kept"
    )


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = {"model": "", "entities": "", "triples": "", "memory": "bytes", "time": "s"}
    measured = figures.table("subtasks", units)
    units = dict.fromkeys(("model", "figure", "fixed", "per entity", "per triple"), "")
    fits = figures.table("fit", {**units, "worst error": "%", "error of the table": "%"})
    folder = synthetic_pair(options.pairs, options.entities) / "task"
    for model in options.models:
        rows = []
        for size, share in itertools.product(options.sizes, options.shares):
            arguments = folder, model, size, share, options.device
            done = measure_in_child(prepare, *arguments, device=options.device)
            rows.append((*done.result[:2], done.memory, done.result[2]))
            names = ("model", "entities", "triples", "memory", "time")
            measured.add(dict(zip(names, (model, *rows[-1]), strict=True)))
        shapes, (memory, times) = np.array(rows)[:, :2], np.array(rows)[:, 2:].T
        costs = COSTS.get((model, options.device))
        add_fit(fits, model, "memory, bytes", shapes, memory, costs.memory if costs else None)
        add_fit(fits, model, "time, s", shapes, times, costs.seconds if costs else None)
    return figures


def prepare(
    folder: Path, name: str, size: int, share: float, device: str
) -> Callable[[], tuple[int, int, float]]:
    """Work that returns entities and triples of a subtask, and the seconds to embed it."""
    if device == "cpu":
        torch.set_num_threads(1)
    whole = subtask(folder, size)
    task = replace(whole, source=thinned(whole.source, share), target=thinned(whole.target, share))
    entities = task.source.num_entities + task.target.num_entities
    triples = task.source.num_triples + task.target.num_triples
    return lambda: (entities, triples, embedding_seconds(task, name, device))


def subtask(folder: Path, size: int) -> AlignmentTask:
    whole = load_task(folder)
    parts = -(-2 * whole.source.num_entities // size)
    return DivEA(parts, size, DivisionSettings(delta1=0.45)).divide(whole).subtasks[0].local(whole)


def thinned(graph: KnowledgeGraph, share: float) -> KnowledgeGraph:
    """The graph with a random share of its triples."""
    is_kept = np.random.default_rng(0).random(graph.num_triples) < share
    return KnowledgeGraph(graph.entities, graph.relations, graph.triples[is_kept])


def embedding_seconds(task: AlignmentTask, name: str, device: str) -> float:
    published = PUBLISHED.get(name, {})

    def seconds(**changes: int) -> float:
        settings: ModelSettings = ModelSettings.checked({"name": name, name: {**published, **changes}})
        model = make_model(settings)
        if device == "cuda":
            return clock(lambda: model.embed(task, device=device), device)
        start = time.process_time()
        model.embed(task, device=device)
        return time.process_time() - start

    steps: int | None = getattr(ModelSettings(name=name).options(name), "steps", None)
    # The first call of a process also loads kernels, which takes seconds on a GPU.
    if steps is None:
        if device == "cuda":
            seconds()
        return seconds()
    seconds(steps=FEW_STEPS)
    few, more = seconds(steps=FEW_STEPS), seconds(steps=MORE_STEPS)
    return few + (more - few) * (steps - FEW_STEPS) / (MORE_STEPS - FEW_STEPS)


def add_fit(
    table: Table, model: str, figure: str, shapes: np.ndarray, values: np.ndarray, known: Linear | None
) -> None:
    inputs = np.column_stack([np.ones(len(values)), shapes])
    # Relative errors count, so that small subtasks are predicted as well as large ones.
    coefficients, _ = nnls(inputs / values[:, None], np.ones(len(values)))
    fixed, per_entity, per_triple = (float(value) for value in coefficients)
    error_of_table = None
    if known is not None:
        errors = np.array([known.at(*shape) for shape in shapes]) / values - 1
        error_of_table = 100 * float(errors[np.abs(errors).argmax()])
    table.add(
        {
            "model": model,
            "figure": figure,
            "fixed": fixed,
            "per entity": per_entity,
            "per triple": per_triple,
            "worst error": 100 * float(np.abs(inputs @ coefficients / values - 1).max()),
            "error of the table": error_of_table,
        }
    )
