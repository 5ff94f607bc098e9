"""Propagation: label propagation over both whole graphs, so that a subtask sees beyond its border.

Labels start from all known pairs, seeds and pseudo-seeds, and reach every entity within two hops of one,
whatever subtask it is in. The vectors are those of the label propagation model with fewer dimensions.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from divea.config import FeatureSettings, LabelPropagationOptions
from divea.features.base import Feature
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, all_ids
from divea.models.label_propagation import LabelPropagation

OPTIONS = LabelPropagationOptions(labels=1024, heads=256, width=8, rounds=1)
"""2048 dimensions of two bytes an entity."""


class Propagation(Feature):
    """Label propagation over the whole graphs from all known pairs."""

    name = "propagation"
    uses_known_pairs = True

    def __init__(self, options: LabelPropagationOptions = OPTIONS):
        self.options = options

    @classmethod
    def from_settings(cls, settings: FeatureSettings) -> Self:
        return cls()

    def compute(
        self,
        task: AlignmentTask,
        known: Links,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> EntityVectors | None:
        if not len(known):
            return None
        model = LabelPropagation(self.options)
        whole = AlignmentTask(task.source, task.target, known)
        found = model.embed(whole, random_seed=random_seed, device=device)
        source, target = (side.cpu().numpy().astype(np.float16) for side in (found.source, found.target))
        return EntityVectors(self.name, *all_ids(task), source, target, is_structure=True)
