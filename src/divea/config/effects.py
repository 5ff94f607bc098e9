"""Which settings have an effect in their combination.

A setting that was given and has no effect is refused; an unused default does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from divea.config.group import Group, public_name
from divea.config.models import ModelSettings
from divea.registry import FEATURES

if TYPE_CHECKING:
    from divea.config.settings import Settings

SIZED_DIVISIONS = ("joint", "divea", "random")
"""Built-in divisions that keep the size limit S and have the options of `division`."""

_UNSIZED_DIVISIONS = ("cps", "sbp", "isbp", "whole")


def given_paths(group: Group, prefix: str = "") -> list[str]:
    """The paths of all settings that were given.

    >>> from divea.config import DivisionSettings
    >>> given_paths(DivisionSettings(name="cps"))
    ['name']
    """
    paths = []
    for field in group.model_fields_set:
        name = prefix + public_name(type(group), field)
        value = getattr(group, field)
        paths += given_paths(value, f"{name}.") if isinstance(value, Group) else [name]
    return sorted(paths)


def without_effect(settings: Settings, paths: Iterable[str] | None = None) -> Iterator[tuple[str, str]]:
    """Each setting that has no effect, with the reason: among these paths, or among the given settings."""
    for path in given_paths(settings) if paths is None else paths:
        for reason in _reasons(settings, path):
            yield path, reason


def with_effect(settings: Settings, values: dict[str, Any]) -> dict[str, Any]:
    """Nested values of the settings without those that have no effect.

    >>> from divea.config import Settings
    >>> with_effect(Settings(), {"iterations": 3, "division": {"alpha": 0.9}})
    {'iterations': 3}
    """
    unused = {path for path, _ in without_effect(settings, leaf_paths(values))}
    return _without(values, unused)


def leaf_paths(values: dict[str, Any], prefix: str = "") -> list[str]:
    """The paths of all values that are not groups.

    >>> leaf_paths({"subtasks": 5, "model": {"name": "rrea"}})
    ['subtasks', 'model.name']
    """
    paths = []
    for name, value in values.items():
        paths += leaf_paths(value, f"{prefix}{name}.") if isinstance(value, dict) else [prefix + name]
    return paths


def _without(values: dict[str, Any], paths: set[str], prefix: str = "") -> dict[str, Any]:
    """The values without these paths, and without groups that they leave empty."""
    kept: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            value = _without(value, paths, f"{prefix}{name}.") or None
            if value is None:
                continue
        if prefix + name not in paths:
            kept[name] = value
    return kept


def _reasons(settings: Settings, path: str) -> Iterator[str]:
    first, _, rest = path.partition(".")
    if first == "size" or first == "division":
        yield from _of_division(settings, path)
    elif first == "subtasks":
        if settings.division.name == "whole" and settings.subtasks not in (None, 1):
            yield "division.name is 'whole', which is one subtask"
    elif first in ("model", "last_model"):
        yield from _of_model(settings, first, rest)
    elif first == "matching":
        if settings.iterations == 1 and rest in ("threshold", "average"):
            yield "it counts from the second iteration on, and iterations is 1"
    elif first == "confidence":
        yield from _of_confidence(settings, rest)
    elif first == "features":
        yield from _of_features(settings, rest)


def _of_division(settings: Settings, path: str) -> Iterator[str]:
    division, option = settings.division, path.removeprefix("division.")
    if option == "name":
        if settings.subtasks == 1 and division.name != "whole":
            yield "subtasks is 1, which is the whole graph"
        return
    if settings.subtasks == 1:
        yield "subtasks is 1, so nothing is divided"
    if division.name in _UNSIZED_DIVISIONS:
        yield f"division.name is {division.name!r}, which has no such option"
    if option == "partitioner" and division.name == "random":
        yield "division.name is 'random', which is a partitioner of its own"
    if option in ("alpha", "beta", "nearest") and division.name == "joint":
        yield "division.name is 'joint', which uses no similarity weights"
    if option in ("alpha", "beta") and division.nearest == 0:
        yield "division.nearest is 0, so there are no similarity weights"
    if option in ("alpha", "nearest") and division.beta == 0:
        yield "division.beta is 0, so similarity weights do not count"
    if option in ("alpha", "beta", "nearest") and settings.iterations == 1:
        yield "similarity weights count from the second iteration on, and iterations is 1"


def _of_model(settings: Settings, group: str, rest: str) -> Iterator[str]:
    model: ModelSettings = getattr(settings, group)
    name, _, option = rest.partition(".")
    if rest == "iterations":
        return
    if group == "last_model" and settings.last_model.iterations == 0:
        yield "last_model.iterations is 0, so there is no last model"
    elif rest != "name" and name not in model.names:
        yield f"{group}.name is {model.name!r}"
    elif name == "rrea" and model.rrea is not None and option in _OF_THE_OTHER_LOSS[model.rrea.loss]:
        yield f"{group}.rrea.loss is {model.rrea.loss!r}"
    elif name == "label-propagation" and option in ("draft_heads", "threshold"):
        yield from [f"{group}.label-propagation.rounds is 1"] if model.options(name).rounds == 1 else []


_OF_THE_OTHER_LOSS = {
    "hard": ("margin",),
    "margin": ("batch", "hard_margin", "hard_scale", "hard_shift"),
}
"""Options of RREA that have no effect with this loss."""


_FEATURES_WITH = {
    "nearest": ("names", "attributes"),
    "names": ("names", "encoder"),
    "given": ("given",),
    "encoder": ("encoder",),
}
"""Built-in features that have each option of `features`."""


def _of_features(settings: Settings, rest: str) -> Iterator[str]:
    option, features = rest.partition(".")[0], settings.features
    if option == "name" or any(name in _FEATURES_WITH[option] for name in features.used):
        return
    # A plug-in gets the settings of all features and may use any of them.
    if all(name in FEATURES.built_in for name in features.used):
        yield f"features.name is {features.name!r}"


def conflicts(settings: Settings) -> Iterator[str]:
    """Combinations of settings that cannot be run, one sentence each."""
    last, iterations = settings.last_model.iterations, settings.iterations
    if settings.confidence.folds == 1:
        yield "confidence.folds: expected 0, or at least 2; found 1"
    if last > 0 and last >= iterations:
        yield (
            f"last_model.iterations: expected at most iterations - 1, which is {iterations - 1}, because the "
            f"first iteration never has the last model; found {last}"
        )
    elif last == 1 and settings.calibrates:
        yield (
            "last_model.iterations: expected 0, or at least 2, because confidence is calibrated one "
            "iteration before the last, with the same model; found 1 (or set confidence.held_back to 0)"
        )
    yield from _missing_options_of_features(settings)


def _missing_options_of_features(settings: Settings) -> Iterator[str]:
    features = settings.features
    reason = f"because features.name is {features.name!r}"
    for side in ("source", "target"):
        if "given" in features.used and getattr(features.given, side) is None:
            yield f"features.given.{side}: expected a file of vectors, {reason}"
    if "encoder" in features.used and features.encoder.model is None:
        yield f"features.encoder.model: expected a model, {reason}"


def _of_confidence(settings: Settings, option: str) -> Iterator[str]:
    confidence = settings.confidence
    if option == "held_back":
        if confidence.folds:
            yield "confidence.folds takes its place"
        elif confidence.held_back > 0 and settings.iterations == 1 and not confidence.has_threshold:
            yield "to hold seeds back takes two iterations, and iterations is 1"
        return
    if option == "folds" or getattr(confidence, option) is None:
        return
    if confidence.folds == 0 and settings.iterations == 1:
        yield "iterations is 1 and confidence.folds is 0, so no confidence is calibrated"
    elif not confidence.folds and confidence.held_back == 0:
        yield "confidence.held_back is 0, so no confidence is calibrated"
    elif option == "min_confidence" and confidence.precision is not None:
        yield "confidence.precision takes its place"
