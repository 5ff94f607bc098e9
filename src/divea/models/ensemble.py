"""An ensemble: several models on the same task, their similarities added up.

The sum of two models' cosine similarities is, up to a factor, the cosine similarity of their unit vectors
laid side by side. So an ensemble is a model like any other, and matching need not know of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from divea.graphs import AlignmentTask
from divea.models.base import Model
from divea.types import Embeddings


class Ensemble(Model):
    """Embeds with each of its models; `resolve_model("label-propagation+rrea")` makes one."""

    def __init__(self, models: Sequence[Model]):
        self.models = tuple(models)

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return _side_by_side(
            [model.embed(task, random_seed=random_seed, device=device) for model in self.models]
        )

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        each = [model.embed_many(tasks, random_seeds=random_seeds, device=device) for model in self.models]
        return [_side_by_side(of_task) for of_task in zip(*each, strict=True)]

    def memory(self, task: AlignmentTask) -> int:
        needs = [model.memory(task) for model in self.models]
        return sum(needs) if all(needs) else 0


def _side_by_side(each: Sequence[Embeddings]) -> Embeddings:
    unit = [embeddings.normalised() for embeddings in each]
    return Embeddings(_joined([item.source for item in unit]), _joined([item.target for item in unit]))


def _joined(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, dim=1)
