"""Models by name, options by name, and nothing heavy loaded before it is needed."""

import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from divea.errors import InputError
from divea.models import Model, model_names, resolve_model, resolver
from divea.models.label_propagation import LabelPropagation


def test_every_name_resolves_to_a_model_with_defaults():
    for name in model_names():
        model = resolve_model(name)
        assert isinstance(model, Model)
        assert model.options == model.options_type()


def test_options_are_set_and_unknown_ones_refused():
    assert resolve_model("label-propagation", rounds=2).options.rounds == 2
    with pytest.raises(InputError, match=r"model 'rrea' has no option 'epochs'; it has dimensions, layers"):
        resolve_model("rrea", epochs=3)
    with pytest.raises(InputError, match=r"unknown model 'rea'; choose from rrea, gcn-align"):
        resolve_model("rea")


def test_other_packages_offer_models_by_entry_point(monkeypatch):
    ours = EntryPoint("theirs", "divea.models.label_propagation:LabelPropagation", "divea.models")
    broken = EntryPoint("broken", "divea.errors:InputError", "divea.models")
    clash = EntryPoint("rrea", "divea.models.label_propagation:LabelPropagation", "divea.models")

    def offered(**wanted):
        return EntryPoints([ours, broken, clash]).select(**wanted)

    monkeypatch.setattr(resolver, "entry_points", offered)
    assert model_names() == [*resolver.BUILT_IN, "broken", "theirs"]
    assert isinstance(resolve_model("theirs"), LabelPropagation)
    assert not isinstance(resolve_model("rrea"), LabelPropagation)
    with pytest.raises(InputError, match=r"is no divea\.models\.Model"):
        resolve_model("broken")


@pytest.mark.parametrize(
    "statement",
    ["import divea", "from divea.models import model_names; model_names()", "import divea.evaluation"],
)
def test_torch_is_not_loaded_before_it_is_needed(statement):
    code = f"import sys; {statement}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_what_predicts_does_not_import_evaluation():
    code = (
        "import sys, divea.matching; from divea.models import *; "
        "[resolve_model(name) for name in model_names()]; sys.exit('divea.evaluation' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
