"""Settings as HTML for notebooks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from divea.config.group import flattened
from divea.html_text import folded, table

if TYPE_CHECKING:
    from divea.config.settings import Settings

MAIN = (
    "subtasks",
    "size",
    "iterations",
    "random_seed",
    "features.name",
    "division.name",
    "model.name",
    "matching.method",
    "confidence.min_confidence",
    "confidence.precision",
)
"""The settings that are always shown; the others are folded unless they were given."""


def as_html(settings: Settings) -> str:
    """The main settings and those that were given, and below them, folded, all that are in use."""
    used = flattened(settings.in_use())
    shown = {path: used[path] for path in MAIN if path in used} | flattened(settings.given())
    return _table(shown, "Settings") + folded(f"all {len(used)} settings in use", _table(used))


def _table(values: Mapping[str, Any], caption: str = "") -> str:
    rows = [(path, json.dumps(value, ensure_ascii=False)) for path, value in values.items()]
    return table(["setting", "value"], rows, caption)
