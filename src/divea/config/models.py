"""Settings of the models: the options of each built-in one, and the choice among them.

They are not defined beside the models, so that settings can be read and checked without importing torch.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from divea.config.group import Group, NamedGroup, public_name
from divea.registry import MODELS


class LabelPropagationOptions(Group):
    """Options of label propagation (LightEA, whose public code has 1024, 2, 512, 16, 512 and 6 instead)."""

    labels: int = Field(default=512, ge=1, le=1 << 16)
    """Dimensions of a label: half of LightEA's value, because iterations of the loop make up for it."""
    hops: int = Field(default=2, ge=1, le=16)
    """Number of hops that labels travel."""
    heads: int = Field(default=256, ge=1, le=1 << 16)
    """Random projections of the relations."""
    width: int = Field(default=8, ge=1, le=1 << 10)
    """Random projections of the neighbours per head. LightEA's value of 16 takes twice the time."""
    draft_heads: int = Field(default=128, ge=1, le=1 << 16)
    """Heads of all rounds but the last; fewer are enough to find confident pairs."""
    rounds: int = Field(default=3, ge=1, le=1000)
    """Number of propagations; all but the first also start from pseudo-seeds."""
    threshold: float = Field(default=0.5, ge=0, le=1)
    """Sinkhorn weight above which a mutual match becomes a pseudo-seed of the next round."""


class RreaOptions(Group):
    """Options of RREA. Defaults are those of the paper and its public code."""

    dimensions: int = Field(default=100, ge=1, le=1 << 14)
    """Dimensions of entity and relation embeddings."""
    layers: int = Field(default=2, ge=1, le=16)
    """Graph attention layers."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Dropout rate of the output embeddings during training."""
    learning_rate: float = Field(default=0.005, gt=0, le=1e6)
    """Learning rate of RMSprop."""
    loss: Literal["margin", "hard"] = "margin"
    """margin: the paper's L1 margin loss; hard: Dual-AMN's, which needs far fewer steps."""
    steps: int = Field(default=1200, ge=1, le=1_000_000)
    """Full-batch training steps. DivEA's paper takes 250; about 60 are enough for the hard loss."""
    margin: float = Field(default=3.0, ge=0, le=1e6)
    """Margin of the margin loss."""
    batch: int = Field(default=1024, ge=1, le=1 << 31)
    """Seeds per step of the hard loss."""
    hard_margin: float = Field(default=1.0, ge=0, le=1e6)
    """Margin of the hard loss."""
    hard_scale: float = Field(default=30.0, gt=0, le=1e6)
    """Scale of the hard loss's smooth maximum."""
    hard_shift: float = Field(default=10.0, ge=-1e6, le=1e6)
    """Constant added to the hard loss."""


class DualAmnOptions(Group):
    """Options of Dual-AMN. Defaults are those of its public code, except for the steps."""

    dimensions: int = Field(default=128, ge=1, le=1 << 14)
    """Dimensions of entity and relation embeddings."""
    layers: int = Field(default=2, ge=1, le=16)
    """Graph attention layers."""
    proxies: int = Field(default=64, ge=1, le=1 << 14)
    """Proxy vectors that both graphs share."""
    dropout: float = Field(default=0.3, ge=0, lt=1)
    """Dropout rate of the output embeddings during training."""
    learning_rate: float = Field(default=0.005, gt=0, le=1e6)
    """Learning rate of RMSprop."""
    steps: int = Field(default=60, ge=1, le=1_000_000)
    """Training steps. The public code takes 100; on held-out seeds 60 are better than 100, 200 or 300."""
    batch: int = Field(default=1024, ge=1, le=1 << 31)
    """Seeds per step; all seeds if there are fewer."""
    margin: float = Field(default=1.0, ge=0, le=1e6)
    """Margin of the hard loss (gamma)."""
    scale: float = Field(default=30.0, gt=0, le=1e6)
    """Scale of the hard loss's smooth maximum (lambda)."""
    shift: float = Field(default=10.0, ge=-1e6, le=1e6)
    """Constant added to the hard loss (tau)."""


