"""What each step of a division costs in products and bytes, and how near the code comes to that.

    python benchmarks/divide_costs.py PAIR --parts 200 --size 23000

Every sparse product is counted as it happens: multiply-adds, and the bytes that it must move (matrix
once, one row of the dense operand for every entry, result once). Beside them stand the seconds spent in
products and in the whole step, and the machine's own speed at copying memory.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from divea.division import DivEA, threads
from divea.division import divea as module
from divea.graphs import load_task


class Counter(TorchDispatchMode):
    """Counts sparse products and times them."""

    def __init__(self) -> None:
        super().__init__()
        self.reset()

    def reset(self) -> None:
        self.products, self.adds, self.bytes, self.seconds = 0, 0, 0, 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        # mm(matrix, dense) and addmm(added, matrix, dense)
        at = 1 if "addmm" in str(func) else 0
        left = args[at] if len(args) > at else None
        if not (isinstance(left, torch.Tensor) and left.layout == torch.sparse_csr and "mm" in str(func)):
            return func(*args, **(kwargs or {}))
        began = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        self.seconds += time.perf_counter() - began
        entries, columns, width = left.values().numel(), args[at + 1].shape[1], left.dtype.itemsize
        self.products += 1
        self.adds += entries * columns
        self.bytes += entries * (4 + width) + entries * columns * width + result.numel() * width
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--parts", type=int, default=200)
    parser.add_argument("--size", type=int, default=23_000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    block = torch.zeros(1 << 27)
    began = time.perf_counter()
    block.clone()
    print(f"copying memory: {2 * block.nbytes / (time.perf_counter() - began) / 1e9:.1f} GB/s")
    task = load_task(options.pair / "task")
    _ = task.source.adjacency, task.target.adjacency
    counter = Counter()
    threads.AT_ONCE = 1  # products of other threads would go uncounted
    keep = module._Watch.step

    class Watch(module._Watch):
        def step(self, name):
            counter.reset()
            return _Reported(keep(self, name), name, counter)

    module._Watch = Watch
    with counter:
        DivEA(options.parts, options.size).divide(task)


class _Reported:
    """A step that says what it cost when it ends."""

    def __init__(self, step, name: str, counter: Counter):
        self.step, self.name, self.counter = step, name, counter

    def __enter__(self) -> None:
        self.began = time.perf_counter()
        self.step.__enter__()

    def __exit__(self, *error) -> None:
        self.step.__exit__(*error)
        done, count = time.perf_counter() - self.began, self.counter
        if count.products:
            print(
                f"{self.name}: {count.products} products, {count.adds / 1e9:.2f} G multiply-adds, "
                f"{count.bytes / 1e9:.1f} GB in {count.seconds:.1f} s "
                f"({count.bytes / max(count.seconds, 1e-9) / 1e9:.1f} GB/s); step {done:.1f} s",
                flush=True,
            )
        else:
            print(f"{self.name}: no products; step {done:.1f} s", flush=True)


if __name__ == "__main__":
    main()
