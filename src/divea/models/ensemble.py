"""An ensemble: several models on the same task, with the sum of their similarities.

The sum of the cosine similarities of several models is, up to a factor, the cosine similarity of their
concatenated unit vectors. An ensemble is therefore a model like any other, and matching needs no special
case.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from divea.graphs import AlignmentTask
from divea.models.base import Model
from divea.types import Embeddings


class Ensemble(Model):
    """Concatenates the normalised embeddings of its models.

    `make_model` makes one from a name with a plus sign, such as "label-propagation+rrea".
    """

    def __init__(self, models: Sequence[Model]):
        self.models = tuple(models)
        self.in_threads = tuple(
            device
            for device in self.models[0].in_threads
            if all(device in model.in_threads for model in self.models)
        )

    def embed(self, task: AlignmentTask, *, random_seed: int = 0, device: str = "cpu") -> Embeddings:
        return _concatenated(
            [model.embed(task, random_seed=random_seed, device=device) for model in self.models]
        )

    def embed_many(
        self, tasks: Sequence[AlignmentTask], *, random_seeds: Sequence[int], device: str = "cpu"
    ) -> list[Embeddings]:
        by_model = [
            model.embed_many(tasks, random_seeds=random_seeds, device=device) for model in self.models
        ]
        return [_concatenated(of_task) for of_task in zip(*by_model, strict=True)]

    def memory(self, task: AlignmentTask) -> int:
        needs = [model.memory(task) for model in self.models]
        return sum(needs) if all(needs) else 0


def _concatenated(embeddings: Sequence[Embeddings]) -> Embeddings:
    normalised = [of_model.normalised() for of_model in embeddings]
    return Embeddings(
        torch.cat([of_model.source for of_model in normalised], dim=1),
        torch.cat([of_model.target for of_model in normalised], dim=1),
    )
