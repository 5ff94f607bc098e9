"""Names as a user gives them for each graph: a file, a table, or the property that names its entities."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from divea.config.effects import without_effect
from divea.config.settings import Settings
from divea.errors import InputError
from divea.io import usable_path

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class GivenNames:
    """The names of both graphs: for each, a file, a table, a property, or nothing."""

    source_table: Path | pa.Table | None = None
    """A file or table with the columns entity and name."""
    target_table: Path | pa.Table | None = None
    source_property: str | None = None
    target_property: str | None = None

    @classmethod
    def of(cls, source: str | Path | pa.Table | None, target: str | Path | pa.Table | None) -> GivenNames:
        """Names from arguments of `divea.align` or options of `divea align`.

        A path that exists is a file; other text that contains `://` or starts with `urn:` is a property.
        Raises InputError if a text is neither.

        >>> GivenNames.of(None, "http://xmlns.com/foaf/0.1/name").settings
        {'features.names.target': 'http://xmlns.com/foaf/0.1/name'}
        """
        source_table, source_property = _table_or_property("source", source)
        target_table, target_property = _table_or_property("target", target)
        return cls(source_table, target_table, source_property, target_property)

    @property
    def settings(self) -> dict[str, str]:
        """The settings of the properties, by path."""
        properties = {"source": self.source_property, "target": self.target_property}
        return {f"features.names.{side}": name for side, name in properties.items() if name is not None}

    @property
    def tables(self) -> tuple[Path | pa.Table | None, Path | pa.Table | None]:
        """The files or tables of the source and of the target."""
        return self.source_table, self.target_table

    def require_effect(self, settings: Settings) -> None:
        """Raise InputError if the settings do not use the names of a file or table."""
        for side, table in zip(("source", "target"), self.tables, strict=True):
            if table is None:
                continue
            path = table if isinstance(table, Path) else f"{side}_names"
            for _, reason in without_effect(settings, [f"features.names.{side}"]):
                raise InputError(f"these names have no effect: {reason}", path=path)
            if (name := getattr(settings.features.names, side)) is not None:
                reason = f"features.names.{side} is {name!r}"
                raise InputError(f"these names have no effect: {reason}", path=path)


def _table_or_property(
    side: str, given: str | Path | pa.Table | None
) -> tuple[Path | pa.Table | None, str | None]:
    if given is None or not isinstance(given, str | Path):
        return given, None
    path = usable_path(given)
    if isinstance(given, Path) or os.path.lexists(path):
        return path, None
    if "://" in given or given.startswith("urn:"):
        return None, given
    raise InputError(
        f"names of the {side}: expected a file or a property; there is no file {given!r}, and the property "
        f"would be an IRI with :// or urn: (set features.names.{side} for one that is no IRI)"
    )
