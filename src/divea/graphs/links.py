"""Pairs of entities said to be the same: the seeds of a task, or the gold of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.labels import as_labels
from divea.types import Ids


@dataclass(frozen=True, eq=False)
class Links:
    """Source and target ids, row by row, sorted and without copies.

    >>> links = Links.from_pairs([(2, 0), (1, 5), (2, 0)])
    >>> links, links.source.tolist()
    (Links(2), [1, 2])
    """

    source: Ids
    target: Ids

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]] | np.ndarray) -> Links:
        """From (source id, target id) pairs, or an array of two columns."""
        rows = np.array(pairs if isinstance(pairs, np.ndarray) else list(pairs), dtype=np.int64)
        # One integer a pair sorts much faster than rows of two (and than np.unique, which hashes).
        keys = np.sort(rows.reshape(-1, 2) @ np.array([1 << 32, 1]))
        keys = keys[np.diff(keys, prepend=keys[:1] - 1) > 0]
        return cls((keys >> 32).astype(np.int32), (keys & 0xFFFFFFFF).astype(np.int32))

    @classmethod
    def from_labels(
        cls,
        source_labels: Iterable[str] | pa.Array,
        target_labels: Iterable[str] | pa.Array,
        source: KnowledgeGraph,
        target: KnowledgeGraph,
        *,
        skip_unknown: bool = False,
        path: object = None,
    ) -> Links:
        """Resolve labels against two graphs; says clearly when they do not fit.

        `path` names the file in error messages. With `skip_unknown`, links that name an entity
        of neither graph are left out instead of refused.
        """
        where = None if path is None else str(path)
        left, right = as_labels(source_labels), as_labels(target_labels)
        pairs = np.stack([source.find(left), target.find(right)], axis=1)
        unknown = (pairs < 0).any(axis=1)
        if unknown.any():
            # More rows fit the other way round: the two files, or the two columns, are swapped.
            other_way = (target.find(left) >= 0) & (source.find(right) >= 0)
            if other_way.sum() > (~unknown).sum():
                raise InputError(
                    f"source and target look swapped: {other_way.sum()} of {len(left)} links fit "
                    "with the source's column read as target; swap the graphs or the columns",
                    path=where,
                )
            if not skip_unknown:
                raise InputError(_unknown_message(left, right, pairs, source, target), path=where)
        return cls.from_pairs(pairs[~unknown])

    def union(self, other: Links) -> Links:
        """These links and the other ones: what is known, and what a model adds to it."""
        return Links.from_pairs(np.concatenate([self.pairs, other.pairs]))

    @property
    def pairs(self) -> np.ndarray:
        """The links as one array of two columns."""
        return np.stack([self.source, self.target], axis=1)

    def labels(self, source: KnowledgeGraph, target: KnowledgeGraph) -> tuple[pa.Array, pa.Array]:
        """The labels of both columns."""
        return source.entities.take(pa.array(self.source)), target.entities.take(pa.array(self.target))

    def __len__(self) -> int:
        return len(self.source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Links):
            return NotImplemented
        return np.array_equal(self.pairs, other.pairs)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Links({len(self)})"


def _unknown_message(
    left: pa.Array, right: pa.Array, pairs: np.ndarray, source: KnowledgeGraph, target: KnowledgeGraph
) -> str:
    no_source, no_target = pairs[:, 0] < 0, pairs[:, 1] < 0
    sides = left.filter(pa.array(no_source)), right.filter(pa.array(no_target))
    missing = pc.unique(pa.concat_arrays(sides))
    shown = ", ".join(repr(label) for label in missing[:5].to_pylist())
    more = ", ..." if len(missing) > 5 else ""
    rows = int((no_source | no_target).sum())
    message = f"{rows} of {len(left)} links name an unknown entity ({len(missing)} labels: {shown}{more})"
    for labels, graph in zip(sides, (source, target), strict=True):
        relations = labels.filter(pc.is_in(labels, value_set=graph.relations))
        if len(relations):
            return f"{message}; {relations[0].as_py()!r} is a relation, not an entity"
    return f"{message}; --skip-unknown-seeds leaves them out"
