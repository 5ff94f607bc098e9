"""Coverage of a division: the share of gold links that its subtasks could find at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from divea.graphs import Links

if TYPE_CHECKING:
    from divea.division import Division


@dataclass(frozen=True)
class Coverage:
    """How many gold links a division leaves within reach.

    `covered` counts links whose target is a candidate in the subtask that must match the source.
    `together` counts links whose two ends stand in any one subtask, as the papers of SBP count.
    """

    links: int
    covered: int
    together: int
    covered_by_subtask: tuple[int, ...]
    links_by_subtask: tuple[int, ...]

    @property
    def share(self) -> float:
        """The figure that is called coverage everywhere."""
        return self.covered / self.links if self.links else 0.0

    @property
    def share_together(self) -> float:
        return self.together / self.links if self.links else 0.0


def coverage(division: Division, gold: Links) -> Coverage:
    """Coverage of gold links; only the evaluator knows them.

    >>> from divea.division import Whole
    >>> from divea.graphs.synth import SynthConfig, synthesise
    >>> pair = synthesise(SynthConfig(entities=50))
    >>> coverage(Whole().divide(pair.task), pair.gold).share
    1.0
    """
    covered, links = [], []
    together = np.zeros(len(gold), dtype=bool)
    for subtask in division.subtasks:
        mine = np.isin(gold.source, subtask.unmatched)
        links.append(int(mine.sum()))
        covered.append(int(np.isin(gold.target[mine], subtask.candidates).sum()))
        together |= np.isin(gold.source, subtask.source_entities) & np.isin(
            gold.target, subtask.target_entities
        )
    return Coverage(len(gold), sum(covered), int(together.sum()), tuple(covered), tuple(links))
