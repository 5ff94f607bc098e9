"""The summary of a task that `divea info` prints: figures of both graphs, and warnings."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.task import AlignmentTask
from divea.types import Ids

PERCENTILES = (0, 10, 25, 50, 75, 90, 99, 100)


def summarise(task: AlignmentTask) -> dict[str, Any]:
    """The figures of both graphs and the warnings, as plain JSON types.

    >>> from divea.graphs.planted import planted_pair
    >>> summary = summarise(planted_pair().task)
    >>> summary["source"]["entities"], summary["seeds"], summary["warnings"][0]
    (80, 24, '3 repeated source triples were counted once')
    """
    source = _summarise_graph(task.source, task.seeds.source)
    target = _summarise_graph(task.target, task.seeds.target)
    summary = {"source": source, "target": target, "seeds": len(task.seeds)}
    if len(task.rejected):
        summary["rejected pairs"] = len(task.rejected)
    return summary | {"warnings": _warnings(task, summary)}


def _summarise_graph(graph: KnowledgeGraph, anchors: Ids) -> dict[str, Any]:
    from scipy.sparse.csgraph import connected_components

    count, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component, minlength=count)
    has_anchor = np.zeros(count, dtype=bool)
    has_anchor[component[anchors]] = True
    distance = _hops_from(anchors, graph)
    return {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "triples": graph.num_triples,
        "attributes": 0 if graph.attributes is None else len(graph.attributes),
        "repeated triples": graph.repeated_triples,
        "self-loops": int((graph.heads == graph.tails).sum()),
        "isolated entities": int((graph.degrees == 0).sum()),
        "degree percentiles": _degree_percentiles(graph),
        "components": int(count),
        "largest component": int(sizes.max()) if count else 0,
        "anchors": len(anchors),
        "one hop from an anchor": int((distance == 1).sum()),
        "two hops from an anchor": int((distance == 2).sum()),
        "components without an anchor": int((~has_anchor).sum()),
        "entities in those components": int(sizes[~has_anchor].sum()),
        "labels used as entity and relation": _count_shared_labels(graph),
    }


def _degree_percentiles(graph: KnowledgeGraph) -> dict[str, int]:
    if not graph.num_entities:
        return {}
    degrees = np.percentile(graph.degrees, PERCENTILES)
    return {str(percent): int(degree) for percent, degree in zip(PERCENTILES, degrees, strict=True)}


def _hops_from(anchors: Ids, graph: KnowledgeGraph) -> npt.NDArray[np.int8]:
    """The number of hops from each entity to the nearest anchor; 3 for three or more."""
    distance = np.full(graph.num_entities, 3, dtype=np.int8)
    distance[anchors] = 0
    for hop in (1, 2):
        is_nearer = (distance < hop).astype(np.float32)
        distance[(graph.adjacency @ is_nearer > 0) & (distance == 3)] = hop
    return distance


def _count_shared_labels(graph: KnowledgeGraph) -> int:
    return int(pc.sum(pc.is_in(graph.relations, value_set=graph.entities)).as_py() or 0)


def _warnings(task: AlignmentTask, summary: dict[str, Any]) -> list[str]:
    warnings = []
    for side in ("source", "target"):
        graph = summary[side]
        if graph["repeated triples"]:
            warnings.append(f"{graph['repeated triples']} repeated {side} triples were counted once")
        if graph["isolated entities"]:
            warnings.append(f"{graph['isolated entities']} {side} entities have no triples")
        if len(task.seeds) and graph["entities in those components"]:
            warnings.append(
                f"{graph['entities in those components']} {side} entities are in components "
                "without a seed: structure alone cannot match them"
            )
        if graph["labels used as entity and relation"]:
            warnings.append(
                f"{graph['labels used as entity and relation']} {side} labels are both entity and "
                "relation: check the order of the columns"
            )
    sizes = sorted((task.source.num_entities, task.target.num_entities))
    if sizes[1] > 10 * sizes[0]:
        warnings.append("one graph is more than ten times as large as the other: most entities have no match")
    return warnings
