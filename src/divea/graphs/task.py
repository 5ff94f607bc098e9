"""An alignment task: two graphs and the seeds. It has no place for gold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from divea.errors import InputError
from divea.graphs.features import Features
from divea.graphs.ids import marked
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.links import Links
from divea.graphs.names import entity_names, readable
from divea.html_text import table
from divea.types import Ids

_MOST_EXAMPLES = 3
"""The most entities that a notebook shows."""


def _no_links() -> Links:
    return Links.from_pairs([])


@dataclass(frozen=True)
class AlignmentTask:
    """The input of an aligner: a source graph, a target graph and the seeds, known matches between them.

    Seeds must be one-to-one, because an anchor (an entity of a seed) cannot match any other entity. Test
    links are never part of a task; only `divea.evaluation` reads them.

    Raises InputError if the id of a seed or of a rejected pair is not an entity, if an entity is in several
    seeds, or if a seed is rejected.

    Examples
    --------
    >>> left = KnowledgeGraph.from_triples([("Rome", "capitalOf", "Italy")])
    >>> right = KnowledgeGraph.from_triples([("Roma", "capitale", "Italia")])
    >>> task = AlignmentTask(left, right, Links.from_labels(["Italy"], ["Italia"], left, right))
    >>> left.label(task.unmatched_source), right.label(task.unmatched_target)
    (['Rome'], ['Roma'])
    """

    source: KnowledgeGraph
    target: KnowledgeGraph
    seeds: Links = field(default_factory=_no_links)
    features: Features = ()
    """What is known about pairs beside the structure; its rows are the entities in the order of their ids."""
    rejected: Links = field(default_factory=_no_links)
    """Pairs that are known not to match. They are never candidates. An entity may be in several of them."""

    def __post_init__(self) -> None:
        for side, graph in (("source", self.source), ("target", self.target)):
            _check_ids(f"a seed's {side} id", getattr(self.seeds, side), graph)
            _check_ids(f"a rejected pair's {side} id", getattr(self.rejected, side), graph)
            _check_seeds(side, getattr(self.seeds, side), graph)
        if len(both := self.seeds.intersection(self.rejected)):
            shown = [
                graph.label(ids[:1])[0]
                for graph, ids in ((self.source, both.source), (self.target, both.target))
            ]
            raise InputError(f"{len(both)} seeds are rejected pairs as well ({shown[0]!r} and {shown[1]!r})")

    @property
    def unmatched_source(self) -> Ids:
        """The ids of all source entities that are not anchors."""
        return _all_but(self.seeds.source, self.source.num_entities)

    @property
    def unmatched_target(self) -> Ids:
        """The ids of all target entities that are not anchors."""
        return _all_but(self.seeds.target, self.target.num_entities)

    def _repr_html_(self) -> str:
        graphs = self.source, self.target
        literals = (0 if graph.attributes is None else len(graph.attributes) for graph in graphs)
        rows: list[list[object]] = [
            ["entities", *(graph.num_entities for graph in graphs)],
            ["relations", *(graph.num_relations for graph in graphs)],
            ["triples", *(graph.num_triples for graph in graphs)],
            ["literals", *literals],
            ["seeds", len(self.seeds), len(self.seeds)],
            ["best connected", *(", ".join(_examples(graph)) for graph in graphs)],
        ]
        return table(["", "source", "target"], rows, "Alignment task")


def _examples(graph: KnowledgeGraph) -> list[str]:
    """The names of the entities with most triples."""
    most = np.argsort(-graph.degrees, kind="stable")[:_MOST_EXAMPLES].astype(np.int32)
    names: list[str] = readable(entity_names(graph, ids=most)).to_pylist()
    return names


def _all_but(anchors: Ids, num_entities: int) -> Ids:
    return np.flatnonzero(~marked(anchors, num_entities)).astype(np.int32)


def _check_ids(what: str, ids: Ids, graph: KnowledgeGraph) -> None:
    if len(ids) and (ids.min() < 0 or ids.max() >= graph.num_entities):
        raise InputError(f"{what} is outside 0..{graph.num_entities - 1}")


def _check_seeds(side: str, anchors: Ids, graph: KnowledgeGraph) -> None:
    distinct, counts = np.unique(anchors, return_counts=True)
    repeated = distinct[counts > 1]
    if len(repeated):
        shown = ", ".join(repr(label) for label in graph.label(repeated[:5]))
        raise InputError(
            f"{len(repeated)} {side} entities are in more than one seed ({shown}); seeds must be one-to-one"
        )
