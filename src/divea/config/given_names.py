"""Names as a user gives them for each graph: a file, or the property that names its entities."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from divea.config.effects import without_effect
from divea.config.settings import Settings
from divea.errors import InputError
from divea.io import usable_path


@dataclass(frozen=True)
class GivenNames:
    """The names of both graphs: of each a file, a property, or neither."""

    source_file: Path | None = None
    target_file: Path | None = None
    source_property: str | None = None
    target_property: str | None = None

    @classmethod
    def of(cls, source: str | Path | None, target: str | Path | None) -> GivenNames:
        """Names from arguments of `divea.align` or options of `divea align`.

        A path that exists is a file; other text with `://` or at the start `urn:` is a property. Raises
        InputError if an argument is neither.

        >>> GivenNames.of(None, "http://xmlns.com/foaf/0.1/name").settings
        {'features.names.target': 'http://xmlns.com/foaf/0.1/name'}
        """
        source_file, source_property = _file_or_property("source", source)
        target_file, target_property = _file_or_property("target", target)
        return cls(source_file, target_file, source_property, target_property)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the properties, by path."""
        properties = {"source": self.source_property, "target": self.target_property}
        return {f"features.names.{side}": name for side, name in properties.items() if name is not None}

    @property
    def files(self) -> tuple[Path | None, Path | None]:
        """The files of the source and of the target."""
        return self.source_file, self.target_file

    def require_effect(self, settings: Settings) -> None:
        """Raise InputError if the settings do not use the names of a file."""
        for side, file in zip(("source", "target"), self.files, strict=True):
            if file is None:
                continue
            for _, reason in without_effect(settings, [f"features.names.{side}"]):
                raise InputError(f"these names have no effect: {reason}", path=file)
            if (name := getattr(settings.features.names, side)) is not None:
                reason = f"features.names.{side} is {name!r}"
                raise InputError(f"these names have no effect: {reason}", path=file)


def _file_or_property(side: str, given: str | Path | None) -> tuple[Path | None, str | None]:
    if given is None:
        return None, None
    path = usable_path(given)
    if isinstance(given, Path) or os.path.lexists(path):
        return path, None
    if "://" in given or given.startswith("urn:"):
        return None, given
    raise InputError(
        f"names of the {side}: expected a file or a property; there is no file {given!r}, and the property "
        f"would be an IRI with :// or urn: (set features.names.{side} for one that is no IRI)"
    )
