"""Confidence: the probability that an assigned pair is correct, learned on held-back seeds.

Seeds that an iteration does not know are treated there like any other entity. Assigned pairs with an end in
a held-back seed can be judged: they are that seed, or wrong. A logistic regression on features of a pair
(its score, its margin, how many of its neighbours match each other) predicts whether a pair is correct, and
is then applied to the pairs that nobody can judge.

The unit of judgement is an end of a pair. A wrong pair between two entities that both have a counterpart
would be noticed at either end, and so twice as often as a correct one; each end therefore counts as half a
pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import AlignmentTask, Links
from divea.types import Ids, Matches

FEWEST_PAIRS = 30
"""Judged pairs below which confidence is not calibrated: a share of fewer says little."""

RIDGE = 1.0
"""L2 penalty on the coefficients, for standardised features."""

_SALT = 0xCA11B

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Assignment:
    """The assigned pairs, each with its row and its rank (from 0) in the ranked lists."""

    source: Ids
    target: Ids
    row: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]

    @classmethod
    def of(cls, matches: Matches, assigned: Ids) -> Assignment:
        """From the target assigned to each row, -1 for none."""
        row = np.flatnonzero(assigned >= 0)
        if not len(row):
            return cls(matches.source[row], assigned[row], row, row)
        rank = (matches.target[row] == assigned[row, None]).argmax(axis=1)
        return cls(matches.source[row], assigned[row], row, rank)

    def by_row(self, rows: int) -> Ids:
        """The target assigned to each row, -1 for none."""
        assigned = np.full(rows, -1, dtype=np.int32)
        assigned[self.row] = self.target
        return assigned

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Calibration:
    """A logistic regression from the features of a pair to the probability that it is correct."""

    mean: Numbers
    deviation: Numbers
    weights: Numbers
    intercept: float
    judged: Numbers
    """The confidence of the pairs that it was fitted to."""
    counts: Numbers
    """What each of these pairs counts: half for each end in a held-back seed."""

    def __call__(self, features: Numbers) -> Numbers:
        """The confidence of pairs with these features."""
        from scipy.special import expit

        standardised = (features - self.mean) / self.deviation
        return np.asarray(expit(standardised @ self.weights + self.intercept))

    def threshold_for(self, precision: float) -> float:
        """The lowest confidence threshold at which the pairs above it have this expected precision.

        It is lower than the precision itself, because most pairs above it are more certain. 1 if no pair is
        certain enough.
        """
        # Pairs of equal confidence are taken together or not at all: their order must not matter.
        negated, group = np.unique(-self.judged, return_inverse=True)
        confidence, count = -negated, np.bincount(group, self.counts)
        # If each pair is correct with its confidence, their running mean is the precision.
        enough = np.flatnonzero(np.cumsum(confidence * count) >= precision * np.cumsum(count))
        return float(confidence[enough[-1]]) if len(enough) else 1.0


def hold_back(task: AlignmentTask, share: float, random_seed: int = 0) -> tuple[AlignmentTask, Links]:
    """The task without a random share of its seeds, and those seeds."""
    count = round(share * len(task.seeds))
    order = np.random.default_rng([random_seed, _SALT]).permutation(len(task.seeds))
    pairs = task.seeds.pairs
    kept, held_back = Links.from_pairs(pairs[order[count:]]), Links.from_pairs(pairs[order[:count]])
    return AlignmentTask(task.source, task.target, kept), held_back


def pair_features(assignment: Assignment, matches: Matches, task: AlignmentTask) -> Numbers:
    """Features of each assigned pair, one column per feature."""
    if not len(assignment):
        return np.zeros((0, 6))
    score = matches.score[assignment.row, assignment.rank].astype(np.float64)
    leaders = matches.score[assignment.row, :2].astype(np.float64)
    runner_up = leaders[:, -1] if leaders.shape[1] > 1 else 0
    rival = np.where(assignment.rank == 0, runner_up, leaders[:, 0])
    margin = score - np.where(np.isfinite(rival), rival, 0)
    mutual = matches.mutual[assignment.row] & (assignment.rank == 0)
    support, possible = _neighbour_support(assignment, np.clip(score, 0, 1), task)
    return np.stack(
        [
            score,
            np.log(np.clip(score, 1e-3, 1)),
            margin,
            mutual.astype(np.float64),
            np.log1p(support),
            support / np.maximum(possible, 1),
        ],
        axis=1,
    )


def _neighbour_support(
    assignment: Assignment, weight: Numbers, task: AlignmentTask
) -> tuple[Numbers, Numbers]:
    """How many neighbours of a pair's ends match each other, by weight, and the most that could."""
    ends = (
        np.concatenate([task.seeds.source, assignment.source]),
        np.concatenate([task.seeds.target, assignment.target]),
    )
    values = np.concatenate([np.ones(len(task.seeds)), weight]).astype(np.float32)
    match = csr_array((values, ends), shape=(task.source.num_entities, task.target.num_entities))
    source, target = (_unweighted(graph.adjacency) for graph in (task.source, task.target))
    support = (source[assignment.source] @ match).multiply(target[assignment.target]).sum(axis=1)
    degrees = np.diff(source.indptr)[assignment.source], np.diff(target.indptr)[assignment.target]
    return np.asarray(support, dtype=np.float64).ravel(), np.minimum(*degrees).astype(np.float64)


