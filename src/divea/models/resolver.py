"""Models by name: ours, and those that other packages offer as entry points `divea.models`.

Listing names loads nothing heavy; a model's module is imported when the model is asked for.
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from importlib.metadata import entry_points

from divea.errors import InputError
from divea.models.interface import Model

GROUP = "divea.models"

BUILT_IN = {
    "rrea": "divea.models.rrea:Rrea",
    "gcn-align": "divea.models.gcn_align:GcnAlign",
    "dual-amn": "divea.models.dual_amn:DualAmn",
    "label-propagation": "divea.models.label_propagation:LabelPropagation",
}


def model_names() -> list[str]:
    """Every name that `resolve_model` knows, ours first.

    >>> model_names()[:4]
    ['rrea', 'gcn-align', 'dual-amn', 'label-propagation']
    """
    offered = sorted(point.name for point in entry_points(group=GROUP))
    return [*BUILT_IN, *(name for name in offered if name not in BUILT_IN)]


def resolve_model(name: str, **options: object) -> Model:
    """The model of that name, with these of its options changed from their defaults.

    Names joined by `+` make an ensemble; its options are those of each model under the model's name.

    >>> resolve_model("rrea", steps=250).options.steps
    250
    >>> [model.options.steps for model in resolve_model("rrea+dual-amn", rrea={"steps": 20}).models]
    [20, 60]
    """
    if "+" in name:
        return _ensemble(name.split("+"), options)
    model = _load(name)
    if model.options_type is None:
        if options:
            raise InputError(f"model {name!r} takes no options")
        return model()
    known = [field.name for field in fields(model.options_type)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"model {name!r} has no option {unknown[0]!r}; it has {', '.join(known)}")
    return model(model.options_type(**options))  # type: ignore[call-arg]


def _ensemble(names: list[str], options: dict[str, object]) -> Model:
    from divea.models.ensemble import Ensemble

    unknown = sorted(set(options) - set(names))
    if unknown:
        raise InputError(
            f"options of an ensemble are named after its models, and {unknown[0]!r} is none of them"
        )
    for name, own in options.items():
        if not isinstance(own, dict):
            raise InputError(f"the options of {name!r} must be a dictionary, not {own!r}")
    return Ensemble([resolve_model(name, **options.get(name, {})) for name in names])  # type: ignore[arg-type]


def _load(name: str) -> type[Model]:
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        model: type[Model] = getattr(import_module(module), attribute)
        return model
    for point in entry_points(group=GROUP, name=name):
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, Model)):
            raise InputError(f"entry point {point.value!r} for model {name!r} is no divea.models.Model")
        return found
    raise InputError(f"unknown model {name!r}; choose from {', '.join(model_names())}")
