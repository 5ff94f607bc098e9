"""A small task with a known answer: two copies of a random graph with unrelated labels.

The contract checks of models and executors run on it, and so do many tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.links import Links
from divea.graphs.task import AlignmentTask


@dataclass(frozen=True)
class PlantedPair:
    """A task, and the links that are not among its seeds."""

    task: AlignmentTask
    gold: Links


def planted_pair(
    entities: int = 80,
    triples: int = 400,
    relations: int = 5,
    seeds: int = 24,
    *,
    random_seed: int = 0,
    labels: int = 0,
) -> PlantedPair:
    """Draw a random graph and copy it with two sets of labels.

    Parameters
    ----------
    entities, triples, relations
        The size of each graph; triples that are drawn repeatedly count once.
    seeds
        The number of links that are seeds; the links of all other entities are gold.
    labels
        Selects the labels: another number gives the same graph other labels, and so other ids.

    Examples
    --------
    >>> pair = planted_pair(entities=10, triples=30, seeds=4)
    >>> len(pair.task.seeds), len(pair.gold)
    (4, 6)
    """
    rng = np.random.default_rng(random_seed)
    heads, tails = rng.integers(entities, size=(2, triples))
    relation = rng.integers(relations, size=triples)
    label_rng = np.random.default_rng([random_seed, labels])
    names = [[f"{side}{number}" for number in label_rng.permutation(entities)] for side in ("left", "right")]
    source, target = (
        KnowledgeGraph.from_triples(
            ((name[h], f"r{r}", name[t]) for h, r, t in zip(heads, relation, tails, strict=True)),
            extra_entities=name,
        )
        for name in names
    )
    known = Links.from_labels(names[0][:seeds], names[1][:seeds], source, target)
    gold = Links.from_labels(names[0][seeds:], names[1][seeds:], source, target)
    return PlantedPair(AlignmentTask(source, target, known), gold)
