"""An alignment task: two graphs and the seeds. It has no place for gold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from divea.errors import InputError
from divea.graphs.features import Features
from divea.graphs.ids import marked
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.links import Links
from divea.types import Ids


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
