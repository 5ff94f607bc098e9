"""What a feature is, and how the features of a run are made from its settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from divea.config import FeatureSettings
from divea.errors import InputError
from divea.graphs import AlignmentTask, Links
from divea.graphs.features import FeatureRows
from divea.registry import FEATURES


class Feature(ABC):
    """Computes similarities between the entities of two whole graphs.

    `check_feature` checks the contract: the result depends on the graphs and the known pairs alone, and not
    on the order of entities.
    """

    name: ClassVar[str]
    uses_known_pairs: ClassVar[bool] = False
    """Whether it learns from known pairs, so that every iteration computes it again."""

    notes: tuple[str, ...] = ()
    """What a user should know about the last call of `compute`."""

    is_structural: ClassVar[bool] = False
    """Whether it is computed from the structure of the graphs, as models are. It then starts from seeds alone
    if there are enough of them."""

    @classmethod
    @abstractmethod
    def from_settings(cls, settings: FeatureSettings) -> Self:
        """Make the feature from the settings of all features."""

    def is_available(self, task: AlignmentTask) -> bool:
        """Whether the task has what the feature needs. It must be quick: it is called to prepare a run."""
        return True

    @abstractmethod
    def compute(
        self,
        task: AlignmentTask,
        known: Links,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> FeatureRows | None:
        """The feature for all entities; None if the task has nothing to compute it from.

        Parameters
        ----------
        task
            The graphs. Its seeds must not be used.
        known
            Pairs that are known or believed to match: seeds and pseudo-seeds.
        random_seed
            Decides every random draw.
        device
            Where to compute: "cpu" or "cuda".
        memory
            Bytes that the computation may take on the device.
        """

    def made_from(self, task: AlignmentTask) -> str | None:
        """A checksum of what the feature is made from, if it is worth keeping in the run; otherwise None."""
        return None

    def describe(self) -> Any:
        """What the last call of `compute` found or learned, as plain JSON types; None for nothing."""
        return None

    def checksums(self) -> dict[str, str]:
        """The checksums of the files that the feature reads, by the name of the setting."""
        return {}


def make_features(settings: FeatureSettings) -> list[Feature]:
    """The features that the settings name, in their order."""
    return [_feature_type(name).from_settings(settings) for name in settings.used]


def _feature_type(name: str) -> type[Feature]:
    found: type[Feature] = FEATURES.load(name)
    if not (isinstance(found, type) and issubclass(found, Feature)):
        raise InputError(f"the plug-in feature {name!r} is not a divea.features.Feature")
    return found
