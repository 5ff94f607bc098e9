"""What matching gives: for each source entity its best targets, with scores, margin and mutuality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from divea.graphs.labels import Ids

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Matches:
    """One row per source entity, best target first.

    Where a source has fewer candidates than columns, the rest is target -1 with score -inf.

    >>> matches = Matches(np.array([7]), np.array([[3, 5]]), np.float32([[.9, .4]]), np.array([True]))
    >>> matches.best.tolist(), matches.margin.round(1).tolist()
    ([3], [0.5])
    """

    source: Ids
    target: npt.NDArray[np.int32]
    score: Scores
    mutual: npt.NDArray[np.bool_]
    """Whether the best target's own best source is this one."""

    @property
    def best(self) -> Ids:
        """The first choice of every source, -1 where there was nothing to choose."""
        return self.target[:, 0] if self.target.shape[1] else np.full(len(self.source), -1, np.int32)

    @property
    def margin(self) -> Scores:
        """How far the best score is ahead of the runner-up's; infinite where there is none."""
        if self.target.shape[1] < 2:
            return np.full(len(self.source), np.inf, np.float32)
        alone = self.target[:, 1] < 0
        return np.where(alone, np.inf, self.score[:, 0] - np.where(alone, 0, self.score[:, 1]))

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return f"Matches({len(self)} sources, top {self.target.shape[1]})"
