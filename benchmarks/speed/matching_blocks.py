"""Matching 100,000 x 100,000 entities of 300 dimensions next to the bare matrix product.

Matching finds the top 10 and the mutual best pairs. The product is computed in the same blocks and thrown
away. CSLS needs two products. Every measurement is a new process, and memory is the peak beyond the
embeddings. Aim: less than 2 GiB, and at most 1.3 times the product for cosine.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
import torch

from benchmarks.common import Figures, Needs, add_device, add_rounds, in_turns, measure_in_child
from divea.matching import METHODS, match
from divea.matching.similarity import cosine_blocks
from divea.types import Embeddings

NEEDS = Needs("none", "CPU or GPU", "1 min (GPU), 15 min")

PRODUCT = "product"
WARM_UP = 2000


def add_options(parser: argparse.ArgumentParser) -> None:
    add_device(parser)
    parser.add_argument("--entities", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=300)
    parser.add_argument("--memory", type=int, default=1 << 30, help="bytes for blocks of scores")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=["cosine"])
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    table = figures.table("matching", {"method": "", "time": "s", "ratio": "", "peak memory": "MiB"})
    shape = options.entities, options.dimensions
    works = {
        name: partial(
            measure_in_child, prepare, name, shape, options.memory, options.device, device=options.device
        )
        for name in (PRODUCT, *options.methods)
    }
    found = in_turns(works, options.rounds)
    for name, rounds in found.items():
        table.add(
            {
                "method": name,
                "time": rounds.seconds,
                "ratio": rounds.times(found[PRODUCT]),
                "peak memory": rounds.memory,
            }
        )
    return figures


def prepare(name: str, shape: tuple[int, int], memory: int, device: str) -> Callable[[], None]:
    generator = torch.Generator(device).manual_seed(0)
    source, target = (torch.randn(shape, generator=generator, device=device) for _ in range(2))
    embeddings = Embeddings(source, target).normalised()
    del source, target
    ids = np.arange(shape[0])
    warm = Embeddings(embeddings.source[:WARM_UP], embeddings.target)
    match(warm, ids[:WARM_UP], ids, method="cosine", memory=memory)

    def product() -> None:
        for _, block in cosine_blocks(embeddings.source, embeddings.target, memory):
            del block

    def matching() -> None:
        match(embeddings, ids, ids, method=name, memory=memory)

    return product if name == PRODUCT else matching
