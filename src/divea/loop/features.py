"""The features of a loop: computed once or in every iteration, with weights learned from known pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from divea.config import Settings
from divea.errors import InputError
from divea.features import Feature, make_features
from divea.features.fusion import DEFAULT_WEIGHT, FEWEST_PAIRS, learned_weights
from divea.features.judges import Structure
from divea.features.start import sure_pairs
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import FeatureRows, Features, PairScores, beside_structure
from divea.wording import worded

Keep = Callable[[str, str, Callable[[], FeatureRows | None]], FeatureRows | None]
"""Returns the stored feature with this name and this checksum of its inputs, or computes and stores it."""

DEFAULT_WEIGHT_OF_STRUCTURE = 1.0

GOOD_STRUCTURE = 0.7
"""The weight of structural similarity (`Structure.weight`) at which features need no correction. Below it,
features count more. `benchmarks run structure_judges` measures the weight on several pairs of graphs."""

HIGHEST_SCALE = 3.0


@dataclass(frozen=True)
class Computing:
    """The device and the memory for computing features, and what stores them."""

    device: str = "cpu"
    memory: int | None = None
    """Bytes that a structural feature may take on the device; None for its own limit."""
    keep: Keep | None = None
    """Stores features that are expensive to compute."""


HERE = Computing()
"""On the CPU, without storing anything."""


class LoopFeatures:
    """Computes the features of each iteration of a loop.

    Parameters
    ----------
    before
        The features of another loop with the same graphs and settings. Those that do not learn from known
        pairs are the same in both loops, and are taken over.
    """

    def __init__(
        self,
        task: AlignmentTask,
        settings: Settings,
        computing: Computing,
        before: LoopFeatures | None = None,
    ):
        self._task, self._settings, self._computing = task, settings, computing
        fixed = {} if before is None else {one.name: one for one in before._made if not one.uses_known_pairs}
        self._made: list[Feature] = [fixed.get(made.name, made) for made in make_features(settings.features)]
        self._computed: dict[str, FeatureRows | None] = {}
        if before is not None:
            self._computed = {name: rows for name, rows in before._computed.items() if name in fixed}
        self._known: dict[str, Links] = {}
        self.weights: dict[str, float] = {}
        """The latest weight of each feature."""
        self.scale = 1.0
        """The factor by which features count more because structure is weak; 1 if it is not."""
        self._structure: tuple[tuple[Links, Links], Structure] | None = None
        """The known pairs that the latest structure started from, and that structure."""

    def restore(self, weights: dict[str, float], scale: float) -> None:
        """Continue with what an earlier iteration learned; the features themselves are computed again."""
        self.weights, self.scale = dict(weights), scale

    def at(self, visible: AlignmentTask, pseudo_seeds: Links, hidden: Links) -> Features:
        """The features of an iteration; those with a weight of 0 are left out.

        Parameters
        ----------
        visible
            The task with the seeds that the iteration may see.
        pseudo_seeds
            The pseudo-seeds of the previous iteration; none in the first.
        hidden
            Seeds that the iteration must not see. They may only judge structural features.
        """
        known = visible.seeds.union(_apart_from(pseudo_seeds, hidden))
        for made in self._made:
            has_seeds = made.is_structural and len(visible.seeds) >= FEWEST_PAIRS
            self._update(made, visible.seeds if has_seeds else known)
        present = tuple(feature for _, feature in self._in_order() if feature is not None)
        others = beside_structure(present)
        if others:
            self._weigh(others, visible, pseudo_seeds)
        structural = tuple(feature for feature in present if feature not in others)
        is_new = any(item.name not in self.weights for item in structural)
        if structural and (len(hidden) >= FEWEST_PAIRS or is_new):
            # Structure has seen the visible seeds, so only hidden ones can judge it.
            self.weights |= _weights_of(structural, hidden, DEFAULT_WEIGHT_OF_STRUCTURE)
        # Structural features and the model are one kind of evidence: names have to outweigh both.
        structure = 1 + sum(self.weights[item.name] for item in structural)
        scale = structure * self.scale
        return tuple(
            replace(item, weight=self.weights[item.name] * (scale if item in others else 1.0))
            for item in present
            if self.weights[item.name] > 0
        )

    def _weigh(self, others: Features, visible: AlignmentTask, pseudo_seeds: Links) -> None:
        """Learn the weights of features that are not structural.

        With seeds, seeds judge them. Without, structure and features judge each other.
        """
        has_seeds = len(visible.seeds) >= FEWEST_PAIRS
        if not has_seeds and not len(pseudo_seeds):
            self.weights |= dict.fromkeys((item.name for item in others), DEFAULT_WEIGHT)
            return
        structure = None if has_seeds else self.structure(visible, pseudo_seeds)
        judges = visible.seeds if structure is None else structure.sure
        self.weights |= _weights_of(others, judges, DEFAULT_WEIGHT)
        if structure is not None:
            weighted = tuple(replace(item, weight=self.weights[item.name]) for item in others)
            weight = structure.weight(sure_pairs(weighted))
            self.scale = 1.0 if weight is None else _scale_of_features(weight)

    @property
    def score_names(self) -> tuple[str, ...]:
        """The names of all features that score pairs, even of those with a weight of 0."""
        return tuple(name for name, item in self._in_order() if isinstance(item, PairScores))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know about the features."""
        return tuple(note for made in self._made for note in made.notes)

    def structure(self, visible: AlignmentTask, pseudo_seeds: Links) -> Structure:
        """Similarity by structure, of pairs that it did not start from."""
        known = visible.seeds, pseudo_seeds
        if self._structure is None or self._structure[0] != known:
            structure = Structure.of(
                visible,
                pseudo_seeds,
                random_seed=self._settings.random_seed,
                device=self._computing.device,
                memory=self._computing.memory,
            )
            self._structure = known, structure
        return self._structure[1]

    def describe(self, features: Features) -> dict[str, Any]:
        """What was learned about features, as plain JSON types."""
        used = {feature.name: round(feature.weight, 4) for feature in features}
        known = {made.name: made.describe() for made in self._made}
        return {
            "weights": {made.name: used.get(made.name, 0.0) for made in self._made},
            **{name: text for name, text in known.items() if text},
        }

    def _in_order(self) -> list[tuple[str, FeatureRows | None]]:
        """The names and rows of the features computed so far, in the order of the settings."""
        return [(one.name, self._computed[one.name]) for one in self._made if one.name in self._computed]

    def _update(self, made: Feature, known: Links) -> None:
        """Compute a feature unless nothing that it depends on has changed."""
        is_new = made.name not in self._computed
        if is_new or (made.uses_known_pairs and self._known.get(made.name) != known):
            self._computed[made.name], self._known[made.name] = self._compute(made, known), known

    def _compute(self, made: Feature, known: Links) -> FeatureRows | None:
        found = self._computed_or_kept(made, known)
        # Nothing that is derived from features, such as the sure pairs, may contain a rejected pair.
        return found.without(self._task.rejected) if isinstance(found, PairScores) else found

    def _computed_or_kept(self, made: Feature, known: Links) -> FeatureRows | None:
        def compute() -> FeatureRows | None:
            return made.compute(
                self._task,
                known,
                random_seed=self._settings.random_seed,
                device=self._computing.device,
                memory=self._computing.memory,
            )

        made_from = made.made_from(self._task)
        if made_from is None or self._computing.keep is None:
            return compute()
        return self._computing.keep(made.name, made_from, compute)


