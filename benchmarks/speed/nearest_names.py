"""The ten nearest names of each name of two graphs: time, memory, and recall against brute force.

Synthetic pairs with names (`divea synth --names --seed-share 0`). The computation of the vectors of all names
and the search for the nearest ones in both directions are measured. Every size has a new process, and "peak
memory" is that of the whole process. CPU time is that of all threads; two cores need at least half of it.

Recall is the share of the nearest names of a sample that were found. Brute force is the product of complete
vectors, computed by scipy for all names of the other side. A name that is as near as the tenth counts as
found, because names with the same similarity are equally near. Recall@1 is the share of names whose very
nearest was found. Similarities that were found must be those of brute force.

Aim: at most 10 minutes on two cores and 8 GiB for 2,000,000 + 2,000,000 entities.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from benchmarks.common import (
    Figures,
    Measurement,
    Needs,
    add_pairs,
    add_random_seed,
    measure,
    measure_in_child,
    synthetic_pair,
)
from divea.features.names import NameTable, find_names, same_language_first
from divea.features.nearest import nearest_of_both
from divea.features.text import token_vectors
from divea.graphs import load_task

NEEDS = Needs("synthetic pairs", "CPU, 8 GiB", "15 min")

ROWS_AT_A_TIME = 50
ROUNDING = 1e-5


@dataclass(frozen=True)
class Cost:
    """Seconds of wall and CPU time, and bytes of peak memory of the process."""

    seconds: float
    cpu_seconds: float
    memory: int

    @classmethod
    def of(cls, measurement: Measurement[Any]) -> Cost:
        return cls(measurement.seconds, measurement.cpu_seconds, measurement.process_memory)


@dataclass(frozen=True)
class Recall:
    """What was found of the nearest names of a sample."""

    of_all: float
    of_first: float
    is_exact: bool
    """Whether all similarities are those of brute force."""


@dataclass(frozen=True)
class Found:
    """The costs and the recall of one size."""

    names: tuple[int, int]
    is_complete: bool
    """Whether all tokens were searched."""
    vectors: Cost
    nearest: Cost
    source: Recall
    target: Recall


def add_options(parser: argparse.ArgumentParser) -> None:
    add_pairs(parser)
    sizes = [20_000, 200_000, 2_000_000]
    parser.add_argument("--entities", type=int, nargs="+", default=sizes, help="entities of each graph")
    parser.add_argument("--nearest", type=int, default=10, help="nearest names to find (default: 10)")
    parser.add_argument("--sample", type=int, default=1000, help="names of each side to compute recall with")
    add_random_seed(parser)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    units = {"entities": "", "names": "", "search": ""}
    units |= {f"{step} {unit}": "s" for step in ("vectors", "nearest") for unit in ("time", "CPU time")}
    recalls = [f"recall@{k}, {side}" for side in ("source", "target") for k in (options.nearest, 1)]
    table = figures.table("by size", {**units, "peak memory": "GiB", **dict.fromkeys(recalls, "")})
    for entities in options.entities:
        folder = synthetic_pair(options.pairs, entities, names=True)
        arguments = folder / "task", options.nearest, options.sample, options.random_seed
        found = measure_in_child(prepare, *arguments).result
        both = found.source, found.target
        shares = [share for recall in both for share in (recall.of_all, recall.of_first)]
        table.add(
            {
                "entities": entities,
                "names": sum(found.names),
                "search": "exact" if found.is_complete else "by keys",
                "vectors time": found.vectors.seconds,
                "vectors CPU time": found.vectors.cpu_seconds,
                "nearest time": found.nearest.seconds,
                "nearest CPU time": found.nearest.cpu_seconds,
                "peak memory": max(found.vectors.memory, found.nearest.memory) / 2**30,
                **dict(zip(recalls, shares, strict=True)),
            }
        )
        if not all(recall.is_exact for recall in both):
            figures.fail(f"similarities of {entities:,} entities differ from those of brute force")
    return figures


def prepare(folder: Path, count: int, sample: int, random_seed: int) -> Callable[[], Found]:
    task = load_task(folder)
    names = same_language_first(find_names(task.source), find_names(task.target))
    # A tiny search first, so that all libraries are loaded.
    few = names[0].texts[:100], names[1].texts[:100]
    tiny = token_vectors(*few)
    nearest_of_both(tiny.source, tiny.target, count)
    return partial(work, *names, count, sample, random_seed)


def work(source: NameTable, target: NameTable, count: int, sample: int, random_seed: int) -> Found:
    making = measure(lambda: token_vectors(source.texts, target.texts))
    vectors = making.result
    search = measure(lambda: nearest_of_both(vectors.source, vectors.target, count, vectors.keys))
    draw = np.random.default_rng(random_seed)
    return Found(
        (len(source), len(target)),
        vectors.keys is None,
        Cost.of(making),
        Cost.of(search),
        recall(vectors.source, vectors.target, search.result, count, sample, draw),
        recall(vectors.target, vectors.source, search.result.T.tocsr(), count, sample, draw),
    )


def recall(
    rows: csr_array,
    others: csr_array,
    found: csr_array,
    count: int,
    sample: int,
    draw: np.random.Generator,
) -> Recall:
    """The recall of what was found for a sample of rows."""
    chosen = np.sort(draw.permutation(rows.shape[0])[:sample])
    hits = nearest = first_hits = 0
    is_exact = True
    for first in range(0, len(chosen), ROWS_AT_A_TIME):
        some = chosen[first : first + ROWS_AT_A_TIME]
        exact = csr_array(rows[some] @ others.T)
        for number, row in enumerate(some):
            similarity = exact.data[exact.indptr[number] : exact.indptr[number + 1]]
            best = np.sort(similarity[similarity > 0])[::-1][:count]
            place = slice(found.indptr[row], found.indptr[row + 1])
            listed = found.data[place]
            if len(best):
                nearest += len(best)
                hits += min(int((listed >= best[-1] - ROUNDING).sum()), len(best))
                first_hits += bool(listed.max(initial=0) >= best[0] - ROUNDING)
            else:
                first_hits += 1
            own = exact[[number]][:, found.indices[place]].toarray().ravel()
            is_exact &= bool(np.allclose(own, listed, atol=ROUNDING))
    return Recall(hits / max(nearest, 1), first_hits / max(len(chosen), 1), is_exact)
