"""Eight subtasks of a fifth of the graph, trained together, beside one of them alone.

    python benchmarks/stacked_subtasks.py ../shared/data/dbp15k/zh_en --model rrea --set steps=200

A subtask here is a random fifth of the seeds with the nodes nearest to them: the size is what
counts. Times are of training alone, the better of two runs, in one process.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from divea.formats import read_task
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.models import resolve_model

PARTS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--model", nargs="+", default=["rrea"])
    parser.add_argument("--set", nargs="*", default=[], help="options of the model, as name=integer")
    parser.add_argument("--count", type=int, default=8)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    arguments = parser.parse_args()
    whole = read_task(arguments.folder, seeds=arguments.folder / "splits/20/0/sup_ent_ids")
    subtasks = [cut(whole, seed) for seed in range(arguments.count)]
    first = subtasks[0]
    print(f"{arguments.count} subtasks, the first {first.source} to {first.target}, {len(first.seeds)} seeds")
    seeds = list(range(arguments.count))
    options = {key: int(value) for key, _, value in (text.partition("=") for text in arguments.set)}
    for name in arguments.model:
        model = resolve_model(name, **options)
        alone = best_of_two(lambda m=model: m.embed_many(subtasks[:1], seeds=[0], device=arguments.device))
        every = best_of_two(lambda m=model: m.embed_many(subtasks, seeds=seeds, device=arguments.device))
        print(
            f"{name}: one {alone:.2f} s, {arguments.count} together {every:.2f} s, ratio {every / alone:.2f}",
            flush=True,
        )


def cut(task: AlignmentTask, seed: int) -> AlignmentTask:
    rng = np.random.default_rng(seed)
    anchors = task.seeds.pairs[rng.permutation(len(task.seeds))[: len(task.seeds) // PARTS]]
    source = grow(task.source, anchors[:, 0], task.source.num_entities // PARTS)
    target = grow(task.target, anchors[:, 1], task.target.num_entities // PARTS)
    local = np.searchsorted(source, anchors[:, 0]), np.searchsorted(target, anchors[:, 1])
    seeds = Links.from_pairs(np.stack(local, axis=1))
    return AlignmentTask(task.source.subgraph(source), task.target.subgraph(target), seeds)


def grow(graph: KnowledgeGraph, start: np.ndarray, size: int) -> np.ndarray:
    """The start and what is best joined to it, up to `size` entities."""
    inside = np.zeros(graph.num_entities)
    inside[start] = 1
    score = graph.adjacency @ inside + graph.adjacency @ (graph.adjacency @ inside) * 1e-3
    score[start] = np.inf
    return np.sort(np.argsort(-score, kind="stable")[:size])


def best_of_two(call: object) -> float:
    times = []
    for _ in range(2):
        start = time.perf_counter()
        call()  # type: ignore[operator]
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
