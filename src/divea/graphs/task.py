"""An alignment task: two graphs and the seeds. It holds no gold, by construction."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from divea.errors import InputError
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.links import Links


def _no_links() -> Links:
    return Links.from_pairs([])


@dataclass(frozen=True)
class AlignmentTask:
    """What an aligner is given: a source graph, a target graph and known matches between them.

    Seeds are one-to-one, because their entities are taken: an anchor is nobody else's match.
    Test links never come here; they live in `divea.evaluation`.

    >>> left = KnowledgeGraph.from_triples([("Rome", "capitalOf", "Italy")])
    >>> right = KnowledgeGraph.from_triples([("Roma", "capitale", "Italia")])
    >>> seeds = Links.from_labels(["Italy"], ["Italia"], left, right)
    >>> AlignmentTask(left, right, seeds).unmatched_source.tolist() == left.find(["Rome"]).tolist()
    True
    """

    source: KnowledgeGraph
    target: KnowledgeGraph
    seeds: Links = field(default_factory=_no_links)

    def __post_init__(self) -> None:
        _check_ends("source", self.seeds.source, self.source)
        _check_ends("target", self.seeds.target, self.target)

    @property
    def unmatched_source(self) -> np.ndarray:
        """Every source entity that is no anchor."""
        return _others(self.source.num_entities, self.seeds.source)

    @property
    def unmatched_target(self) -> np.ndarray:
        """Every target entity that is no anchor."""
        return _others(self.target.num_entities, self.seeds.target)


def _others(count: int, anchors: np.ndarray) -> np.ndarray:
    free = np.ones(count, dtype=bool)
    free[anchors] = False
    return np.flatnonzero(free).astype(np.int32)


def _check_ends(side: str, ids: np.ndarray, graph: KnowledgeGraph) -> None:
    if len(ids) and (ids.min() < 0 or ids.max() >= graph.num_entities):
        raise InputError(f"a seed's {side} id is outside 0..{graph.num_entities - 1}")
    values, counts = np.unique(ids, return_counts=True)
    repeated = values[counts > 1]
    if len(repeated):
        shown = ", ".join(repr(label) for label in graph.label(repeated[:5]))
        raise InputError(
            f"{len(repeated)} {side} entities stand in more than one seed ({shown}); seeds must be one-to-one"
        )
