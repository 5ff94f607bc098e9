"""Weights of features: how much each counts beside the similarity of a model, learned from known pairs.

Matching turns a similarity s into a weight exp(s / temperature). A feature therefore has the right weight
if exp(weight x score / temperature) is proportional to the odds that its score gives a pair. This is a
conditional logit: each known pair is a choice of one target among all targets, those that the feature does
not list have a score of 0, and the weight is the slope of the scores.

Names that are useless, or wrong for some entities, choose badly, and get a small weight or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import Links
from divea.graphs.features import EntityVectors, FeatureRows, Features, PairScores, scores_at
from divea.matching.sinkhorn import TEMPERATURE

DEFAULT_WEIGHT, DEVIATION = 0.5, 0.3
"""The mean and the standard deviation of the prior of a weight, which is a slope. A few known pairs change
it little, and many outweigh it. The mean is also the weight of a feature about which nothing is known."""

HIGHEST_WEIGHT = 2.0

LEAST_GAIN = 5.0
"""The log likelihood that a feature must gain over chance in order to count at all."""

FEWEST_PAIRS, MOST_PAIRS = 10, 5000
"""The fewest known pairs that a weight is learned from, and the most; a sample of more is enough."""

MISTAKES = 0.02
"""The probability that a choice is random, whatever the scores: it keeps a few hopeless pairs, such as wrong
names, from deciding the slope."""

_GRID = 41
_LISTED = 50
_BLOCK = 1 << 16
_SALT = 0xF05E

Numbers = npt.NDArray[np.float64]


def learned_weights(features: Features, judges: Links, random_seed: int = 0) -> tuple[float, ...]:
    """The weight of each feature beside the others, from known pairs; 0 if its scores add nothing.

    Features that say the same, such as names and vectors of names, share the weight that one would have.

    Parameters
    ----------
    judges
        Pairs that are known to match and that the features have not seen.

    Examples
    --------
    A feature that is right about all pairs counts, and one that is wrong about all does not.

    >>> ids = np.arange(100, dtype=np.int32)
    >>> scores = csr_array(np.eye(100, dtype=np.float32) + 0.1 * np.roll(np.eye(100), 1, axis=1))
    >>> feature = PairScores("names", ids, ids, scores.astype(np.float32))
    >>> right, wrong = Links(ids, ids), Links(ids, np.roll(ids, 50))
    >>> learned_weights((feature,), right)[0] > 0.1, learned_weights((feature,), wrong)
    (True, (0.0,))
    """
    return tuple(_fitted_weights(_choices(features, sample(judges, random_seed))).round(4).tolist())


def sample(judges: Links, random_seed: int = 0) -> Links:
    """At most `MOST_PAIRS` of the judges."""
    if len(judges) <= MOST_PAIRS:
        return judges
    order = np.random.default_rng([random_seed, _SALT]).permutation(len(judges))[:MOST_PAIRS]
    return Links.from_pairs(judges.pairs[np.sort(order)])


@dataclass(frozen=True)
class _Choices:
    """The choices of each judge: the targets that any feature lists for it, in the order of the judges."""

    judge: npt.NDArray[np.int64]
    score: Numbers
    """One row for each choice, one column for each feature."""
    is_chosen: npt.NDArray[np.bool_]
    count: int
    """The number of judges."""
    targets: int
    """The number of all targets."""


def _choices(features: Features, judges: Links) -> _Choices:
    targets = len(features[0].target_ids)
    listed = [_listed(feature, judges) for feature in features]
    keys = np.unique(
        np.concatenate(
            [np.repeat(np.arange(len(judges)), np.diff(one.indptr)) * targets + one.indices for one in listed]
        )
    )
    judge, column = np.divmod(keys, targets)
    pairs = judges.source[judge], features[0].target_ids[column]
    scores = [
        scores_at(one, judge, column)
        if isinstance(feature, PairScores)
        else cosines(feature, *(ids.astype(np.int64) for ids in pairs))
        for feature, one in zip(features, listed, strict=True)
    ]
    is_chosen = pairs[1] == judges.target[judge]
    return _Choices(judge, np.stack(scores, axis=1), is_chosen, len(judges), targets)


def _listed(feature: FeatureRows, judges: Links) -> csr_array:
    """The scores that a feature gives the targets of each judge's source."""
    if isinstance(feature, PairScores):
        return feature.scores[np.searchsorted(feature.source_ids, judges.source)]
    return nearest_vectors(feature, judges.source)


