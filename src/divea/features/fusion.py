"""Weights of features: how much each counts beside the similarity of a model, learned from known pairs.

Matching turns a similarity s into a weight exp(s / temperature). A feature therefore has the right weight
if exp(weight x score / temperature) is proportional to the odds that its score gives a pair. That is a
conditional logit: each known pair is a choice of one target among all, of which those that the feature does
not list score 0, and the weight is the slope of the scores.

Names that are useless, or wrong for some entities, choose badly, and get a small weight or none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from divea.graphs import Links
from divea.graphs.features import EntityVectors, FeatureRows, PairScores
from divea.matching.sinkhorn import TEMPERATURE

DEFAULT_WEIGHT, DEVIATION = 0.5, 0.3
"""The weight of a feature before anything is known about it, and how far weights are from it as a rule: the
prior of the slope, which a few known pairs change little and many decide."""

HIGHEST_WEIGHT = 2.0

LEAST_GAIN = 5.0
"""Log likelihood that a feature must gain over chance to count at all."""

FEWEST_PAIRS, MOST_PAIRS = 10, 5000
"""Known pairs below which no weight is learned, and above which a sample of them is enough."""

MISTAKES = 0.02
"""Probability of every choice whatever the scores: it keeps a few hopeless pairs, such as names that are
wrong, from deciding the slope."""

_GRID = 41
_LISTED = 50
_SALT = 0xF05E

Numbers = npt.NDArray[np.float64]


def learned_weight(feature: FeatureRows, judges: Links, random_seed: int = 0) -> float:
    """The weight of a feature, from known pairs; 0 if its scores do not prefer them.

    Parameters
    ----------
    judges
        Pairs that are known to match and that the feature has not seen.

    Examples
    --------
    A feature that is right about all pairs counts, and one that is wrong about all does not.

    >>> ids = np.arange(100, dtype=np.int32)
    >>> scores = csr_array(np.eye(100, dtype=np.float32) + 0.1 * np.roll(np.eye(100), 1, axis=1))
    >>> feature = PairScores("names", ids, ids, scores.astype(np.float32))
    >>> right, wrong = Links(ids, ids), Links(ids, np.roll(ids, 50))
    >>> learned_weight(feature, right) > 0.1, learned_weight(feature, wrong)
    (True, 0.0)
    """
    return round(_fitted_weight(_choices(feature, sample(judges, random_seed))), 4)


def sample(judges: Links, random_seed: int = 0) -> Links:
    """At most `MOST_PAIRS` of the judges."""
    if len(judges) <= MOST_PAIRS:
        return judges
    order = np.random.default_rng([random_seed, _SALT]).permutation(len(judges))[:MOST_PAIRS]
    return Links.from_pairs(judges.pairs[np.sort(order)])


@dataclass(frozen=True)
class _Choices:
    """The scores among which each judge chooses."""

    starts: npt.NDArray[np.int64]
    score: Numbers
    is_chosen: npt.NDArray[np.bool_]
    targets: int
    """The number of all targets."""

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def judge(self) -> npt.NDArray[np.int64]:
        return np.repeat(np.arange(self.count), np.diff(self.starts))


def _choices(feature: FeatureRows, judges: Links) -> _Choices:
    listed = (
        feature.scores[np.searchsorted(feature.source_ids, judges.source)]
        if isinstance(feature, PairScores)
        else nearest_vectors(feature, judges.source)
    )
    judge = np.repeat(np.arange(len(judges)), np.diff(listed.indptr))
    target = feature.target_ids[listed.indices]
    is_chosen = target == judges.target[judge]
    return _Choices(
        listed.indptr.astype(np.int64), listed.data.astype(np.float64), is_chosen, listed.shape[1]
    )


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


def _fitted_weight(choices: _Choices) -> float:
    """The most probable weight of the scores, where all targets that are not listed score 0."""
    from scipy.optimize import minimize_scalar

    judge, count = choices.judge, choices.count
    unlisted = np.maximum(choices.targets - np.diff(choices.starts), 1)
    has_choice = np.bincount(judge[choices.is_chosen], minlength=count) > 0
    top = np.zeros(count)
    np.maximum.at(top, judge, choices.score)

    def likelihood(weight: float) -> float:
        odds = np.exp((choices.score - top[judge]) * weight / TEMPERATURE)
        odds_of_zero = np.exp(-top * weight / TEMPERATURE)
        total = np.bincount(judge, odds, count) + unlisted * odds_of_zero
        chosen = np.bincount(judge, odds * choices.is_chosen, count)
        probability = np.where(has_choice, chosen, odds_of_zero) / total
        return float(np.log((1 - MISTAKES) * probability + MISTAKES / choices.targets).sum())

    def loss(weight: float) -> float:
        return ((weight - DEFAULT_WEIGHT) / DEVIATION) ** 2 / 2 - likelihood(weight)

    # The mistakes make the loss have more than one minimum: a grid finds the region of the lowest.
    grid = np.linspace(0, HIGHEST_WEIGHT, _GRID)
    lowest = int(np.argmin([loss(weight) for weight in grid]))
    bounds = grid[max(lowest - 1, 0)], grid[min(lowest + 1, _GRID - 1)]
    weight = float(minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-3}).x)
    return weight if likelihood(weight) - likelihood(0.0) >= LEAST_GAIN else 0.0
