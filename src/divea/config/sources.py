"""Where settings come from: files, assignments such as `model.rrea.steps=60`, and how they combine."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from divea.errors import InputError
from divea.yaml_text import parse_yaml

_NAMED = ("model", "last_model")
_FIELD_OF_BARE_NAME = {
    "model": "name",
    "last_model": "name",
    "division": "name",
    "features": "name",
    "matching": "method",
}
"""Groups that a bare name may stand for, and the field that the name is."""
_DEPTH = 20
"""Settings may be nested this deep; none is deeper than four."""
_LARGEST_FILE = 1 << 16
"""Bytes of a file of settings. All settings together take less than a tenth of that."""


def combine_settings(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Nested values of several sources; a later source overrides an earlier one, setting by setting.

    A name may be a path. A source that names another model drops the options that earlier sources gave for
    models that are no longer in use.

    >>> combine_settings({"model": {"name": "rrea", "rrea": {"steps": 9}}}, {"model.rrea.steps": 60})
    {'model': {'name': 'rrea', 'rrea': {'steps': 60}}}
    >>> combine_settings({"model": {"name": "rrea", "rrea": {"steps": 9}}}, {"model": "dual-amn"})
    {'model': {'name': 'dual-amn'}}
    >>> combine_settings({"features.encoder.model": "my-encoder"})
    {'features': {'encoder': {'model': 'my-encoder'}}}
    """
    combined: dict[str, Any] = {}
    for source in sources:
        nested = _nested(source)
        for group in _NAMED:
            _drop_unused_options(combined, nested, group)
        combined = _merged(combined, nested)
    return combined


def _nested(flat: Mapping[str, Any], depth: int = 1) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for path, value in flat.items():
        first, *rest = str(path).split(".")
        if depth + len(rest) > _DEPTH:
            raise InputError(f"{first}: settings are nested more than {_DEPTH} deep")
        for name in reversed(rest):
            value = {name: value}
        if isinstance(value, Mapping):
            value = _nested(value, depth + 1)
        elif depth == 1 and first in _FIELD_OF_BARE_NAME and isinstance(value, str):
            value = {_FIELD_OF_BARE_NAME[first]: value}
        nested = _merged(nested, {first: value})
    return nested


def _merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for name, value in second.items():
        old = merged.get(name)
        merged[name] = (
            _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def _drop_unused_options(combined: dict[str, Any], source: Mapping[str, Any], group: str) -> None:
    chosen, earlier = source.get(group), combined.get(group)
    if not isinstance(chosen, Mapping) or not isinstance(earlier, Mapping):
        return
    if chosen.get("iterations") == 0:
        # No last model: what an earlier source said about it is void.
        combined[group] = {}
        return
    if not isinstance(chosen.get("name"), str):
        return
    models = chosen["name"].split("+")
    kept = {key: value for key, value in earlier.items() if not isinstance(value, Mapping) or key in models}
    combined[group] = kept


def parse_assignment(text: str) -> tuple[str, Any]:
    """A setting as the command line gives it; the value is JSON, a number or a string.

    >>> parse_assignment("model.rrea.steps=60"), parse_assignment("model.rrea.loss=hard")
    (('model.rrea.steps', 60), ('model.rrea.loss', 'hard'))
    >>> parse_assignment("division.delta1=.5")  # not JSON, but what people write
    ('division.delta1', 0.5)
    """
    path, equals, value = text.partition("=")
    if not equals or not path:
        raise InputError(f"expected PATH=VALUE, as in model.rrea.steps=60; found {text!r}")
    for read in (json.loads, float):
        with suppress(ValueError, RecursionError):
            return path, read(value)
    return path, value


def read_settings_file(path: str | Path) -> dict[str, Any]:
    """The settings of a JSON, YAML or TOML file, as the file's name says."""
    from divea.io import require_regular, usable_path

    path, yaml = usable_path(path), partial(parse_yaml, typed=True)
    readers: dict[str, Callable[[str], Any]] = {
        ".json": json.loads,
        ".toml": tomllib.loads,
        ".yaml": yaml,
        ".yml": yaml,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InputError("cannot tell the format: use .json, .yaml or .toml", path=path)
    try:
        require_regular(path)
        if path.stat().st_size > _LARGEST_FILE:
            raise InputError(f"is no file of settings: it has more than {_LARGEST_FILE} bytes", path=path)
        found = reader(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"cannot be read as {path.suffix[1:].upper()}: {error}", path=path) from None
    if not isinstance(found, dict):
        raise InputError("expected an object of settings by name", path=path)
    return found