def _weights_of(features: Features, judges: Links, default: float) -> dict[str, float]:
    names = [feature.name for feature in features]
    if len(judges) < FEWEST_PAIRS:
        return dict.fromkeys(names, default)
    return dict(zip(names, learned_weights(features, judges), strict=True))


def _scale_of_features(weight: float) -> float:
    """The factor by which features count more, given the weight of structure.

    >>> _scale_of_features(0.9), _scale_of_features(0.35), _scale_of_features(0.0)
    (1.0, 2.0, 3.0)
    """
    return float(np.clip(GOOD_STRUCTURE / max(weight, 1e-9), 1, HIGHEST_SCALE))


def _apart_from(pairs: Links, hidden: Links) -> Links:
    """The pairs that share no entity with a hidden seed."""
    free = ~np.isin(pairs.source, hidden.source) & ~np.isin(pairs.target, hidden.target)
    return Links.from_pairs(pairs.pairs[free])


def starting_pairs(task: AlignmentTask, features: Features) -> Links:
    """The pairs that features are sure of. Raises InputError if there is nothing to start from."""
    pairs = sure_pairs(features)
    if not len(pairs) and not len(task.seeds):
        advice = worded(
            command="give seeds with --seeds, or names with --source-names and --target-names",
            python="give seeds to divea.make_task or divea.read_task, or source_names= and target_names=",
        )
        raise InputError(
            "nothing to start from: the task has no seeds (known matches), and no names or attribute values "
            f"by which pairs can be told; {advice}"
        )
    return pairs
