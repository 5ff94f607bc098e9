"""What each step of a division costs in sparse products, and how much of its time they take.

Every sparse product is counted as it happens: multiply-adds, and the bytes that it must move (the matrix
once, one row of the dense operand for every entry, the result once). Next to them are the seconds spent in
products and in the whole step, and how fast the machine copies memory. Counting slows the steps down, and
runs one block at a time.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.common import Figures, Needs, Table, add_pairs, clock, synthetic_pair
from divea.division import DivEA, parallel
from divea.division import divea as module
from divea.graphs import load_task

NEEDS = Needs("synthetic pairs", "CPU, 4 GiB", "2 min")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    parser.add_argument("--entities", type=int, default=2_000_000, help="entities of each graph")
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--size", type=int, default=23_000)
    parser.add_argument("--threads", type=int, default=2)


def run(options: argparse.Namespace) -> Figures:
    torch.set_num_threads(options.threads)
    figures = Figures()
    block = torch.zeros(1 << 27)
    figures.add("copying memory", 2 * block.nbytes / clock(block.clone) / 1e9, "GB/s")
    units = {"step": "", "products": "", "multiply-adds": "G", "moved": "GB"}
    units |= {"in products": "s", "speed of products": "GB/s", "whole step": "s"}
    table = figures.table("steps", units)
    task = load_task(synthetic_pair(options.pairs, options.entities) / "task")
    counter = Counter()
    # Products of other threads would not be counted.
    with mock.patch.object(parallel, "THREADS", 1), counting_timer(counter, table), counter:
        DivEA(options.parts, options.size).divide(task)
    return figures


class Counter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts sparse products and times them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.reset()

    def reset(self) -> None:
        self.products, self.multiply_adds, self.bytes, self.seconds = 0, 0, 0, 0.0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # mm(matrix, dense) and addmm(added, matrix, dense)
        at = 1 if "addmm" in str(func) else 0
        left = args[at] if len(args) > at else None
        if not (isinstance(left, torch.Tensor) and left.layout == torch.sparse_csr and "mm" in str(func)):
            return func(*args, **(kwargs or {}))
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self.seconds += time.perf_counter() - start
        entries, columns, width = left.values().numel(), args[at + 1].shape[1], left.dtype.itemsize
        self.products += 1
        self.multiply_adds += entries * columns
        self.bytes += entries * (4 + width) + entries * columns * width + result.numel() * width
        return result


def counting_timer(counter: Counter, table: Table) -> Any:
    """Replaces the timer of a division by one that adds a row to the table after every step."""

    class CountingTimer(module._Timer):
        @contextmanager
        def step(self, name: str) -> Iterator[None]:
            counter.reset()
            with super().step(name):
                yield
            table.add(
                {
                    "step": name,
                    "products": counter.products,
                    "multiply-adds": counter.multiply_adds / 1e9,
                    "moved": counter.bytes / 1e9,
                    "in products": counter.seconds,
                    "speed of products": counter.bytes / counter.seconds / 1e9 if counter.seconds else None,
                    "whole step": self.seconds[name],
                }
            )

    return mock.patch.object(module, "_Timer", CountingTimer)
