"""The shape of generated graphs next to that of DBP15K zh-en: degrees and relation frequencies.

Each generated graph has as many entities and triples as the real one that it is compared with (random seed
0). `--plot` also draws both, which needs matplotlib: `pip install 'divea[plots]'`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common import DataSet, Figures, Needs, add_data
from divea.graphs import KnowledgeGraph
from divea.graphs.synth import SynthConfig, synthesise

NEEDS = Needs("DBP15K", "CPU", "10 s")

PERCENTILES = (10, 25, 50, 75, 90, 99, 99.9)
RANKS = (1, 3, 10, 30, 100, 300, 1000)


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, ["zh-en"])
    parser.add_argument("--plot", type=Path, metavar="FILE", help="as docs/images/synthetic-shape.png")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    degrees = figures.table("degree at a percentile", {"graph": "", **{f"{at} %": "" for at in PERCENTILES}})
    units = {"graph": "", **{f"top {rank}": "" for rank in RANKS}}
    relations = figures.table("share of triples of the most frequent relations", units)
    real = DataSet("zh-en", options.data).task()
    graphs = {
        "zh": real.source,
        "generated, as zh": synthesise(config_like(real.source)).task.source,
        "en": real.target,
        "generated, as en": synthesise(config_like(real.target)).task.target,
    }
    for name, graph in graphs.items():
        at = np.percentile(graph.degrees, PERCENTILES)
        row = {f"{percentile} %": float(value) for percentile, value in zip(PERCENTILES, at, strict=True)}
        degrees.add({"graph": name, **row})
        shares = relation_shares(graph)
        relations.add({"graph": name, **{f"top {rank}": float(shares[:rank].sum()) for rank in RANKS}})
    if options.plot is not None:
        plot(graphs, options.plot)
    return figures


def config_like(graph: KnowledgeGraph) -> SynthConfig:
    return SynthConfig(graph.num_entities, triples_per_entity=graph.num_triples / graph.num_entities)


def relation_shares(graph: KnowledgeGraph) -> npt.NDArray[np.float64]:
    """The share of the triples that each relation has, the most frequent first."""
    return np.sort(np.bincount(graph.triples[:, 1]))[::-1] / graph.num_triples


def plot(graphs: dict[str, KnowledgeGraph], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for (name, graph), style in zip(graphs.items(), ("C0-", "C0--", "C1-", "C1--"), strict=True):
        degrees, shares = np.sort(graph.degrees)[::-1], relation_shares(graph)
        left.loglog(degrees, np.arange(1, len(degrees) + 1) / len(degrees), style, label=name)
        right.loglog(np.arange(1, len(shares) + 1), shares, style, label=name)
    left.set(xlabel="degree", ylabel="share of entities with at least this degree", title="Degrees")
    right.set(xlabel="rank of the relation", ylabel="share of triples", title="Relations")
    left.legend()
    figure.savefig(path, dpi=110)
