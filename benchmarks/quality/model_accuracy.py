"""Accuracy and time of models on whole graphs: H@k, MRR and mean rank.

DBP15K. Open protocol: every source entity without a seed is matched with every target entity without one.
Closed: only sources and targets of the links that the result is compared with, as in most of the literature;
this is easier, and no user knows these sets. The time of the first model includes loading kernels.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial

from benchmarks.common import (
    DBP15K,
    MIB,
    DataSet,
    Figures,
    Needs,
    Table,
    add_data,
    add_device,
    add_links,
    add_models,
    make_models,
    measure,
    task_and_links,
)
from divea.evaluation import RankMetrics, gold_ranks
from divea.graphs import AlignmentTask, Links
from divea.matching import METHODS
from divea.models import Model

NEEDS = Needs("DBP15K", "CPU or GPU", "1 min (GPU), 5 min")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)
    add_links(parser)
    add_device(parser)
    parser.add_argument("--percent", type=int, default=20, help="percentage of the links that are seeds")
    parser.add_argument("--split", type=int, default=0)
    add_models(parser, ["label-propagation"])
    parser.add_argument("--matching", nargs="+", choices=list(METHODS), default=["sinkhorn"])
    parser.add_argument("--protocols", nargs="+", choices=("open", "closed"), default=["open"])
    parser.add_argument("--random-seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--memory", type=int, default=4 << 30, help="bytes for blocks of scores")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = dict.fromkeys(("data", "model", "random seed", "matching", "protocol"), "")
    units |= dict.fromkeys(("H@1", "H@5", "H@10", "MRR", "mean rank"), "")
    table = figures.table("accuracy", {**units, "embedding": "s", "matching time": "s", "GPU memory": "MiB"})
    models = make_models(options.models, options.set)
    for name in options.sets:
        task, links = task_and_links(
            DataSet(name, options.data, options.percent, options.split), options.links
        )
        for model_name, model in models.items():
            for random_seed in options.random_seeds:
                add_rows(table, (name, model_name, random_seed), model, task, links, options)
    return figures


def add_rows(
    table: Table,
    about: tuple[str, str, int],
    model: Model,
    task: AlignmentTask,
    links: Links,
    options: argparse.Namespace,
) -> None:
    """Embed once, and match by every method under every protocol."""
    random_seed, device = about[-1], options.device
    embedded = measure(partial(model.embed, task, random_seed=random_seed, device=device), device)
    for protocol in options.protocols:
        for method in options.matching:
            rank = partial(gold_ranks, method=method, protocol=protocol, memory=options.memory)
            ranked = measure(partial(rank, embedded.result, task, links, random_seed=random_seed), device)
            found = asdict(RankMetrics.of(ranked.result))
            peak = max(embedded.memory, ranked.memory) / MIB if device == "cuda" else None
            table.add(
                {
                    **dict(zip(("data", "model", "random seed"), about, strict=True)),
                    "matching": method,
                    "protocol": protocol,
                    "H@1": found["h1"],
                    "H@5": found["h5"],
                    "H@10": found["h10"],
                    "MRR": found["mrr"],
                    "mean rank": found["mean_rank"],
                    "embedding": embedded.seconds,
                    "matching time": ranked.seconds,
                    "GPU memory": peak,
                }
            )
