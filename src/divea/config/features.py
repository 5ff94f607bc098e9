"""Settings of the features: which ones a run uses, and the options of the built-in ones."""

from __future__ import annotations

from pydantic import Field, field_validator

from divea.config.group import Group, NamedGroup
from divea.registry import FEATURES


class NamesOptions(Group):
    """Where names come from."""

    source: str | None = None
    """Property that names the source entities; null: found among the literals, else the ends of IRIs."""
    target: str | None = None
    """Property that names the target entities; null: as for the source."""


class GivenOptions(Group):
    """Vectors that were computed elsewhere."""

    source: str | None = None
    """File of the source vectors: Parquet (entity, vector), or npy with labels in a .txt file beside it."""
    target: str | None = None
    """File of the target vectors."""


class EncoderOptions(Group):
    """A text encoder (`pip install divea[text]`)."""

    model: str | None = None
    """A sentence-transformers model: a folder, or the name of a model on the Hugging Face hub."""


class FeatureSettings(NamedGroup):
    """Which features a run uses, and their options."""

    name: str = "names+attributes"
    """names, attributes, propagation, given and encoder, joined by +; none for structure alone.

    A feature that a task has no data for, such as names in graphs without names, is left out with a note in
    the log.
    """
    nearest: int = Field(default=50, ge=1, le=1000)
    """Number of most similar entities of the other graph that names and attributes keep for each entity."""
    names: NamesOptions = NamesOptions()
    given: GivenOptions = GivenOptions()
    encoder: EncoderOptions = EncoderOptions()

    @property
    def used(self) -> list[str]:
        """The features that are named.

        >>> FeatureSettings(name="names+propagation").used, FeatureSettings(name="none").used
        (['names', 'propagation'], [])
        """
        return [] if self.name == "none" else self.name.split("+")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        used = [] if name == "none" else name.split("+")
        for item in used:
            if item not in FEATURES.names():
                raise ValueError(f"unknown feature {item!r}; choose from {', '.join(FEATURES.names())}")
        if len(set(used)) < len(used):
            raise ValueError("a feature is named twice")
        return name
