"""Coverage of a division: the share of gold links that its subtasks can find."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from divea.graphs import Links

if TYPE_CHECKING:
    from divea.division import Division


@dataclass(frozen=True)
class Coverage:
    """The number of gold links that the subtasks of a division can find."""

    links: int
    """Gold links."""
    covered: int
    """Links with a target that is a candidate in the subtask that matches their source."""
    together: int
    """Links with both ends in any one subtask, as the papers on SBP count."""
    covered_by_subtask: tuple[int, ...]
    links_by_subtask: tuple[int, ...]
    """For each subtask, the links with a source that it matches."""

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain JSON types."""
        return {
            "links": self.links,
            "covered": self.covered,
            "coverage": self.share,
            "together": self.share_together,
        }

    @property
    def share(self) -> float:
        """The share of covered links: the figure called coverage everywhere."""
        return self.covered / self.links if self.links else 0.0

    @property
    def share_together(self) -> float:
        """The share of links with both ends in any one subtask."""
        return self.together / self.links if self.links else 0.0


def coverage(division: Division, gold: Links) -> Coverage:
    """The coverage of gold links by the subtasks of a division.

    Examples
    --------
    Without division, every link can be found.

    >>> from divea.division import Whole
    >>> from divea.graphs.synth import SynthConfig, synthesise
    >>> pair = synthesise(SynthConfig(entities=50))
    >>> coverage(Whole().divide(pair.task), pair.gold).share
    1.0
    """
    covered, links = [], []
    is_together = np.zeros(len(gold), dtype=bool)
    for subtask in division.subtasks:
        is_matched_here = np.isin(gold.source, subtask.unmatched)
        links.append(int(is_matched_here.sum()))
        covered.append(int(np.isin(gold.target[is_matched_here], subtask.candidates).sum()))
        is_together |= np.isin(gold.source, subtask.source_entities) & np.isin(
            gold.target, subtask.target_entities
        )
    return Coverage(len(gold), sum(covered), int(is_together.sum()), tuple(covered), tuple(links))
