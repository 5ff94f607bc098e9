"""Every setting of an alignment, in one typed object.

The docstring below a field is its explanation in `divea settings` and in the JSON schema; its first line
stands alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from divea.config.effects import conflicts, with_effect, without_effect
from divea.config.features import FeatureSettings
from divea.config.group import Group, NamedGroup
from divea.config.models import LastModelSettings, ModelSettings
from divea.config.sources import combine_settings, read_settings_file
from divea.errors import InputError
from divea.registry import DIVISIONS

_LIGHTEA_WIDTH = {"labels": 1024, "heads": 512, "draft_heads": 256}

PRESETS: dict[str, dict[str, Any]] = {
    "fast": {},
    "best": {
        "iterations": 7,
        "model": {"label-propagation": {**_LIGHTEA_WIDTH, "rounds": 6}},
        "last_model": {
            "name": "label-propagation+rrea+dual-amn",
            "iterations": 4,
            "label-propagation": {**_LIGHTEA_WIDTH, "rounds": 2},
            "rrea": {"loss": "hard", "steps": 60},
            "dual-amn": {"steps": 60},
        },
    },
}
"""fast: label propagation alone, the defaults. best: three iterations of label propagation, then four of an
ensemble with two trained models that learn from what it found; several points more accurate, and many times
slower without a GPU."""


class EvidenceSettings(NamedGroup):
    """How context entities are chosen by the evidence that they pass (Eqs. 6 to 10)."""

    method: Literal["first_order", "rounds", "exact"] = "first_order"
    """first_order: one gradient pass; rounds: ten passes; exact: the paper's, thousands of times slower."""
    strength: float = Field(default=2.0, gt=0, le=1000)
    """The paper's lambda: how soon an entity's evidence saturates."""
    layers: int = Field(default=2, ge=1, le=16)
    """The paper's L: layers of the encoder that the context is for."""


class DivisionSettings(NamedGroup):
    """How a task is divided into subtasks."""

    name: str = "joint"
    """joint, divea (the paper's), random (its ablation), the rivals cps, sbp, isbp, or whole (undivided)."""
    delta1: float | None = Field(default=None, gt=0, lt=1)
    """The source side's share of S; null: chosen on held-out seeds."""
    delta2: float = Field(default=0.0, ge=0, lt=1)
    """The share of the target side that goes to connecting entities. The paper's code uses 0."""
    partitioner: Literal["metis", "kaminpar", "random"] = "metis"
    """How the source graph is partitioned."""
    locality: Literal["propagate", "bfs"] = "propagate"
    """How near a candidate is to a part: by propagation, or by hops as in the paper (Eq. 2)."""
    alpha: float = Field(default=0.9, ge=0, le=1)
    """Threshold of the similarity weight (Eq. 4)."""
    beta: float = Field(default=1.0, ge=0, le=1000)
    """Factor of the similarity weight that is added to locality (Eq. 5)."""
    nearest: int = Field(default=10, ge=0, le=10_000)
    """The paper's K: how many similarities of a candidate are summed (Eq. 3); 0 for locality alone."""
    evidence: EvidenceSettings = EvidenceSettings()

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in DIVISIONS.names():
            raise ValueError(f"unknown division {name!r}; choose from {', '.join(DIVISIONS.names())}")
        return name


class MatchingSettings(NamedGroup):
    """How embeddings become matches, and how matches become pseudo-seeds."""

    method: Literal["sinkhorn", "csls", "cosine"] = "sinkhorn"
    """How pairs are scored."""
    threshold: float = Field(default=0.5, ge=-10, le=10)
    """Score above which a mutual match becomes a pseudo-seed.

    0.5 suits Sinkhorn's weights, which are between 0 and 1. With a threshold below all scores, such as -10,
    mutuality alone decides, as in the paper.
    """
    average: int = Field(default=3, ge=1, le=1000)
    """How many of a model's latest iterations have their scores averaged; 1 for the latest alone.

    Divisions differ between iterations, so a pair that one division separates may meet in another.
    """


class ConfidenceSettings(Group):
    """How confidence is calibrated, and which pairs it keeps out of the mappings."""

    held_back: float = Field(default=0.1, ge=0, lt=1)
    """Share of the seeds that only the last iteration sees, to calibrate confidence on; 0 for none."""
    folds: int | None = Field(default=None, ge=0, le=100)
    """Folds for cross-validation, 0 to hold seeds back; null: 5 if a threshold needs them, else 0.

    The loop is repeated without the seeds of each fold. Fewer than 100 held-back seeds are too few for a
    threshold.
    """
    min_confidence: float | None = Field(default=None, ge=0, le=1)
    """Pairs below this confidence are left out of the mappings; null: 0.5 if there is a confidence."""
    precision: float | None = Field(default=None, gt=0, lt=1)
    """Expected precision of the mappings; null: min_confidence decides."""

    @property
    def has_threshold(self) -> bool:
        """Whether a threshold was given, so that mappings without a confidence would break a promise."""
        return self.precision is not None or self.min_confidence is not None


class OutputSettings(Group):
    """What the tables of a run contain."""

    top: int = Field(default=50, ge=1, le=10_000)
    """Length of the ranked lists."""
    one_to_one: bool = True
    """Whether each target is assigned at most once, the best-scored pairs first."""


