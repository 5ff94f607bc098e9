"""Components that are chosen by name, and where each one lives.

The command line, the settings, error messages and the docs all use these names. Listing names imports
nothing: a component's module is imported when the component is first asked for. Other packages add their
own components by entry points, for example in their `pyproject.toml`:

    [project.entry-points."divea.models"]
    my-model = "my_package.model:MyModel"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from divea.errors import InputError


@dataclass(frozen=True)
class Registry:
    """One kind of component: the built-in ones, and those of installed plug-ins.

    >>> MODELS.names()[:4]
    ['label-propagation', 'rrea', 'dual-amn', 'gcn-align']
    """

    kind: str
    """What error messages call it."""
    group: str
    """The entry-point group that plug-ins use."""
    built_in: Mapping[str, str]
    """Name -> "module:attribute"."""

    def names(self) -> list[str]:
        """Every known name, built-in ones first."""
        plugins = sorted(point.name for point in entry_points(group=self.group))
        return [*self.built_in, *(name for name in plugins if name not in self.built_in)]

    def load(self, name: str) -> Any:
        """Import the component of this name.

        >>> MODELS.load("transformer")
        Traceback (most recent call last):
        ...
        divea.errors.InputError: unknown model 'transformer'; choose from label-propagation, rrea, dual-amn, \
gcn-align
        """
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return getattr(import_module(module), attribute)
        for point in entry_points(group=self.group, name=name):
            return point.load()
        raise InputError(f"unknown {self.kind} {name!r}; choose from {', '.join(self.names())}")


MODELS = Registry(
    "model",
    "divea.models",
    {
        "label-propagation": "divea.models.label_propagation:LabelPropagation",
        "rrea": "divea.models.rrea:Rrea",
        "dual-amn": "divea.models.dual_amn:DualAmn",
        "gcn-align": "divea.models.gcn_align:GcnAlign",
    },
)

FEATURES = Registry(
    "feature",
    "divea.features",
    {
        "names": "divea.features.names:Names",
        "attributes": "divea.features.attributes:AttributeValues",
        "propagation": "divea.features.propagation:Propagation",
        "given": "divea.features.given:Given",
        "encoder": "divea.features.encoder:Encoder",
    },
)

DIVISIONS = Registry(
    "division",
    "divea.divisions",
    {
        "joint": "divea.division.joint:Joint",
        "divea": "divea.division.divea:DivEA",
        "random": "divea.division.divea:RandomGroups",
        "cps": "divea.division.rivals:CPS",
        "sbp": "divea.division.rivals:SBP",
        "isbp": "divea.division.rivals:ISBP",
        "whole": "divea.division.strategy:Whole",
    },
)

EXECUTORS = Registry(
    "executor",
    "divea.executors",
    {
        "inline": "divea.executors.inline:Inline",
        "local": "divea.executors.local:Local",
        "ray": "divea.executors.ray:Ray",
    },
)

LAYOUTS = Registry(
    "layout",
    "divea.layouts",
    {
        "jape": "divea.formats.jape:Jape",
        "openea": "divea.formats.openea:OpenEA",
        "parquet": "divea.formats.parquet_folder:ParquetFolder",
    },
)
"""Layouts of task folders, in the order in which a folder is tried."""
