"""Entity embeddings of two graphs: what a model gives and matching takes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Embeddings:
    """One row per entity, in id order; both sides live in one space and on one device.

    >>> Embeddings(torch.zeros(4, 8), torch.zeros(5, 8))
    Embeddings(4 + 5 entities, 8 dimensions)
    """

    source: Tensor
    target: Tensor

    def normalised(self) -> Embeddings:
        """Rows of length one; rows of zeros (entities nothing is known of) stay zeros."""
        normalise = torch.nn.functional.normalize
        return Embeddings(normalise(self.source, dim=1), normalise(self.target, dim=1))

    def __repr__(self) -> str:
        return (
            f"Embeddings({len(self.source)} + {len(self.target)} entities, {self.source.shape[1]} dimensions)"
        )
