"""Features: what is known about pairs of entities beside the structure that a subtask sees.

A feature has rows for the entities of both graphs, and similarities between them: as scores of single pairs,
or as vectors whose product is the similarity. The features of a task are cut to those of a subtask as its
graphs are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs.ids import contains
from divea.graphs.links import Links
from divea.types import Ids

if TYPE_CHECKING:
    from divea.graphs.task import AlignmentTask

Rows = npt.NDArray[np.floating[Any]]
"""float16 or float32."""


@dataclass(frozen=True, eq=False)
class PairScores:
    """Scores of some pairs, such as the similarity of their names; all other pairs have a score of 0.

    Examples
    --------
    >>> scores = csr_array(np.array([[0.0, 0.9], [0.4, 0.0]], dtype=np.float32))
    >>> ids = np.arange(2, dtype=np.int32)
    >>> PairScores("names", ids, ids, scores).take(ids[1:], ids).scores.toarray().round(1).tolist()
    [[0.4000000059604645, 0.0]]
    """

    name: str
    source_ids: Ids
    """The source entity of each row, in ascending order."""
    target_ids: Ids
    """The target entity of each column, in ascending order."""
    scores: csr_array
    """float32."""
    weight: float = 1.0
    """How much the scores count beside the similarity of the model, which counts 1."""

    def take(self, source: Ids, target: Ids) -> PairScores:
        """The feature of some entities, given by sorted ids that the feature has."""
        rows = self.scores[np.searchsorted(self.source_ids, source)]
        column = np.full(len(self.target_ids), -1, dtype=np.int32)
        column[np.searchsorted(self.target_ids, target)] = np.arange(len(target), dtype=np.int32)
        column = column[rows.indices]
        kept = column >= 0
        ends = np.concatenate([[0], np.cumsum(kept)])[rows.indptr]
        scores = csr_array((rows.data[kept], column[kept], ends), shape=(len(source), len(target)))
        return PairScores(self.name, source, target, scores, self.weight)

    def without(self, pairs: Links) -> PairScores:
        """The feature without the scores of some pairs of entities.

        >>> scores = PairScores("names", np.array([3]), np.array([5, 6]), csr_array(np.float32([[0.9, 0.4]])))
        >>> scores.without(Links.from_pairs([(3, 5), (8, 8)])).scores.toarray().tolist()
        [[0.0, 0.4000000059604645]]
        """
        if not len(pairs):
            return self
        row = np.repeat(self.source_ids, np.diff(self.scores.indptr)).astype(np.int64)
        kept = ~contains(pairs.keys, (row << 32) | self.target_ids[self.scores.indices])
        ends = np.concatenate([[0], np.cumsum(kept)])[self.scores.indptr]
        scores = csr_array((self.scores.data[kept], self.scores.indices[kept], ends), shape=self.scores.shape)
        return replace(self, scores=scores)

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays that the feature consists of, for checksums and files."""
        return [self.source_ids, self.target_ids, self.scores.indptr, self.scores.indices, self.scores.data]


@dataclass(frozen=True, eq=False)
class EntityVectors:
    """A vector for each entity. The similarity of two entities is the cosine of theirs.

    An entity that nothing is known about has a vector of zeros.
    """

    name: str
    source_ids: Ids
    target_ids: Ids
    source: Rows
    """One row for each of `source_ids`."""
    target: Rows
    weight: float = 1.0
    is_structure: bool = False
    """Whether the vectors come from the structure of the graphs, as those of models do."""

    def take(self, source: Ids, target: Ids) -> EntityVectors:
        """The feature of some entities, given by sorted ids that the feature has."""
        return EntityVectors(
            self.name,
            source,
            target,
            np.asarray(self.source[np.searchsorted(self.source_ids, source)]),
            np.asarray(self.target[np.searchsorted(self.target_ids, target)]),
            self.weight,
            self.is_structure,
        )

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arrays that the feature consists of, for checksums and files."""
        return [self.source_ids, self.target_ids, self.source, self.target]


FeatureRows = PairScores | EntityVectors

Features = tuple[FeatureRows, ...]


def all_ids(task: AlignmentTask) -> tuple[Ids, Ids]:
    """The ids of all source and of all target entities."""
    sizes = task.source.num_entities, task.target.num_entities
    return np.arange(sizes[0], dtype=np.int32), np.arange(sizes[1], dtype=np.int32)


def total_scores(features: Features) -> csr_array | None:
    """The weighted sum of all scores of pairs, source x target; None if there are none."""
    pairs = [feature for feature in features if isinstance(feature, PairScores)]
    return csr_array(sum(feature.weight * feature.scores for feature in pairs)) if pairs else None


def scores_at(
    scores: csr_array, source: npt.NDArray[np.integer[Any]], target: npt.NDArray[np.integer[Any]]
) -> npt.NDArray[np.float64]:
    """The scores of single pairs.

    >>> scores_at(csr_array(np.array([[0.0, 0.5]])), np.array([0, 0]), np.array([1, 0])).tolist()
    [0.5, 0.0]
    """
    if not len(source):
        return np.zeros(0)
    return np.asarray(scores[source, target], dtype=np.float64).ravel()


def beside_structure(features: Features) -> Features:
    """The features that do not come from the structure of the graphs."""
    return tuple(
        feature for feature in features if not (isinstance(feature, EntityVectors) and feature.is_structure)
    )


def take_features(features: Features, source: Ids, target: Ids) -> Features:
    """The features of some entities, given by sorted ids."""
    return tuple(feature.take(source, target) for feature in features)
