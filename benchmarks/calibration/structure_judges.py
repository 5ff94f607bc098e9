"""How well structure and features can judge each other on pairs of graphs without seeds.

The first table has the share of correct pairs among those that structure alone is sure of, by the number of
neighbours that match each other; `LEAST_SUPPORT` of features/judges.py is chosen by it. The second one has
the weight of structural similarity, fitted to the pairs that names are sure of; `GOOD_STRUCTURE` of
loop/features.py is chosen by it. Structure starts from the pairs that names are sure of, as in the first
iteration. DBP15K is compared with all its links, which are test links; synthetic pairs have links of their
own.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.common import DBP15K, DataSet, Figures, Needs, add_data
from divea.features.fusion import DEFAULT_WEIGHT
from divea.features.judges import Structure
from divea.features.names import Names
from divea.features.start import sure_pairs
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.graphs.synth import SynthConfig, synthesise

NEEDS = Needs("DBP15K, test links", "CPU", "2 min")

SUPPORT = (0, 1, 2, 3, 4, 6)
"""Each group reaches to the next number; the last one has no end."""
SYNTHETIC = ((3000, 0.3, 1), (3000, 0.7, 2), (6000, 0.1, 3))
"""Entities, noise of the names and random seed."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, DBP15K)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    columns = ("data", "matching neighbours", "judged pairs", "correct")
    shares = figures.table("correct pairs", dict.fromkeys(columns, ""))
    weights = figures.table("structure", dict.fromkeys(("data", "pairs of names", "weight"), ""))
    for name, task, links in pairs(options):
        scores = Names().compute(task, Links.from_pairs([]))
        assert scores is not None
        known = sure_pairs((replace(scores, weight=DEFAULT_WEIGHT),))
        structure = Structure.of(task, known)
        found, support = structure.likely
        target = np.full(task.source.num_entities, -1)
        target[links.source] = links.target
        has_link = target[found[:, 0]] >= 0
        for least, most in zip(SUPPORT, (*SUPPORT[1:], np.inf), strict=True):
            some = has_link & (support >= least) & (support < most)
            if some.any():
                correct = float((target[found[some, 0]] == found[some, 1]).mean())
                judged = {"judged pairs": int(some.sum()), "correct": correct}
                shares.add({"data": name, "matching neighbours": least, **judged})
        weights.add({"data": name, "pairs of names": len(known), "weight": structure.weight(known)})
    return figures


def pairs(options: argparse.Namespace) -> Iterator[tuple[str, AlignmentTask, Links]]:
    """Each pair without seeds, and all its links."""
    for entities, noise, random_seed in SYNTHETIC:
        config = SynthConfig(
            entities=entities, names=True, name_noise=noise, seed_share=0, random_seed=random_seed
        )
        made = synthesise(config)
        yield f"synthetic, {entities} entities, noise {noise}", made.task, made.gold
    for name in options.sets:
        data_set = DataSet(name, options.data)
        task = data_set.task()
        links = task.seeds.union(data_set.test_links(task))
        # The names of zh-en's source are translated, as those of fr-en need not be.
        names = data_set.folder / "names_1.tsv" if name == "zh-en" else None
        named = read_task(data_set.folder, source_names=names)
        yield name, AlignmentTask(named.source, named.target), links