class GcnAlignOptions(Group):
    """Options of GCN-Align. Defaults are those of the public code for structure embeddings."""

    dimensions: int = Field(default=200, ge=1, le=1 << 14)
    """Dimensions of entity embeddings."""
    steps: int = Field(default=2000, ge=1, le=1_000_000)
    """Full-batch training steps."""
    learning_rate: float = Field(default=20.0, gt=0, le=1e6)
    """Learning rate of plain gradient descent. The loss is a mean, so gradients are tiny."""
    margin: float = Field(default=3.0, ge=0, le=1e6)
    """Margin of the L1 margin loss."""
    negatives: int = Field(default=5, ge=1, le=10_000)
    """Random negatives per seed and side."""
    keep_negatives: int = Field(default=10, ge=1, le=1_000_000)
    """Steps after which new negatives are drawn."""


class ModelSettings(NamedGroup):
    """Which model embeds the subtasks, and the options of that model.

    >>> ModelSettings(name="rrea", rrea=RreaOptions(steps=60)).options("rrea").steps
    60
    """

    # Options of plug-in models, as plain values: the plug-in's own class checks them.
    model_config = ConfigDict(extra="allow")
    group: ClassVar[str] = "model"
    """The group's path in the settings."""

    name: str = "label-propagation"
    """label-propagation, rrea, dual-amn, gcn-align or a plug-in; several joined by + are an ensemble."""
    label_propagation: LabelPropagationOptions | None = Field(
        default=None, validation_alias="label-propagation", serialization_alias="label-propagation"
    )
    """Options of label-propagation; null for its defaults."""
    rrea: RreaOptions | None = None
    """Options of rrea; null for its defaults."""
    dual_amn: DualAmnOptions | None = Field(
        default=None, validation_alias="dual-amn", serialization_alias="dual-amn"
    )
    """Options of dual-amn; null for its defaults."""
    gcn_align: GcnAlignOptions | None = Field(
        default=None, validation_alias="gcn-align", serialization_alias="gcn-align"
    )
    """Options of gcn-align; null for its defaults."""

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        known = MODELS.names()
        for part in name.split("+"):
            if part not in known:
                raise ValueError(f"unknown model {part!r}; choose from {', '.join(known)}")
        return name

    @model_validator(mode="before")
    @classmethod
    def _only_models(cls, values: Any) -> Any:
        if isinstance(values, dict):
            names = {field: public_name(cls, field) for field in cls.model_fields}
            for key, value in values.items():
                if key in names or key in names.values():
                    if key in names and names[key] != key and names[key] in values:
                        raise ValueError(f"{key} and {names[key]} are the same setting; give it once")
                elif key not in MODELS.names():
                    raise PydanticCustomError("unknown_option", "unknown", {"name": key})
                elif not isinstance(value, dict):
                    raise ValueError(f"the options of {key!r} are a group of settings, not {value!r}")
        return values

    @property
    def names(self) -> list[str]:
        """The models of an ensemble, or the one model."""
        return self.name.split("+")

    def given_options(self) -> dict[str, Any]:
        """Options that were given, by model name; a model that is missing runs with its defaults."""
        built_in = {
            public_name(type(self), field): getattr(self, field)
            for field in type(self).model_fields
            if isinstance(getattr(self, field), Group)
        }
        return {**built_in, **(self.__pydantic_extra__ or {})}

    def options(self, name: str) -> Any:
        """The options of one model: those given, or its defaults. A plug-in's are plain values."""
        given = self.given_options().get(name)
        return BUILT_IN_OPTIONS.get(name, dict)() if given is None else given

    def is_same_model(self, other: ModelSettings) -> bool:
        """Whether both name the same models with the same options."""
        return self.names == other.names and all(
            self.options(name) == other.options(name) for name in self.names
        )

    def resolved(self) -> ModelSettings:
        """The same settings with the options of every model in use filled in."""
        filled = {
            name.replace("-", "_"): self.options(name) for name in self.names if name in BUILT_IN_OPTIONS
        }
        return self.model_copy(update=filled)

    def plain(self) -> dict[str, Any]:
        """Name and options as plain JSON types, without models that are not in use."""
        return {key: value for key, value in self.model_dump(mode="json").items() if value is not None}


BUILT_IN_OPTIONS: dict[str, type[Group]] = {
    "label-propagation": LabelPropagationOptions,
    "rrea": RreaOptions,
    "dual-amn": DualAmnOptions,
    "gcn-align": GcnAlignOptions,
}


class LastModelSettings(ModelSettings):
    """Another model for the end of a run, trained on the pseudo-seeds that the first model found."""

    group: ClassVar[str] = "last_model"

    name: str = "label-propagation+rrea+dual-amn"
    """Name of the model, as for model.name."""
    iterations: int = Field(default=0, ge=0, le=1000)
    """How many of the last iterations use this model; 0 for none. Confidence needs at least 2."""
