"""The quality of an alignment: of its ranked lists, and of the pairs that it assigns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from divea.evaluation.coverage import coverage
from divea.evaluation.metrics import RankMetrics
from divea.evaluation.ranking import Protocol, listed_ranks
from divea.graphs import Links

if TYPE_CHECKING:
    from divea.division import Division
    from divea.types import Matches


@dataclass(frozen=True)
class AlignmentMetrics:
    """Figures over all gold links; a link is a miss if its target is not in its source's ranked list."""

    protocol: Protocol
    links: int
    coverage: float
    h1: float
    h5: float
    h10: float
    mrr: float
    pairs: AssignedPairMetrics

    def as_dict(self) -> dict[str, Any]:
        """All figures as plain JSON types, under the names that papers use."""
        pairs = self.pairs
        return {
            "protocol": self.protocol,
            "links": self.links,
            **self.ranking(),
            "pairs": pairs.given,
            "judged": pairs.judged,
            "recall": pairs.recall,
            "precision": pairs.judged_precision,
            "precision_by_ends": pairs.end_precision,
            "strict_precision": pairs.strict_precision,
        }

    def ranking(self) -> dict[str, float]:
        """Coverage and the figures of the ranked lists."""
        return {
            "coverage": self.coverage,
            "hits@1": self.h1,
            "hits@5": self.h5,
            "hits@10": self.h10,
            "mrr": self.mrr,
        }


@dataclass(frozen=True)
class AssignedPairMetrics:
    """Precision and recall of assigned one-to-one pairs.

    Gold links rarely contain every match. A pair can therefore be judged only if one of its ends is in a
    gold link: it is correct if it is that link, and wrong otherwise.
    """

    given: int
    """Assigned pairs."""
    judged: int
    """Assigned pairs with at least one end in a gold link."""
    ends: int
    """Ends of assigned pairs that are in a gold link."""
    correct: int
    """Assigned pairs that are gold links."""
    links: int
    """Gold links."""

    @property
    def judged_precision(self) -> float:
        """The share of correct pairs among those that can be judged."""
        return self.correct / self.judged if self.judged else 0.0

    @property
    def end_precision(self) -> float:
        """The precision by ends: the share of ends of correct pairs among all ends in gold links.

        A wrong pair between two entities of gold links can be noticed at either end, and so twice as easily
        as a correct one. Counting ends corrects for that. This is the figure that confidence predicts.
        """
        return 2 * self.correct / self.ends if self.ends else 0.0

    @property
    def strict_precision(self) -> float:
        """The share of correct pairs among all; pairs that cannot be judged count as wrong."""
        return self.correct / self.given if self.given else 0.0

    @property
    def recall(self) -> float:
        """The share of gold links that are assigned."""
        return self.correct / self.links if self.links else 0.0


def evaluate_alignment(
    matches: Matches, assigned: Links, division: Division, gold: Links, protocol: Protocol = "open"
) -> AlignmentMetrics:
    """Compare an alignment with gold links.

    Parameters
    ----------
    matches
        The ranked lists.
    assigned
        The assigned one-to-one pairs.
    division
        The division that the alignment was computed with, for its coverage.
    protocol
        With "closed", only targets of gold links count in a ranked list. The alignment itself was still
        computed among all entities.

    Examples
    --------
    Two perfect lists of one target each, and only one of the two pairs assigned.

    >>> from divea.division import Whole
    >>> from divea.graphs.planted import planted_pair
    >>> from divea.types import Matches
    >>> pair = planted_pair(entities=6, triples=20, seeds=4)
    >>> target, score = pair.gold.target[:, None], np.ones((2, 1), np.float32)
    >>> matches = Matches(pair.gold.source, target, score, np.ones(2, bool))
    >>> assigned = Links.from_pairs(pair.gold.pairs[:1])
    >>> found = evaluate_alignment(matches, assigned, Whole().divide(pair.task), pair.gold)
    >>> found.h1, found.pairs.judged_precision, found.pairs.recall
    (1.0, 1.0, 0.5)
    """
    ranked_targets = np.unique(gold.target) if protocol == "closed" else None
    ranks = RankMetrics.of(listed_ranks(matches, gold, ranked_targets))
    return AlignmentMetrics(
        protocol,
        len(gold),
        coverage(division, gold).share,
        ranks.h1,
        ranks.h5,
        ranks.h10,
        ranks.mrr,
        judge(assigned, gold),
    )


def judge(assigned: Links, gold: Links) -> AssignedPairMetrics:
    """Compare one-to-one pairs with gold links.

    Examples
    --------
    The pair (0, 0) is correct, (1, 2) is wrong, and (7, 7) cannot be judged.

    >>> found = judge(Links.from_pairs([(0, 0), (1, 2), (7, 7)]), Links.from_pairs([(0, 0), (1, 1)]))
    >>> found.given, found.judged, found.ends, found.correct, found.links
    (3, 2, 3, 1, 2)
    >>> found.judged_precision, round(found.end_precision, 3), round(found.strict_precision, 3), found.recall
    (0.5, 0.667, 0.333, 0.5)
    """
    in_source, in_target = np.isin(assigned.source, gold.source), np.isin(assigned.target, gold.target)
    return AssignedPairMetrics(
        given=len(assigned),
        judged=int((in_source | in_target).sum()),
        ends=int(in_source.sum() + in_target.sum()),
        correct=int(is_correct(assigned, gold).sum()),
        links=len(gold),
    )


def is_correct(assigned: Links, gold: Links) -> npt.NDArray[np.bool_]:
    """Whether each assigned pair is a gold link."""
    assigned_keys, gold_keys = (
        links.source.astype(np.int64) << 32 | links.target for links in (assigned, gold)
    )
    return np.isin(assigned_keys, gold_keys)