def _unweighted(adjacency: csr_array) -> csr_array:
    """The adjacency with weight 1 for every neighbour."""
    ones = np.ones(adjacency.nnz, dtype=np.float32)
    return csr_array((ones, adjacency.indices, adjacency.indptr), shape=adjacency.shape)


def calibrate(features: Numbers, assignment: Assignment, held_back: Links) -> Calibration | None:
    """Fit confidence to the assigned pairs that held-back seeds judge; None if they are too few.

    >>> ids = np.arange(100, dtype=np.int32)
    >>> pairs = Assignment(ids, np.where(ids < 50, ids, 200), ids, 0 * ids)
    >>> seeds = Links.from_pairs([(i, i) for i in range(100)])
    >>> line = calibrate(np.where(ids < 50, 1.0, 0.0)[:, None], pairs, seeds)
    >>> line(np.array([[0.0], [1.0]])).round(1).tolist()
    [0.1, 1.0]
    """
    source, target = assignment.source, assignment.target
    ends = (np.isin(source, held_back.source).astype(np.float64) + np.isin(target, held_back.target)) / 2
    is_judged = ends > 0
    if is_judged.sum() < FEWEST_PAIRS:
        return None
    target_of = np.full(int(max(source.max(), held_back.source.max())) + 1, -1, dtype=np.int64)
    target_of[held_back.source] = held_back.target
    is_correct = (target_of[source[is_judged]] == target[is_judged]).astype(np.float64)
    own, counts = features[is_judged], ends[is_judged]
    mean, deviation = own.mean(axis=0), own.std(axis=0)
    deviation[deviation < 1e-9] = 1
    weights, intercept = _fit_logistic((own - mean) / deviation, is_correct, counts)
    calibration = Calibration(mean, deviation, weights, intercept, judged=np.zeros(0), counts=counts)
    return replace(calibration, judged=calibration(own))


def _fit_logistic(features: Numbers, is_correct: Numbers, counts: Numbers) -> tuple[Numbers, float]:
    """Weights and intercept of a ridge logistic regression with weighted rows."""
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(coefficients: Numbers) -> tuple[float, Numbers]:
        weights, intercept = coefficients[:-1], coefficients[-1]
        logits = features @ weights + intercept
        value = counts @ (np.logaddexp(0, logits) - is_correct * logits) + RIDGE / 2 * weights @ weights
        slope = counts * (expit(logits) - is_correct)
        return float(value), np.append(slope @ features + RIDGE * weights, slope.sum())

    found = minimize(loss, np.zeros(features.shape[1] + 1), jac=True, method="L-BFGS-B").x
    return found[:-1], float(found[-1])
