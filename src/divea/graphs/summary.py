"""What is in a task, in numbers, with warnings about what may go wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.task import AlignmentTask
from divea.types import Ids

PERCENTILES = (0, 10, 25, 50, 75, 90, 99, 100)


def summarise(task: AlignmentTask) -> dict[str, Any]:
    """Everything `divea info` shows, as plain JSON types."""
    source = _summarise_graph(task.source, task.seeds.source)
    target = _summarise_graph(task.target, task.seeds.target)
    summary = {"source": source, "target": target, "seeds": len(task.seeds)}
    return summary | {"warnings": _warnings(task, summary)}


def _summarise_graph(graph: KnowledgeGraph, anchors: Ids) -> dict[str, Any]:
    from scipy.sparse.csgraph import connected_components

    count, component = connected_components(graph.adjacency, directed=False)
    sizes = np.bincount(component, minlength=count)
    anchored = np.zeros(count, dtype=bool)
    anchored[component[anchors]] = True
    distance = _hops(graph, anchors)
    return {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "triples": graph.num_triples,
        "attributes": 0 if graph.attributes is None else len(graph.attributes),
        "repeated triples": graph.repeated_triples,
        "self-loops": int((graph.heads == graph.tails).sum()),
        "isolated entities": int((graph.degrees == 0).sum()),
        "degree percentiles": {
            str(at): int(value)
            for at, value in zip(PERCENTILES, np.percentile(graph.degrees, PERCENTILES), strict=True)
        }
        if graph.num_entities
        else {},
        "components": int(count),
        "largest component": int(sizes.max()) if count else 0,
        "anchors": len(anchors),
        "one hop from an anchor": int((distance == 1).sum()),
        "two hops from an anchor": int((distance == 2).sum()),
        "components without an anchor": int((~anchored).sum()),
        "entities in those components": int(sizes[~anchored].sum()),
        "labels used as entity and relation": _shared_labels(graph),
    }


def _hops(graph: KnowledgeGraph, anchors: Ids) -> np.ndarray:
    """0 for anchors, 1 for their neighbours, 2 for theirs, 3 for the rest."""
    distance = np.full(graph.num_entities, 3, dtype=np.int8)
    distance[anchors] = 0
    for hop in (1, 2):
        near = (distance < hop).astype(np.float32)
        distance[(graph.adjacency @ near > 0) & (distance == 3)] = hop
    return distance


def _shared_labels(graph: KnowledgeGraph) -> int:
    return int(pc.sum(pc.is_in(graph.relations, value_set=graph.entities)).as_py() or 0)


def _warnings(task: AlignmentTask, summary: dict[str, Any]) -> list[str]:
    warnings = []
    if not len(task.seeds):
        warnings.append("no seeds: give known matches with --seeds, nothing can be aligned without")
    for side in ("source", "target"):
        graph = summary[side]
        if graph["repeated triples"]:
            warnings.append(f"{graph['repeated triples']} repeated {side} triples were counted once")
        if graph["isolated entities"]:
            warnings.append(f"{graph['isolated entities']} {side} entities stand in no triple")
        if len(task.seeds) and graph["entities in those components"]:
            warnings.append(
                f"{graph['entities in those components']} {side} entities are in parts of the graph "
                "without any seed: structure alone cannot match them"
            )
        if graph["labels used as entity and relation"]:
            warnings.append(
                f"{graph['labels used as entity and relation']} {side} labels are both entity and "
                "relation: check the order of the columns"
            )
    sizes = sorted((task.source.num_entities, task.target.num_entities))
    if sizes[1] > 10 * sizes[0]:
        warnings.append("one graph is more than ten times the other: most entities have no match")
    return warnings