class Settings(Group):
    """The settings that decide the result of an alignment.

    A value of None (null in JSON and YAML, or left out) means "chosen for you": when the run is prepared, it
    is replaced by a value that suits the task and the machine, and the run's log says what was chosen.

    Examples
    --------
    >>> Settings(subtasks=5).division.name
    'joint'
    >>> Settings.preset("best", subtasks=5).last_model.iterations
    4
    >>> Settings.of(None, {"model.name": "rrea", "model.rrea.steps": 60}).model.options("rrea").steps
    60
    """

    subtasks: int | None = Field(default=None, ge=1, le=10_000_000)
    """N, the number of subtasks; null: as few as fit into memory."""
    size: int | None = Field(default=None, ge=2, le=1 << 40)
    """S, the most entities of a subtask, both graphs together; null: all entities divided by N."""
    iterations: int = Field(default=3, ge=1, le=1000)
    """Rounds of dividing, solving and learning."""
    random_seed: int = Field(default=0, ge=0, lt=1 << 31)
    """Decides every random draw: the same random seed gives the same bytes."""
    features: FeatureSettings = FeatureSettings()
    division: DivisionSettings = DivisionSettings()
    model: ModelSettings = ModelSettings()
    last_model: LastModelSettings = LastModelSettings()
    matching: MatchingSettings = MatchingSettings()
    confidence: ConfidenceSettings = ConfidenceSettings()
    output: OutputSettings = OutputSettings()

    @model_validator(mode="after")
    def _every_setting_counts(self, info: ValidationInfo) -> Settings:
        if conflict := next(conflicts(self), None):
            raise ValueError(conflict)
        if (info.context or {}).get("allow_unused"):
            return self
        if unused := next(without_effect(self), None):
            path, reason = unused
            raise ValueError(f"{path} has no effect: {reason}")
        return self

    @classmethod
    def of(cls, base: Settings | str | None, changes: Mapping[str, Any] | None = None) -> Settings:
        """Settings, the name of a preset or nothing, with changes on top.

        Parameters
        ----------
        base
            Settings, the name of a preset, or None for the defaults.
        changes
            Values by name. A name may be a path, as in "model.rrea.steps", and a value may be a dictionary.
            The bare name of a component may stand for its group: {"model": "rrea"}.
        """
        if isinstance(base, str):
            if base not in PRESETS:
                raise InputError(f"unknown preset {base!r}; choose from {', '.join(PRESETS)}")
            given: Mapping[str, Any] = PRESETS[base]
        elif base is None or isinstance(base, Settings):
            given = {} if base is None else base.given()
        else:
            raise InputError(f"settings are a divea.Settings or the name of a preset, not {base!r}")
        settings: Settings = cls.checked(combine_settings(given, changes or {}))
        return settings

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Settings:
        """A preset (`fast` or `best`), with changes on top."""
        return cls.of(name, changes)

    @classmethod
    def load(cls, path: str | Path, **changes: Any) -> Settings:
        """Read a JSON, YAML or TOML file of settings, with changes on top."""
        return cls.of(None, combine_settings(cls.read_file(path), changes))

    @classmethod
    def read_file(cls, path: str | Path) -> dict[str, Any]:
        """The values of a JSON, YAML or TOML file; names and types are checked, effects are not."""
        found = read_settings_file(path)
        try:
            cls.checked(combine_settings(found), allow_unused=True)
        except InputError as error:
            raise InputError(str(error), path=path) from None
        return found

    @property
    def calibrates(self) -> bool:
        """Whether seeds are held back. That takes one iteration without them and one with them."""
        return self.confidence.held_back > 0 and self.iterations > 1 and not self.confidence.folds

    @property
    def weighs_similarity(self) -> bool:
        """Whether the division uses the similarity weights of Eqs. 3 to 5."""
        return self.division.nearest > 0 and self.division.name in ("divea", "random") and self.subtasks != 1

    def model_at(self, iteration: int) -> ModelSettings:
        """The model of an iteration, counted from 0."""
        has_last_model = iteration >= self.iterations - self.last_model.iterations
        return self.last_model if has_last_model else self.model

    def models(self) -> list[ModelSettings]:
        """The models of all iterations, in order."""
        return [self.model_at(iteration) for iteration in range(self.iterations)]

    def given(self) -> dict[str, Any]:
        """The values that were given and have an effect, as plain JSON types."""
        return with_effect(self, self.model_dump(mode="json", exclude_unset=True))

    def in_use(self) -> dict[str, Any]:
        """All values that have an effect, as plain JSON types; `Settings.load` reads them again."""
        return with_effect(self, self.plain())

    def plain(self) -> dict[str, Any]:
        """All values as plain JSON types, without models that are not in use."""
        last_model = self.last_model.plain() if self.last_model.iterations else {"iterations": 0}
        return {**super().plain(), "model": self.model.plain(), "last_model": last_model}

    def _repr_html_(self) -> str:
        from divea.config.html import as_html

        return as_html(self)

    def resolved(self, **chosen: Any) -> Settings:
        """The effective settings: values that were chosen, and the options of every model in use.

        >>> Settings().resolved(subtasks=4).subtasks
        4
        """
        models = {"model": self.model.resolved()}
        if self.last_model.iterations:
            models["last_model"] = self.last_model.resolved()
        return self.model_copy(update={**chosen, **models})
