"""The features of a loop: computed once or in every iteration, and weighted by what known pairs say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from divea.config import Settings
from divea.errors import InputError
from divea.features import Feature, make_features
from divea.features.fusion import FEWEST_PAIRS, weighted
from divea.features.judges import pairs_of_structure
from divea.features.start import sure_pairs
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import FeatureRows, Features

Keep = Callable[[str, Callable[[], FeatureRows | None]], FeatureRows | None]
"""Returns a feature that was computed before, or computes and keeps it."""


class LoopFeatures:
    """Computes the features of each iteration of a loop."""

    def __init__(self, task: AlignmentTask, settings: Settings, device: str = "cpu"):
        self._task, self._settings, self._device = task, settings, device
        self._made = make_features(settings.features)
        self._static: dict[str, FeatureRows | None] = {}
        self._judges = Links.from_pairs([])
        self._weights: dict[str, float] = {}

    def at(self, visible: AlignmentTask, pseudo_seeds: Links, hidden: Links) -> Features:
        """The features of an iteration.

        Parameters
        ----------
        visible
            The task with the seeds that the iteration may see.
        pseudo_seeds
            Those of the previous iteration, none in the first one.
        hidden
            Seeds that the iteration must not see, but that may judge what it sees.
        """
        if not self._made:
            return ()
        known = visible.seeds.union(_apart_from(pseudo_seeds, hidden))
        computed = {made.name: self._computed(made, known) for made in self._made}
        present: Features = tuple(feature for feature in computed.values() if feature is not None)
        judges = self._chosen_judges(visible, pseudo_seeds)
        found: list[FeatureRows] = []
        for feature in present:
            is_blind = feature.name == "propagation"
            if is_blind:
                if len(hidden) >= FEWEST_PAIRS or feature.name not in self._weights:
                    self._weights[feature.name] = _weight_of(feature, hidden, 1.0)
            else:
                self._weights[feature.name] = _weight_of(feature, judges, None)
            found.append(replace(feature, weight=self._weights[feature.name]))
        # Propagation and the model are both structure: what counts against the one counts against both.
        structure = 1 + sum(feature.weight for feature in found if feature.name == "propagation")
        found = [
            feature if feature.name == "propagation" else replace(feature, weight=structure * feature.weight)
            for feature in found
        ]
        return tuple(feature for feature in found if feature.weight > 0)

    def _computed(self, made: Feature, known: Links) -> FeatureRows | None:
        settings = self._settings
        if made.uses_known_pairs or made.name not in self._static:
            self._static[made.name] = made.compute(
                self._task, known, random_seed=settings.random_seed, device=self._device
            )
        return self._static[made.name]

    def _chosen_judges(self, visible: AlignmentTask, pseudo_seeds: Links) -> Links:
        """The seeds if they are enough, else pairs that structure alone is sure of."""
        if len(visible.seeds) >= FEWEST_PAIRS or not len(pseudo_seeds):
            return visible.seeds
        random_seed = self._settings.random_seed
        return pairs_of_structure(visible, pseudo_seeds, random_seed=random_seed, device=self._device)


def _weight_of(feature: FeatureRows, judges: Links, default: float | None) -> float:
    if len(judges) < FEWEST_PAIRS and default is not None:
        return default
    found = weighted((feature,), judges)
    return found[0].weight if found else 0.0


def _apart_from(pairs: Links, hidden: Links) -> Links:
    """The pairs without an end in a hidden one."""
    free = ~np.isin(pairs.source, hidden.source) & ~np.isin(pairs.target, hidden.target)
    return Links.from_pairs(pairs.pairs[free])


def starting_pairs(task: AlignmentTask, features: Features) -> Links:
    """What features are sure of. Raises InputError if there is nothing to start from."""
    pairs = sure_pairs(features)
    if not len(pairs) and not len(task.seeds):
        raise InputError(
            "nothing to start from: there are no seeds, and no names or attribute values that both graphs "
            "share; give known matches with --seeds, or names with --source-names and --target-names"
        )
    return pairs
