"""Small pairs of graphs with a known alignment, for the tests of models."""

import numpy as np

from divea.graphs import AlignmentTask, KnowledgeGraph, Links


def planted(entities=60, triples=250, relations=5, seeds=20, seed=0):
    """A task over two copies of a random graph, and the links that are no seeds."""
    rng = np.random.default_rng(seed)
    ends, relation = rng.integers(entities, size=(2, triples)), rng.integers(relations, size=triples)
    facts = np.stack([ends[0], relation, ends[1]], axis=1)
    names = [[f"{side}{i}" for i in rng.permutation(entities)] for side in "ab"]
    graphs = [
        KnowledgeGraph.from_triples(((own[h], f"r{r}", own[t]) for h, r, t in facts), extra_entities=own)
        for own in names
    ]
    links = Links.from_labels(names[0], names[1], *graphs).pairs[rng.permutation(entities)]
    task = AlignmentTask(graphs[0], graphs[1], Links.from_pairs(links[:seeds]))
    return task, Links.from_pairs(links[seeds:])
