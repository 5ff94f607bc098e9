"""The sparse kernels of the models next to gathering and scattering, and whether their bits are repeatable.

Random edges of about the size of DBP15K. Each time is the mean of 20 calls.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.common import Figures, Needs, Spread, add_device, add_rounds, clock
from divea.models.aggregation import EdgeIndex, edge_dot, edge_softmax, weighted_sum

NEEDS = Needs("none", "CPU or GPU", "1 min")

CALLS = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    parser.add_argument("--edges", type=int, default=300_000)
    parser.add_argument("--nodes", type=int, default=39_000)
    parser.add_argument("--types", type=int, default=14_000, help="edge types")
    parser.add_argument("--dimensions", type=int, default=100)
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    table = figures.table("kernels", {"kernel": "", "time": "ms", "same bits again": ""})
    works = kernels(options)
    for name, work in works.items():
        first = work()
        repeats = all(torch.equal(first, work()) for _ in range(CALLS))
        seconds = [clock(work, options.device, CALLS) for _ in range(options.rounds)]
        table.add(
            {"kernel": name, "time": Spread.of(1000 * one for one in seconds), "same bits again": repeats}
        )
    return figures


def kernels(options: argparse.Namespace) -> dict[str, Callable[[], torch.Tensor]]:
    device, nodes, types = options.device, options.nodes, options.types
    rng = np.random.default_rng(0)
    left = np.sort(rng.integers(0, nodes, options.edges))
    right, kind = rng.integers(0, nodes, options.edges), rng.zipf(1.3, options.edges) % types
    neighbours = EdgeIndex.of(left, right, (nodes, nodes), device)
    typed = EdgeIndex.of(right, kind, (nodes, types), device)
    rows = torch.randn(nodes, options.dimensions, device=device)
    type_rows = torch.randn(types, options.dimensions, device=device)
    weights = torch.rand(options.edges, device=device)

    def gather_and_scatter() -> torch.Tensor:
        weighted = rows[neighbours.right] * weights[:, None]
        return torch.zeros_like(rows).index_add_(0, neighbours.left, weighted)

    return {
        "weighted_sum": lambda: weighted_sum(neighbours, weights, rows),
        "weighted_sum to types": lambda: typed.by_right.product(weights, rows),
        "edge_dot": lambda: edge_dot(neighbours, rows, rows),
        "edge_dot, unsorted": lambda: edge_dot(typed, rows, type_rows),
        "edge_softmax": lambda: edge_softmax(neighbours, weights),
        "gather, multiply, index_add": gather_and_scatter,
        "gather both ends, dot": lambda: (rows[neighbours.left] * rows[neighbours.right]).sum(1),
    }
