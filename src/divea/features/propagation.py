"""Propagation: label propagation over both whole graphs, so that a subtask sees beyond its border.

Labels start from the seeds, and confident pairs are added in several rounds, as in the model of the same
name. Pseudo-seeds of the loop are used only if there are too few seeds: a second opinion is worth most if it
does not repeat the mistakes of the first (docs/notes/features.md has figures).
"""

from __future__ import annotations

from typing import Self

import numpy as np

from divea.config import FeatureSettings, LabelPropagationOptions
from divea.errors import InputError
from divea.features.base import Feature
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import EntityVectors, all_ids
from divea.models.label_propagation import LabelPropagation

OPTIONS = LabelPropagationOptions(labels=1024, heads=256, draft_heads=128, width=8, rounds=6)
"""They give each entity 2048 dimensions of two bytes."""

MOST_FOR_ROUNDS = 200_000
"""The most entities of a graph with several rounds: further rounds compare all entities with all."""

FEWEST_DIMENSIONS = 64

MEMORY = 12 << 30
"""Bytes that propagation may take if no limit is given. It is the same on every machine, because it decides
the number of dimensions and so the result."""


class Propagation(Feature):
    """Label propagation over the whole graphs."""

    name = "propagation"
    uses_known_pairs = True
    is_structural = True

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
        whole = AlignmentTask(task.source, task.target, known, rejected=task.rejected)
        model = LabelPropagation(fitting(self.options, whole, memory or MEMORY))
        found = model.embed(whole, random_seed=random_seed, device=device)
        source, target = (side.cpu().numpy().astype(np.float16) for side in (found.source, found.target))
        return EntityVectors(self.name, *all_ids(task), source, target, is_structure=True)


def fitting(options: LabelPropagationOptions, task: AlignmentTask, memory: int) -> LabelPropagationOptions:
    """The options with fewer dimensions and rounds, if the graphs are too large for them.

    Raises InputError if not even the fewest dimensions fit.

    Examples
    --------
    >>> from divea.graphs.planted import planted_pair
    >>> small = fitting(OPTIONS, planted_pair().task, 2 << 20)
    >>> small.labels < OPTIONS.labels, small.rounds
    (True, 6)
    """
    if max(task.source.num_entities, task.target.num_entities) > MOST_FOR_ROUNDS:
        options = options.model_copy(update={"rounds": 1})
    while LabelPropagation(options).memory(task) > memory:
        if options.labels <= FEWEST_DIMENSIONS:
            raise InputError(
                f"propagation over both whole graphs does not fit {memory >> 20} MiB; leave it out of "
                "features.name"
            )
        fewer = {name: max(getattr(options, name) // 2, 1) for name in ("labels", "heads", "draft_heads")}
        options = options.model_copy(update=fewer)
    return options
