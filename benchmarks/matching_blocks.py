"""Top-10 of 100K x 100K entities of 300 dimensions: memory, and time beside the bare product.

    python benchmarks/matching_blocks.py [--device cuda] [--entities 100000]

The product is taken in the same blocks and thrown away. On a CPU, memory is the resident peak of
the process beyond what it held with the embeddings in place; on a GPU, of what torch allocates.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
import torch

from divea.matching import Embeddings, match
from divea.matching.similarity import cosine_blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=300)
    parser.add_argument("--memory", type=int, default=1 << 30)
    parser.add_argument("--method", nargs="+", default=["cosine"])
    arguments = parser.parse_args()
    device, shape = arguments.device, (arguments.entities, arguments.dimensions)
    generator = torch.Generator(device).manual_seed(0)
    sides = [torch.randn(shape, generator=generator, device=device) for _ in range(2)]
    embeddings = Embeddings(*(torch.nn.functional.normalize(side, dim=1) for side in sides))
    del sides
    ids = np.arange(arguments.entities)

    def product() -> None:
        for _, block in cosine_blocks(embeddings.source, embeddings.target, arguments.memory):
            del block

    before = held(device)
    warm = Embeddings(embeddings.source[:2000], embeddings.target)
    match(warm, ids[:2000], ids, method="cosine", memory=arguments.memory)
    bare = timed(product, device)
    print(f"{device} {shape[0]} x {shape[0]} x {shape[1]}, blocks within {arguments.memory >> 20} MiB")
    print(f"bare product {bare:.2f} s")
    for method in arguments.method:
        taken = timed(lambda m=method: match(embeddings, ids, ids, method=m, memory=arguments.memory), device)
        peak = (held(device) - before) / 2**20
        print(f"{method} top-10 and mutual {taken:.2f} s, ratio {taken / bare:.2f}, peak {peak:.0f} MiB")


def timed(call: object, device: str) -> float:
    times = []
    for _ in range(3 if device == "cuda" else 1):
        start = time.perf_counter()
        call()  # type: ignore[operator]
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


def held(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