def cosines(feature: EntityVectors, source: npt.NDArray[np.int64], target: npt.NDArray[np.int64]) -> Numbers:
    """The cosine of each pair of entities."""
    found = np.zeros(len(source))
    for first in range(0, len(source), _BLOCK):
        some = slice(first, first + _BLOCK)
        left = feature.source[np.searchsorted(feature.source_ids, source[some])].astype(np.float32)
        right = feature.target[np.searchsorted(feature.target_ids, target[some])].astype(np.float32)
        lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
        found[some] = (left * right).sum(axis=1) / np.maximum(lengths, 1e-12)
    return found


def nearest_vectors(
    feature: EntityVectors, sources: np.ndarray, device: str = "cpu", count: int = _LISTED
) -> csr_array:
    """The cosines of the nearest targets of some sources."""
    import torch

    from divea.matching.similarity import UnitRows, cosine_blocks, top_k

    wanted = feature.source[np.searchsorted(feature.source_ids, sources)]
    rows, others = (
        torch.from_numpy(np.asarray(side).astype(np.float32)).to(device) for side in (wanted, feature.target)
    )
    count = min(count, len(others))
    blocks = cosine_blocks(
        UnitRows(rows, np.arange(len(rows))), UnitRows(others, np.arange(len(others))), 1 << 28
    )
    found = [top_k(block, count) for _, block in blocks]
    values, columns = (torch.cat(parts).cpu().numpy().ravel() for parts in zip(*found, strict=True))
    ends = np.arange(0, count * len(sources) + 1, count)
    return csr_array((values, columns, ends), shape=(len(sources), len(others)))


def _fitted_weights(choices: _Choices) -> Numbers:
    """The most probable weights of the features that gain enough on their own."""
    count = choices.score.shape[1]
    chance = -choices.count * float(np.log(choices.targets))
    gains = [_most_probable(choices, np.array([column]))[1] - chance for column in range(count)]
    used = np.flatnonzero(np.array(gains) >= LEAST_GAIN)
    found = np.zeros(count)
    if len(used):
        found[used] = _most_probable(choices, used)[0]
    return found


def _most_probable(choices: _Choices, columns: npt.NDArray[np.int64]) -> tuple[Numbers, float]:
    """The most probable weights of some features, and the log likelihood of the choices with them."""
    from scipy.optimize import minimize

    judge, count, score = choices.judge, choices.count, choices.score[:, columns] / TEMPERATURE
    unlisted = np.maximum(choices.targets - np.bincount(judge, minlength=count), 1)
    has_choice = np.bincount(judge[choices.is_chosen], minlength=count) > 0
    chosen = np.zeros((count, len(columns)))
    chosen[judge[choices.is_chosen]] = score[choices.is_chosen]

    def likelihood(weights: Numbers) -> tuple[float, Numbers]:
        """The log likelihood and its gradient. All targets that are not listed have a score of 0."""
        utility = score @ weights
        top = np.zeros(count)
        np.maximum.at(top, judge, utility)
        odds, odds_of_zero = np.exp(utility - top[judge]), np.exp(-top)
        total = np.bincount(judge, odds, count) + unlisted * odds_of_zero
        probability = np.where(has_choice, np.exp(chosen @ weights - top), odds_of_zero) / total
        mixed = (1 - MISTAKES) * probability + MISTAKES / choices.targets
        shares = (odds / total[judge])[:, None] * score
        expected = np.stack([np.bincount(judge, column, count) for column in shares.T], axis=1)
        gradient = ((1 - MISTAKES) * probability / mixed) @ (chosen - expected)
        return float(np.log(mixed).sum()), gradient

    def loss(weights: Numbers) -> tuple[float, Numbers]:
        value, gradient = likelihood(weights)
        away = (weights - DEFAULT_WEIGHT) / DEVIATION
        return float(away @ away) / 2 - value, away / DEVIATION - gradient

    # Because of the mistakes, the loss can have more than one minimum.
    grid = [np.full(len(columns), weight) for weight in np.linspace(0, HIGHEST_WEIGHT, _GRID)]
    start = min(grid, key=lambda weights: loss(weights)[0])
    bounds = [(0, HIGHEST_WEIGHT)] * len(columns)
    weights = np.asarray(minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
    return weights, likelihood(weights)[0]
