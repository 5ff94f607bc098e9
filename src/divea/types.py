"""Types that every layer shares: entity ids, embeddings and ranked matches.

torch is imported by the code that makes embeddings, not here, so commands that only read files start
without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from torch import Tensor

Ids = npt.NDArray[np.int32]
"""Entity ids: positions in a graph's list of entities."""

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Entity embeddings of two graphs: what a model returns and matching takes.

    One row per entity, in id order. Both sides share one space and one device.

    >>> import torch
    >>> Embeddings(torch.zeros(4, 8), torch.zeros(5, 8))
    Embeddings(4 + 5 entities, 8 dimensions)
    """

    source: Tensor
    target: Tensor

    def normalised(self) -> Embeddings:
        """Embeddings with rows of length one; rows of zeros (entities nothing is known of) stay zeros."""
        from torch.nn.functional import normalize

        return Embeddings(normalize(self.source, dim=1), normalize(self.target, dim=1))

    def __repr__(self) -> str:
        entities = f"{len(self.source)} + {len(self.target)} entities"
        return f"Embeddings({entities}, {self.source.shape[1]} dimensions)"


@dataclass(frozen=True, eq=False)
class Matches:
    """The ranked targets of each source entity: what matching returns.

    One row per source entity, best target first. Rows with fewer candidates than columns are padded with
    target -1 and score -inf.

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
        """The first-ranked target of every source, -1 where there were no candidates."""
        return self.target[:, 0] if self.target.shape[1] else np.full(len(self.source), -1, np.int32)

    @property
    def margin(self) -> Scores:
        """The margin of every source's best target; infinite where there is no runner-up."""
        if self.target.shape[1] < 2:
            return np.full(len(self.source), np.inf, np.float32)
        alone = self.target[:, 1] < 0
        return np.where(alone, np.inf, self.score[:, 0] - np.where(alone, 0, self.score[:, 1]))

    def __len__(self) -> int:
        return len(self.source)

    def __repr__(self) -> str:
        return f"Matches({len(self)} sources, top {self.target.shape[1]})"


@dataclass(frozen=True)
class Solved:
    """The result of a subtask: ranked matches of its unmatched entities, in the ids of the whole task."""

    matches: Matches
    top_sums: npt.NDArray[np.float32]
    """For each candidate, the sum of its K highest similarities to the unmatched entities (Eq. 3)."""
