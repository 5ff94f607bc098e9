"""How good an alignment is: its ranked lists, and the pairs that it gave out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divea.evaluation.coverage import coverage
from divea.evaluation.metrics import RankMetrics
from divea.evaluation.ranking import Protocol, listed_ranks
from divea.graphs import Links

if TYPE_CHECKING:
    from divea.division import Division
    from divea.types import Matches


@dataclass(frozen=True)
class AlignmentMetrics:
    """Figures over all gold links; one whose target is not in the list of its source is a miss."""

    protocol: Protocol
    links: int
    coverage: float
    h1: float
    h5: float
    h10: float
    mrr: float
    pairs: GivenPairs

    def as_dict(self) -> dict[str, float]:
        """The figures by the names that papers give them."""
        return {
            "coverage": self.coverage,
            "hits@1": self.h1,
            "hits@5": self.h5,
            "hits@10": self.h10,
            "mrr": self.mrr,
        }


@dataclass(frozen=True)
class GivenPairs:
    """How good the one-to-one pairs are that were given out.

    Gold rarely knows every match. So a pair can be judged only if one of its ends stands in a gold
    link: it is that link, or wrong. `judged_precision` is over those; `strict_precision` is over all
    pairs, and calls wrong what gold knows nothing about. A wrong pair between two entities of gold links
    is noticed twice as easily as a right one; `end_precision` counts entities instead, and is what a
    confidence promises.
    """

    given: int
    judged: int
    ends: int
    """Ends of given pairs that stand in a gold link."""
    correct: int
    links: int

    @property
    def judged_precision(self) -> float:
        return self.correct / self.judged if self.judged else 0.0

    @property
    def end_precision(self) -> float:
        return 2 * self.correct / self.ends if self.ends else 0.0

    @property
    def strict_precision(self) -> float:
        return self.correct / self.given if self.given else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.links if self.links else 0.0


def evaluate_alignment(
    matches: Matches, given: Links, division: Division, gold: Links, protocol: Protocol = "open"
) -> AlignmentMetrics:
    """Compare an alignment with gold links.

    closed: of each list, only targets that stand in gold links count. The entities competed as in open.
    """
    among = np.unique(gold.target) if protocol == "closed" else None
    ranks = RankMetrics.of(listed_ranks(matches, gold, among))
    return AlignmentMetrics(
        protocol,
        len(gold),
        coverage(division, gold).share,
        ranks.h1,
        ranks.h5,
        ranks.h10,
        ranks.mrr,
        judge(given, gold),
    )


def judge(given: Links, gold: Links) -> GivenPairs:
    """Compare one-to-one pairs with gold links.

    >>> judge(Links.from_pairs([(0, 0), (1, 2), (7, 7)]), Links.from_pairs([(0, 0), (1, 1)]))
    GivenPairs(given=3, judged=2, ends=3, correct=1, links=2)
    """
    by_source, by_target = np.isin(given.source, gold.source), np.isin(given.target, gold.target)
    judged, ends = (by_source | by_target).sum(), by_source.sum() + by_target.sum()
    keys, known = (links.source.astype(np.int64) << 32 | links.target for links in (given, gold))
    return GivenPairs(len(given), int(judged), int(ends), int(np.isin(keys, known).sum()), len(gold))
