"""Dense Sinkhorn next to Sinkhorn over each source's nearest targets, on the same embeddings.

DBP15K, label propagation as wide as LightEA's, open protocol. "Only here" counts links that are correct with
this kernel and wrong with the first one, "only with the first" the reverse.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
import torch

from benchmarks.common import (
    DBP15K,
    LIGHTEA,
    DataSet,
    Figures,
    Needs,
    add_data,
    add_device,
    add_links,
    add_random_seed,
    task_and_links,
)
from divea.config import LabelPropagationOptions
from divea.matching.sinkhorn import dense_sinkhorn, nearest_targets, sparse_sinkhorn
from divea.models.label_propagation import LabelPropagation

NEEDS = Needs("DBP15K", "CPU or GPU", "1 min (GPU), 10 min")

MEMORY = 4 << 30


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K, ["zh-en"])
    add_links(parser)
    add_device(parser)
    parser.add_argument("--percent", type=int, default=20, help="percentage of the links that are seeds")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--nearest", nargs="+", type=int, default=[10, 50, 100, 500, 2000, 5000])
    parser.add_argument("--iterations", nargs="+", type=int, default=[15, 200])
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = dict.fromkeys(("data", "iterations", "kernel", "H@1", "only here", "only with the first"), "")
    table = figures.table("kernels", units)
    for name in options.sets:
        task, links = task_and_links(
            DataSet(name, options.data, options.percent, options.split), options.links
        )
        model = LabelPropagation(LabelPropagationOptions.checked(LIGHTEA))
        embedded = model.embed(task, random_seed=options.random_seed, device=options.device).normalised()
        sources, candidates = task.unmatched_source, task.unmatched_target
        source, target = embedded.source[sources], embedded.target[candidates]
        row = torch.from_numpy(np.searchsorted(sources, links.source)).to(options.device)
        true = torch.from_numpy(np.searchsorted(candidates, links.target)).to(options.device)
        first: torch.Tensor | None = None
        for iterations in options.iterations:
            for kernel, best in best_targets(source, target, iterations, options.nearest):
                correct = best[row] == true
                first = correct if first is None else first
                table.add(
                    {
                        "data": name,
                        "iterations": iterations,
                        "kernel": kernel,
                        "H@1": float(correct.float().mean()),
                        "only here": int((correct & ~first).sum()),
                        "only with the first": int((first & ~correct).sum()),
                    }
                )
    return figures


def best_targets(
    source: torch.Tensor, target: torch.Tensor, iterations: int, nearest: list[int]
) -> Iterator[tuple[str, torch.Tensor]]:
    """The best target of every source, by each kernel."""
    yield "dense", dense_sinkhorn(source @ target.T, iterations=iterations).argmax(dim=1)
    for count in nearest:
        listed = nearest_targets(source, target, MEMORY, count)
        listed = sparse_sinkhorn(listed, len(target), iterations=iterations)
        yield f"{count} nearest", listed.columns.gather(1, listed.values.argmax(dim=1, keepdim=True))[:, 0]
