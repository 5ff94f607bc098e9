"""Confidence: how likely a given pair is right, learned on seeds that were held back.

Seeds that an iteration did not know are treated there like any other entity. Of the pairs that are then given
out, those with an end in a held-back seed can be judged: they are the seed itself, or wrong. A logistic
regression on what is known of a pair (its score, its lead, how many of its neighbours are matched with each
other) says how likely such a pair is right, and the same holds for the pairs that nobody can judge.

The unit of judgement is an end. A wrong pair between two entities that both have a counterpart is twice as
likely to be noticed as a right one, by either end; each end therefore counts for half a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import AlignmentTask, Links
from divea.graphs.labels import Ids
from divea.matching import Matches

LEAST = 30
"""Judged pairs below which no calibration is given: a share of fewer says little."""

RIDGE = 1.0
"""Weight of the penalty on the regression's coefficients, which are of signs brought to deviation one."""

_SALT = 0xCA11B

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Given:
    """The pairs that are given out, each with its row and place in the ranked lists."""

    source: Ids
    target: Ids
    row: npt.NDArray[np.int64]
    place: npt.NDArray[np.int64]

    @classmethod
    def of(cls, matches: Matches, assigned: Ids) -> Given:
        row = np.flatnonzero(assigned >= 0)
        place = (matches.target[row] == assigned[row, None]).argmax(axis=1)
        return cls(matches.source[row], assigned[row], row, place)

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Calibration:
    """A logistic regression of being right on the signs of a pair."""

    mean: Numbers
    spread: Numbers
    weights: Numbers
    constant: float
    judged: Numbers
    """The confidence of the pairs that it was fitted to."""
    counts: Numbers
    """What each of them counts for."""

    def __call__(self, signs: Numbers) -> Numbers:
        """The confidence of pairs with these signs."""
        from scipy.special import expit

        return np.asarray(expit((signs - self.mean) / self.spread @ self.weights + self.constant))

    def confidence_for(self, precision: float) -> float:
        """The least confidence at which the pairs that are at least so sure have this precision together.

        It is lower than the precision itself, because most of the pairs above it are surer. 1 where no
        pair is sure enough.
        """
        # Equally sure pairs are taken together or not at all: their order must not matter.
        sure, at = np.unique(-self.judged, return_inverse=True)
        sure, count = -sure, np.bincount(at, self.counts)
        # Where each pair is right with its confidence, their running mean is the precision.
        enough = np.flatnonzero(np.cumsum(sure * count) >= precision * np.cumsum(count))
        return float(sure[enough[-1]]) if len(enough) else 1.0


def hold_back(task: AlignmentTask, share: float, seed: int = 0) -> tuple[AlignmentTask, Links]:
    """The task without a random share of its seeds, and those seeds."""
    count = round(share * len(task.seeds))
    drawn = np.random.default_rng([seed, _SALT]).permutation(len(task.seeds))
    pairs = task.seeds.pairs
    kept, held = Links.from_pairs(pairs[drawn[count:]]), Links.from_pairs(pairs[drawn[:count]])
    return AlignmentTask(task.source, task.target, kept), held


def signs_of(given: Given, matches: Matches, task: AlignmentTask) -> Numbers:
    """What tells of each given pair whether it is right, one column for each sign."""
    score = matches.score[given.row, given.place].astype(np.float64)
    rivals = matches.score[given.row, :2].astype(np.float64)
    rival = np.where(given.place == 0, rivals[:, -1] if rivals.shape[1] > 1 else 0, rivals[:, 0])
    lead = score - np.where(np.isfinite(rival), rival, 0)
    mutual = matches.mutual[given.row] & (given.place == 0)
    support, possible = _support(given, np.clip(score, 0, 1), task)
    return np.stack(
        [
            score,
            np.log(np.clip(score, 1e-3, 1)),
            lead,
            mutual.astype(np.float64),
            np.log1p(support),
            support / np.maximum(possible, 1),
        ],
        axis=1,
    )


def _support(given: Given, sure: Numbers, task: AlignmentTask) -> tuple[Numbers, Numbers]:
    """How many neighbours of a pair's ends are matched with each other, and how many could be at most."""
    ends = (
        np.concatenate([task.seeds.source, given.source]),
        np.concatenate([task.seeds.target, given.target]),
    )
    values = np.concatenate([np.ones(len(task.seeds)), sure]).astype(np.float32)
    match = csr_array((values, ends), shape=(task.source.num_entities, task.target.num_entities))
    source, target = (_pattern(graph.adjacency) for graph in (task.source, task.target))
    met = (source[given.source] @ match).multiply(target[given.target]).sum(axis=1)
    possible = np.minimum(np.diff(source.indptr)[given.source], np.diff(target.indptr)[given.target])
    return np.asarray(met, dtype=np.float64).ravel(), possible.astype(np.float64)


def _pattern(adjacency: csr_array) -> csr_array:
    """The same neighbours, each counted once."""
    ones = np.ones(adjacency.nnz, dtype=np.float32)
    return csr_array((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


def calibrate(signs: Numbers, source: Ids, target: Ids, held: Links) -> Calibration | None:
    """Fit confidence to given pairs; None where too few of them can be judged.

    >>> held = Links.from_pairs([(i, i) for i in range(100)])
    >>> ids = np.arange(100, dtype=np.int32)
    >>> line = calibrate(np.where(ids < 50, 1.0, 0.0)[:, None], ids, np.where(ids < 50, ids, 200), held)
    >>> line(np.array([[0.0], [1.0]])).round(1).tolist()
    [0.1, 1.0]
    """
    ends = (np.isin(source, held.source).astype(np.float64) + np.isin(target, held.target)) / 2
    judged = ends > 0
    if judged.sum() < LEAST:
        return None
    match = np.full(int(max(source.max(), held.source.max())) + 1, -1, dtype=np.int64)
    match[held.source] = held.target
    right = (match[source[judged]] == target[judged]).astype(np.float64)
    own, counts = signs[judged], ends[judged]
    mean, spread = own.mean(axis=0), own.std(axis=0)
    spread[spread < 1e-9] = 1
    weights, constant = _logistic((own - mean) / spread, right, counts)
    line = Calibration(mean, spread, weights, constant, judged=np.zeros(0), counts=counts)
    return replace(line, judged=line(own))


def _logistic(signs: Numbers, right: Numbers, counts: Numbers) -> tuple[Numbers, float]:
    """Coefficients and constant of a ridge logistic regression with weighted rows."""
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(coefficients: Numbers) -> tuple[float, Numbers]:
        weights, constant = coefficients[:-1], coefficients[-1]
        logits = signs @ weights + constant
        value = counts @ (np.logaddexp(0, logits) - right * logits) + RIDGE / 2 * weights @ weights
        slope = counts * (expit(logits) - right)
        return float(value), np.append(slope @ signs + RIDGE * weights, slope.sum())

    found = minimize(loss, np.zeros(signs.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1], float(found[-1])
