"""Confidence: the probability that an assigned pair is correct, learned on seeds that the loop did not see.

Seeds that the loop does not see are treated there like any other entity. Assigned pairs with an end in such
a seed can be judged: they are that seed, or wrong. A logistic regression on features of a pair (its score,
its margin, how many of its neighbours match each other) predicts whether a pair is correct, and is then
applied to all assigned pairs.

The unit of judgement is an end of a pair. A wrong pair between two entities that both have a counterpart
would be noticed at either end, and so twice as often as a correct one; each end therefore counts as half a
pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from divea.features.neighbours import matches_and_seeds, neighbour_support
from divea.features.regression import fit_logistic, refit_logistic, weighted_sums
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import Features, PairScores, scores_at
from divea.loop.assignment import Assignment
from divea.resources.machine import cores
from divea.types import Ids

FEWEST_PAIRS = 30
"""The fewest judged pairs that confidence is calibrated on."""

_SALT = 0xCA11B
_BOOTSTRAPS = 100
_MOST_PAIRS_OF_INTERVAL = 50_000

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Judged:
    """Assigned pairs that hidden seeds judge."""

    features: Numbers
    is_correct: Numbers
    counts: Numbers
    """The weight of each pair: half for each end in a hidden seed."""
    seed: npt.NDArray[np.int64]
    """The hidden seed that judges each pair, by number."""

    @classmethod
    def join(cls, parts: Sequence[Judged]) -> Judged:
        """The pairs of several folds, each with hidden seeds of its own."""
        first = np.cumsum([0, *(part.seed.max(initial=-1) + 1 for part in parts)])[:-1]
        return cls(
            np.concatenate([part.features for part in parts]),
            np.concatenate([part.is_correct for part in parts]),
            np.concatenate([part.counts for part in parts]),
            np.concatenate([part.seed + start for part, start in zip(parts, first, strict=True)]),
        )

    def in_doubt(self) -> Judged:
        """The pairs and, if all are correct or all are wrong, an average pair that contradicts them.

        Without it, every confidence would be 0 or 1, however few the pairs are.
        """
        if len(np.unique(self.is_correct)) > 1:
            return self
        average = self.features.mean(axis=0, keepdims=True)
        contrary = 1 - self.is_correct[:1]
        return Judged.join([self, Judged(average, contrary, np.ones(1), np.zeros(1, np.int64))])

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class Calibration:
    """A logistic regression from the features of a pair to the probability that it is correct."""

    mean: Numbers
    deviation: Numbers
    weights: Numbers
    intercept: float
    judged: Judged
    """The pairs that it was fitted to."""

    def __call__(self, features: Numbers) -> Numbers:
        """The confidence of pairs with these features."""
        from scipy.special import expit

        standardised = (features - self.mean) / self.deviation
        return np.asarray(expit(weighted_sums(standardised, self.weights) + self.intercept))

    def interval(self, features: Numbers, random_seed: int = 0) -> tuple[float, float]:
        """A 90 % interval of the mean confidence of pairs with these features.

        It comes from a Bayesian bootstrap over the hidden seeds: the regression is fitted again several
        times, with random weights of the seeds.
        """
        if not len(features):
            return float("nan"), float("nan")
        draw = np.random.default_rng([random_seed, _SALT, 1])
        judged = self.judged.in_doubt()
        # A sample is enough for how much the mean varies, but not for the mean itself.
        shown = features[:: max(len(features) // _MOST_PAIRS_OF_INTERVAL, 1)]
        shift = float(self(features).mean() - self(shown).mean())
        known = (judged.features - self.mean) / self.deviation

        def mean(weights: Numbers) -> float:
            counts = judged.counts * weights[judged.seed]
            start = self.weights, self.intercept
            weights, intercept = refit_logistic(known, judged.is_correct, counts, start)
            again = replace(self, weights=weights, intercept=intercept)
            return float(again(shown).mean())

        means: list[float] = []
        with ThreadPoolExecutor(cores()) as pool:
            while len(means) < _BOOTSTRAPS:
                # Only as many draws at a time as there are cores: each holds a number for every seed.
                count = min(cores(), _BOOTSTRAPS - len(means))
                draws = [draw.exponential(size=int(judged.seed.max()) + 1) for _ in range(count)]
                means += pool.map(mean, draws)
        low, high = np.clip(np.quantile(means, [0.05, 0.95]) + shift, 0, 1)
        return float(low), float(high)


def threshold_for(precision: float, confidence: Numbers) -> float:
    """The lowest threshold such that the pairs at or above it have this expected precision.

    It is usually lower than the precision, because most pairs above it are more certain. It is infinite if
    no pair is certain enough.

    Parameters
    ----------
    confidence
        The confidence of every assigned pair.

    Examples
    --------
    >>> threshold_for(0.9, np.array([1.0, 0.9, 0.8, 0.5]))
    0.8
    """
    # Pairs of equal confidence are taken together or not at all: their order must not matter.
    ascending, counts = np.unique(confidence, return_counts=True)
    descending, counts = ascending[::-1], counts[::-1]
    # The running mean of the confidence is the expected precision.
    enough = np.flatnonzero(np.cumsum(descending * counts) >= precision * np.cumsum(counts))
    return float(descending[enough[-1]]) if len(enough) else float("inf")


def hold_back(task: AlignmentTask, share: float, random_seed: int = 0) -> tuple[AlignmentTask, Links]:
    """The task without a random share of its seeds, and those seeds."""
    count = round(share * len(task.seeds))
    order = np.random.default_rng([random_seed, _SALT]).permutation(len(task.seeds))
    return _without(task, order, slice(count))


def folds(task: AlignmentTask, number: int, random_seed: int = 0) -> Iterator[tuple[AlignmentTask, Links]]:
    """The task without each of `number` random parts of its seeds, and those seeds."""
    order = np.random.default_rng([random_seed, _SALT]).permutation(len(task.seeds))
    for fold in range(number):
        yield _without(task, order, slice(fold, None, number))


def _without(task: AlignmentTask, order: npt.NDArray[np.int64], hidden: slice) -> tuple[AlignmentTask, Links]:
    """The task without the seeds at these places of an order, and those seeds."""
    pairs = task.seeds.pairs
    kept = Links.from_pairs(pairs[np.delete(order, hidden)])
    return replace(task, seeds=kept), Links.from_pairs(pairs[order[hidden]])


COLUMNS = ("score", "log score", "margin", "mutual", "matching neighbours", "share of neighbours")
"""The columns of `pair_features`, before those of features such as names."""


def pair_features(
    assignment: Assignment,
    task: AlignmentTask,
    features: Features = (),
    names: Sequence[str] = (),
) -> Numbers:
    """What confidence is learned from: some figures of each assigned pair, one column each.

    Parameters
    ----------
    features
        Features of the entities, such as names.
    names
        The names of features that score pairs. Each adds a column, which is 0 if the iteration left the
        feature out.
    """
    listed = {item.name: item.scores for item in features if isinstance(item, PairScores)}
    if not len(assignment):
        return np.zeros((0, len(COLUMNS) + len(names)))
    score, rival = assignment.score.astype(np.float64), assignment.rival.astype(np.float64)
    margin = score - np.where(np.isfinite(rival), rival, 0)
    ends = assignment.source, assignment.target
    matched = matches_and_seeds(ends, task, np.clip(score, 0, 1))
    support, possible = neighbour_support(ends, matched, task)
    nothing = np.zeros(len(assignment))
    columns = [scores_at(listed[name], *ends) if name in listed else nothing for name in names]
    return np.stack(
        [
            score,
            np.log(np.clip(score, 1e-3, 1)),
            margin,
            assignment.mutual.astype(np.float64),
            np.log1p(support),
            support / np.maximum(possible, 1),
            *columns,
        ],
        axis=1,
    )


def judge(features: Numbers, assignment: Assignment, hidden: Links) -> Judged:
    """The assigned pairs that hidden seeds judge.

    Parameters
    ----------
    features
        The figures of all assigned pairs, as `pair_features` returns them.
    """
    source, target = assignment.source, assignment.target
    by_source, by_target = _seed_of(source, hidden.source), _seed_of(target, hidden.target)
    counts = ((by_source >= 0).astype(np.float64) + (by_target >= 0)) / 2
    is_judged = counts > 0
    return Judged(
        features[is_judged],
        ((by_source == by_target) & (by_source >= 0))[is_judged].astype(np.float64),
        counts[is_judged],
        np.where(by_source >= 0, by_source, by_target)[is_judged],
    )


def _seed_of(ids: Ids, seeds: Ids) -> npt.NDArray[np.int64]:
    """The number of the seed that has this id; -1 for none."""
    number = np.full(int(max(ids.max(initial=-1), seeds.max(initial=-1))) + 1, -1, dtype=np.int64)
    number[seeds] = np.arange(len(seeds))
    return number[ids]


def calibrate(judged: Judged) -> Calibration | None:
    """Fit confidence to pairs that seeds judge; None if there are too few.

    >>> from divea.loop.assignment import assign
    >>> from divea.loop.lists import Lists, rank
    >>> from divea.types import Matches
    >>> ids = np.arange(100, dtype=np.int32)
    >>> target, score = np.where(ids < 50, ids, 200)[:, None], np.ones((100, 1), dtype=np.float32)
    >>> lists = Lists.of([Matches(ids, target.astype(np.int32), score, ids >= 0)])
    >>> pairs = assign(rank(lists), one_to_one=False)
    >>> seeds = Links.from_pairs([(i, i) for i in range(100)])
    >>> line = calibrate(judge(np.where(ids < 50, 1.0, 0.0)[:, None], pairs, seeds))
    >>> line(np.array([[0.0], [1.0]])).round(1).tolist()
    [0.1, 1.0]
    """
    return _fitted(judged) if len(judged) >= FEWEST_PAIRS else None


def _fitted(judged: Judged) -> Calibration:
    mean, deviation = judged.features.mean(axis=0), judged.features.std(axis=0)
    deviation[deviation < 1e-9] = 1
    known = judged.in_doubt()
    weights, intercept = fit_logistic((known.features - mean) / deviation, known.is_correct, known.counts)
    return Calibration(mean, deviation, weights, intercept, judged)
