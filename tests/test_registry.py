"""Components are found by name: built-in ones, and those that other packages offer as entry points."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from divea import registry
from divea.division.strategy import Strategy
from divea.errors import InputError
from divea.executors.base import Executor
from divea.features import Feature
from divea.formats.layouts import Layout
from divea.models import Model
from divea.registry import DIVISIONS, EXECUTORS, FEATURES, LAYOUTS, MODELS

REGISTRIES = {registry.kind: registry for registry in (MODELS, FEATURES, DIVISIONS, EXECUTORS, LAYOUTS)}
each_registry = pytest.mark.parametrize("components", REGISTRIES.values(), ids=REGISTRIES)


def offer(monkeypatch, group, **components):
    """Pretend that an installed package offers these components, name="module:attribute"."""
    points = EntryPoints(EntryPoint(name, value, group) for name, value in components.items())
    monkeypatch.setattr(registry, "entry_points", points.select)


def test_the_built_in_names():
    assert MODELS.names() == ["label-propagation", "rrea", "dual-amn", "gcn-align"]
    assert FEATURES.names() == ["names", "attributes", "propagation", "given", "encoder"]
    assert DIVISIONS.names() == ["joint", "divea", "random", "cps", "sbp", "isbp", "whole"]
    assert EXECUTORS.names() == ["inline", "local", "ray"]
    assert LAYOUTS.names() == ["jape", "openea", "parquet"]


@pytest.mark.parametrize(
    ("components", "interface"),
    [(MODELS, Model), (FEATURES, Feature), (DIVISIONS, Strategy), (EXECUTORS, Executor)],
)
def test_every_built_in_component_is_of_its_interface(components, interface):
    for name in components.built_in:
        assert issubclass(components.load(name), interface), name


def test_every_built_in_layout_has_the_methods_of_a_layout():
    methods = [name for name in vars(Layout) if not name.startswith("_") and callable(vars(Layout)[name])]
    assert methods
    for name in LAYOUTS.built_in:
        assert all(callable(getattr(LAYOUTS.load(name), method)) for method in methods), name


@each_registry
def test_an_unknown_name_is_rejected_with_the_known_ones(components):
    with pytest.raises(InputError) as error:
        components.load("nonsense")
    known = ", ".join(components.names())
    assert str(error.value) == f"unknown {components.kind} 'nonsense'; choose from {known}"


@each_registry
def test_entry_points_add_components_after_the_built_in_ones(components, monkeypatch):
    offer(monkeypatch, components.group, second="json:dumps", first="json:loads")
    assert components.names() == [*components.built_in, "first", "second"]
    import json

    assert components.load("first") is json.loads
    with pytest.raises(InputError, match=r"choose from .*, first, second$"):
        components.load("third")


@each_registry
def test_entry_points_of_another_group_are_ignored(components, monkeypatch):
    offer(monkeypatch, "divea.something-else", first="json:loads")
    assert components.names() == list(components.built_in)
    with pytest.raises(InputError, match="unknown"):
        components.load("first")


@each_registry
def test_a_built_in_component_wins_over_an_entry_point_of_the_same_name(components, monkeypatch):
    name = next(iter(components.built_in))
    expected = components.load(name)
    offer(monkeypatch, components.group, **{name: "json:loads"})
    assert components.names() == list(components.built_in)
    assert components.load(name) is expected


def test_listing_names_imports_no_component():
    code = (
        "import sys; from divea.registry import DIVISIONS, EXECUTORS, FEATURES, LAYOUTS, MODELS; "
        "[kind.names() for kind in (DIVISIONS, EXECUTORS, FEATURES, LAYOUTS, MODELS)]; "
        "heavy = {'torch', 'numpy', 'pyarrow', 'divea.models', 'divea.division', 'divea.executors'}; "
        "sys.exit(bool(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
