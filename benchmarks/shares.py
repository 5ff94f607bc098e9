"""Does the division choose the shares that a model does best with? Judged on held-out seeds alone.

    python benchmarks/shares.py ../shared/data --folds 3

A fifth of the seeds is held out and treated as unmatched. For several source contexts (as a share of what
the unmatched entities leave of S) and several shares of connecting entities: the coverage of the
held-out links, and the H@1 of a small label propagation in the subtasks. N = 5; no test link is read.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from divea.division import DivEA, Division
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.matching import match
from divea.models import resolve_model

PARTS, FOLDS = 5, 5
GRID = [(0.06, 0.0), (0.1, 0.0), (0.14, 0.0), (0.18, 0.0), (0.24, 0.0), (0.1, 0.07), (0.18, 0.07)]
MODEL = resolve_model("label-propagation", labels=256, heads=64, draft_heads=32, rounds=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--folds", type=int, default=3, help="of five, each a fifth of the seeds")
    options = parser.parse_args()
    zh, fr = (options.data / "dbp15k" / name for name in ("zh_en", "fr_en"))
    pairs = {
        "zh-en": (read_task(zh, zh / "splits" / "20" / "0" / "sup_ent_ids"), (7792, 9421)),
        "fr-en": (read_task(fr, fr / "splits" / "20" / "0" / "sup_ent_ids"), (7930, 9594)),
        "D-Y": (read_task(options.data / "openea" / "D_Y_15K_V1"), (6000, 7200)),
    }
    for name, (task, sizes) in pairs.items():
        for size in sizes:
            compare(name, task, size, options.folds)


def compare(name: str, task: AlignmentTask, size: int, folds: int) -> None:
    found: dict[str, list[tuple[float, float]]] = {}
    for reduced, held in list(held_out(task))[:folds]:
        # Held-out entities ride along on top of the limit, as they do when shares are chosen.
        limit = size + len(held) // PARTS
        chosen = DivEA(PARTS, limit).divide(reduced)
        largest = max(len(subtask.unmatched) for subtask in chosen.subtasks)
        found.setdefault("chosen", []).append(judge(chosen, reduced, held))
        for context, connecting in GRID:
            delta1 = (largest + context * (limit - largest)) / limit
            division = DivEA(PARTS, limit, delta1=delta1, delta2=connecting).divide(reduced)
            found.setdefault(f"context {context}, delta2 {connecting}", []).append(
                judge(division, reduced, held)
            )
    for what, rows in found.items():
        coverage, hits = np.mean(rows, axis=0)
        print(f"{name}, S {size}, {what}: coverage {coverage:.4f}, H@1 {hits:.4f}", flush=True)


def held_out(task: AlignmentTask) -> Iterator[tuple[AlignmentTask, Links]]:
    fold = np.random.default_rng(0).integers(FOLDS, size=len(task.seeds))
    for number in range(FOLDS):
        out = fold == number
        rest = Links(task.seeds.source[~out], task.seeds.target[~out])
        yield (
            AlignmentTask(task.source, task.target, rest),
            Links(task.seeds.source[out], task.seeds.target[out]),
        )


def judge(division: Division, task: AlignmentTask, held: Links) -> tuple[float, float]:
    """Coverage and H@1 of the held-out links."""
    covered, hits = 0, 0
    for subtask in division.subtasks:
        sources = np.searchsorted(subtask.source_entities, subtask.unmatched).astype(np.int32)
        candidates = np.searchsorted(subtask.target_entities, subtask.candidates).astype(np.int32)
        embeddings = MODEL.embed(subtask.local(task))
        best = match(embeddings, sources, candidates, method="sinkhorn", top=1).best
        own = division.groups[held.source] == subtask.index
        answer = subtask.target_entities[best[np.searchsorted(subtask.unmatched, held.source[own])]]
        covered += int(np.isin(held.target[own], subtask.candidates).sum())
        hits += int((answer == held.target[own]).sum())
    return covered / len(held), hits / len(held)


if __name__ == "__main__":
    main()
