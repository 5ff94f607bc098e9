"""Links: pairs of entities that are the same, such as the seeds of a task or the gold of an evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.graphs.ids import contains
from divea.graphs.knowledge_graph import KnowledgeGraph
from divea.graphs.labels import as_labels
from divea.types import Ids
from divea.wording import worded

_LARGEST_ID = np.iinfo(np.int32).max


@dataclass(frozen=True, eq=False)
class Links:
    """A set of (source id, target id) pairs, sorted by source and then target.

    Create links with `from_pairs`, `from_labels` or `divea.read_links`; the constructor does not sort.

    Examples
    --------
    >>> links = Links.from_pairs([(2, 0), (1, 5), (2, 0)])
    >>> links
    Links(2)
    >>> links.source.tolist(), links.target.tolist()
    ([1, 2], [5, 0])
    """

    source: Ids
    target: Ids

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, int]] | np.ndarray) -> Links:
        """Links from (source id, target id) pairs, or from an array of two columns.

        Repeated pairs count once. Raises InputError if an id is negative or does not fit 32 bits.
        """
        rows = np.array(pairs if isinstance(pairs, np.ndarray) else list(pairs), dtype=np.int64)
        if rows.size and not 0 <= rows.min() <= rows.max() <= _LARGEST_ID:
            raise InputError(f"the ids of a link must be from 0 to {_LARGEST_ID}")
        # One integer per pair sorts much faster than rows of two, and than np.unique, which hashes.
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
        """Links from pairs of labels.

        Raises InputError if a label is not an entity of its graph, and if the two columns look swapped.

        Parameters
        ----------
        source_labels, target_labels
            The labels of each link, row by row.
        source, target
            The graphs that contain the entities.
        skip_unknown
            Leave out links with an unknown label instead of refusing them.
        path
            The file that the labels come from, for error messages.

        Examples
        --------
        >>> left = KnowledgeGraph.from_triples([("Rome", "capitalOf", "Italy")])
        >>> right = KnowledgeGraph.from_triples([("Roma", "capitale", "Italia")])
        >>> Links.from_labels(["Rome", "Italy"], ["Roma", "Italia"], left, right)
        Links(2)
        >>> Links.from_labels(["Rome", "Oslo"], ["Roma", "Oslo"], left, right, skip_unknown=True)
        Links(1)
        """
        where = None if path is None else str(path)
        left, right = as_labels(source_labels), as_labels(target_labels)
        pairs = np.stack([source.find(left), target.find(right)], axis=1)
        is_known = (pairs >= 0).all(axis=1)
        if not is_known.all():
            swapped = int(((target.find(left) >= 0) & (source.find(right) >= 0)).sum())
            if swapped > is_known.sum():
                raise InputError(
                    f"source and target look swapped: {swapped} of {len(left)} links fit "
                    "with the source's column read as target; swap the graphs or the columns",
                    path=where,
                )
            if not skip_unknown:
                raise InputError(_unknown_labels_message(left, right, pairs, source, target), path=where)
        return cls.from_pairs(pairs[is_known])

    def union(self, other: Links) -> Links:
        """The links that are in one of the two sets, or in both."""
        return Links.from_pairs(np.concatenate([self.pairs, other.pairs]))

    def intersection(self, other: Links) -> Links:
        """The links that are in both sets."""
        return Links.from_pairs(self.pairs[self.among(other)])

    def without(self, other: Links) -> Links:
        """The links that are not in the other set.

        >>> Links.from_pairs([(0, 1), (0, 2)]).without(Links.from_pairs([(0, 2), (3, 4)])).pairs.tolist()
        [[0, 1]]
        """
        return Links.from_pairs(self.pairs[~self.among(other)])

    def among(self, other: Links) -> npt.NDArray[np.bool_]:
        """Whether each link is in the other set."""
        return contains(other.keys, self.keys)

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """One number for each link, in ascending order."""
        return (self.source.astype(np.int64) << 32) | self.target

    @property
    def pairs(self) -> np.ndarray:
        """The links as one array of two columns."""
        return np.stack([self.source, self.target], axis=1)

    def labels(self, source: KnowledgeGraph, target: KnowledgeGraph) -> tuple[pa.Array, pa.Array]:
        """The source labels and the target labels of the links."""
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


def _unknown_labels_message(
    left: pa.Array, right: pa.Array, pairs: np.ndarray, source: KnowledgeGraph, target: KnowledgeGraph
) -> str:
    """How many links have an unknown label, five of these labels, and advice."""
    no_source, no_target = pairs[:, 0] < 0, pairs[:, 1] < 0
    unknown = left.filter(pa.array(no_source)), right.filter(pa.array(no_target))
    distinct = pc.unique(pa.concat_arrays(unknown))
    shown = ", ".join(repr(label) for label in distinct[:5].to_pylist())
    more = ", ..." if len(distinct) > 5 else ""
    links = int((no_source | no_target).sum())
    message = f"{links} of {len(left)} links name an unknown entity ({len(distinct)} labels: {shown}{more})"
    for labels, graph in zip(unknown, (source, target), strict=True):
        relations = labels.filter(pc.is_in(labels, value_set=graph.relations))
        if len(relations):
            return f"{message}; {relations[0].as_py()!r} is a relation, not an entity"
    skip = worded(command="--skip-unknown-seeds", python="skip_unknown_seeds=True")
    return f"{message}; for seeds, {skip} leaves them out"
