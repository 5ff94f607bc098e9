"""What the sparse kernels cost on a device, beside gathering and scattering; and whether they repeat.

python benchmarks/sparse_kernels.py [--device cuda]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch

from divea.models.aggregation import EdgeIndex, edge_dot, edge_softmax, weighted_sum

EDGES, NODES, TYPES, WIDTH = 300_000, 39_000, 14_000, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    rng = np.random.default_rng(0)
    left = np.sort(rng.integers(0, NODES, EDGES))
    right, types = rng.integers(0, NODES, EDGES), rng.zipf(1.3, EDGES) % TYPES
    neighbours = EdgeIndex.of(left, right, (NODES, NODES), device)
    typed = EdgeIndex.of(right, types, (NODES, TYPES), device)
    rows = torch.randn(NODES, WIDTH, device=device)
    kinds = torch.randn(TYPES, WIDTH, device=device)
    weights = torch.rand(EDGES, device=device)
    print(f"{device}: {EDGES} edges, {NODES} nodes, {TYPES} types, {WIDTH} dimensions")
    measure("weighted_sum", lambda: weighted_sum(neighbours, weights, rows), device)
    measure("weighted_sum to types", lambda: typed.by_right.product(weights, rows), device)
    measure("edge_dot", lambda: edge_dot(neighbours, rows, rows), device)
    measure("edge_dot unsorted", lambda: edge_dot(typed, rows, kinds), device)
    measure("edge_softmax", lambda: edge_softmax(neighbours, weights), device)
    measure(
        "gather, multiply, index_add",
        lambda: torch.zeros_like(rows).index_add_(
            0, neighbours.left, rows[neighbours.right] * weights[:, None]
        ),
        device,
    )
    measure("gather both, dot", lambda: (rows[neighbours.left] * rows[neighbours.right]).sum(1), device)


def measure(name: str, call: Callable[[], torch.Tensor], device: str, repeats: int = 20) -> None:
    first = call()
    same = all(torch.equal(first, call()) for _ in range(20))
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    print(f"{name:32s} {(time.perf_counter() - start) / repeats * 1e3:8.3f} ms  same bits again: {same}")


if __name__ == "__main__":
    main()
