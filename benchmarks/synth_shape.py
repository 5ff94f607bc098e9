"""Compares the shape of generated graphs with DBP15K zh-en, and draws it.

python benchmarks/synth_shape.py [--data ../shared/data/dbp15k/zh_en] [--out docs/images/synthetic-shape.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np

from divea import KnowledgeGraph, read_task
from divea.graphs.synth import SynthConfig, synthesise

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PERCENTILES = (10, 25, 50, 75, 90, 99, 99.9)
RANKS = (1, 3, 10, 30, 100, 300, 1000)


def degree_tail(graph: KnowledgeGraph) -> tuple[np.ndarray, np.ndarray]:
    """Degrees, and the share of entities that have at least each."""
    degrees = np.sort(graph.degrees)[::-1]
    return degrees, np.arange(1, len(degrees) + 1) / len(degrees)


def relation_shares(graph: KnowledgeGraph) -> np.ndarray:
    """Share of the triples of each relation, the most used first."""
    return np.sort(np.bincount(graph.triples[:, 1]))[::-1] / graph.num_triples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/dbp15k/zh_en"))
    parser.add_argument("--out", type=Path, default=Path("docs/images/synthetic-shape.png"))
    options = parser.parse_args()
    real = read_task(options.data)
    configs = [
        SynthConfig(graph.num_entities, triples_per_entity=graph.num_triples / graph.num_entities)
        for graph in (real.source, real.target)
    ]
    made = [synthesise(config).task for config in configs]
    shown = {
        "zh": (real.source, "C0-"),
        "generated, as zh": (made[0].source, "C0--"),
        "en": (real.target, "C1-"),
        "generated, as en": (made[1].target, "C1--"),
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for name, (graph, style) in shown.items():
        shares = relation_shares(graph)
        left.loglog(*degree_tail(graph), style, label=name)
        right.loglog(np.arange(1, len(shares) + 1), shares, style, label=name)
        degrees = ", ".join(f"{value:.0f}" for value in np.percentile(graph.degrees, PERCENTILES))
        cumulated = ", ".join(f"{shares[:rank].sum():.2f}" for rank in RANKS)
        print(f"{name}: {graph}")
        print(f"  degree at {PERCENTILES} %: {degrees}")
        print(f"  share of the top {RANKS} relations: {cumulated}")
    left.set(xlabel="degree", ylabel="share of entities with at least this degree", title="Degrees")
    right.set(xlabel="rank of the relation", ylabel="share of triples", title="Relations")
    left.legend()
    figure.savefig(options.out, dpi=110)


if __name__ == "__main__":
    main()
