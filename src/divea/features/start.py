"""Sure pairs: the pairs that features alone are sure of, so that the loop can start without seeds."""

from __future__ import annotations

import numpy as np

from divea.graphs import Links
from divea.graphs.features import Features, PairScores, total_scores
from divea.matching.sinkhorn import TEMPERATURE

LEAST_PROBABILITY = 0.5
"""Probability, from either end, above which a pair is sure."""


def sure_pairs(features: Features) -> Links:
    """Pairs that are each other's best by far, at most one for each entity.

    The probability of a pair is its share of all targets of its source and of all sources of its target.
    Pairs that no feature lists have a score of 0 and count, so a low score is never sure.

    Examples
    --------
    >>> from scipy.sparse import csr_array
    >>> ids = np.arange(2, dtype=np.int32)
    >>> scores = csr_array(np.array([[0.9, 0.0], [0.3, 0.3]], dtype=np.float32))
    >>> sure_pairs((PairScores("names", ids, ids, scores),)).pairs.tolist()
    [[0, 0]]
    """
    pairs = [feature for feature in features if isinstance(feature, PairScores)]
    if not pairs:
        return Links.from_pairs([])
    total = total_scores(features)
    assert total is not None
    row = np.repeat(np.arange(total.shape[0]), np.diff(total.indptr))
    column, score = total.indices, total.data.astype(np.float64)
    by_row = _share(score, row, total.shape[0], total.shape[1])
    by_column = _share(score, column, total.shape[1], total.shape[0])
    # Above one half there is at most one pair in a row and one in a column.
    is_sure = (by_row > LEAST_PROBABILITY) & (by_column > LEAST_PROBABILITY)
    source, target = pairs[0].source_ids[row[is_sure]], pairs[0].target_ids[column[is_sure]]
    return Links.from_pairs(np.stack([source, target], axis=1))


def _share(score: np.ndarray, group: np.ndarray, groups: int, others: int) -> np.ndarray:
    """The share of exp(score / temperature) within each group, in which all other pairs have a score of 0."""
    top = np.zeros(groups)
    np.maximum.at(top, group, score)
    odds = np.exp((score - top[group]) / TEMPERATURE)
    listed = np.bincount(group, minlength=groups)
    total = np.bincount(group, odds, groups) + np.maximum(others - listed, 0) * np.exp(-top / TEMPERATURE)
    return np.asarray(odds / total[group])
