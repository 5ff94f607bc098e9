"""Models are made from settings: built-in ones, ensembles and plug-ins with their own options."""

import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints

import pydantic
import pytest

from divea import registry
from divea.config import ModelSettings, RreaOptions
from divea.errors import InputError
from divea.models import Model, make_model
from divea.models.ensemble import Ensemble
from divea.models.label_propagation import LabelPropagation
from divea.models.rrea import Rrea
from divea.registry import MODELS


@dataclass(frozen=True)
class DataclassOptions:
    hops: int = 3
    weight: float = 0.5


class PydanticOptions(pydantic.BaseModel):
    hops: int = pydantic.Field(default=3, ge=1)


class WithoutOptions(LabelPropagation):
    options_type = None

    def __init__(self):
        super().__init__()


class WithDataclass(LabelPropagation):
    options_type = DataclassOptions

    def __init__(self, options):
        super().__init__()
        self.options = options


class WithPydantic(WithDataclass):
    options_type = PydanticOptions


NOT_A_CLASS = "a string"


@pytest.fixture
def plug_ins(monkeypatch):
    """Offers the classes above as entry points, and one model under the name of a built-in one."""
    names = {
        "plain": "WithoutOptions",
        "with-dataclass": "WithDataclass",
        "with-pydantic": "WithPydantic",
        "options-class": "DataclassOptions",
        "string": "NOT_A_CLASS",
        "rrea": "WithoutOptions",
    }
    points = EntryPoints(
        EntryPoint(name, f"{__name__}:{attribute}", "divea.models") for name, attribute in names.items()
    )
    monkeypatch.setattr(registry, "entry_points", points.select)


def make(name, options=None):
    return make_model(ModelSettings.checked({"name": name, **({} if options is None else {name: options})}))


@pytest.mark.parametrize("name", MODELS.names())
def test_every_built_in_model_is_made_with_its_defaults(name):
    model = make(name)
    assert isinstance(model, Model)
    assert model.options == model.options_type()


def test_options_are_set():
    assert make("label-propagation", {"rounds": 2}).options.rounds == 2
    assert make("rrea", {"loss": "hard"}).options == RreaOptions(loss="hard")


def test_unknown_options_and_names_are_rejected():
    with pytest.raises(InputError, match=r"rrea\.epochs: unknown setting; .*rrea has dimensions, layers"):
        make("rrea", {"epochs": 3})
    with pytest.raises(InputError, match=r"unknown model 'rea'; choose from label-propagation, rrea"):
        make("rea")


def test_names_joined_by_plus_make_an_ensemble():
    model = make_model(
        ModelSettings.checked({"name": "label-propagation+rrea", "label-propagation": {"rounds": 1}})
    )
    assert isinstance(model, Ensemble)
    first, second = model.models
    assert isinstance(first, LabelPropagation) and first.options.rounds == 1
    assert isinstance(second, Rrea) and second.options == RreaOptions()


@pytest.mark.usefixtures("plug_ins")
def test_a_plug_in_without_options():
    assert isinstance(make("plain"), WithoutOptions)
    with pytest.raises(InputError, match=r"model\.plain: this model has no options"):
        make("plain", {"hops": 3})


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize("value", ["options-class", "string"])
def test_a_plug_in_that_is_not_a_model_is_rejected(value):
    with pytest.raises(InputError, match=rf"the plug-in model '{value}' is not a divea\.models\.Model"):
        make(value)


@pytest.mark.usefixtures("plug_ins")
def test_a_built_in_name_wins_over_a_plug_in():
    assert isinstance(make("rrea"), Rrea)


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("with-dataclass", None, DataclassOptions()),
        ("with-dataclass", {"hops": 5}, DataclassOptions(hops=5)),
        ("with-pydantic", None, PydanticOptions()),
        ("with-pydantic", {"hops": 5}, PydanticOptions(hops=5)),
    ],
)
def test_options_of_a_plug_in_become_its_own_class(name, options, expected):
    assert make(name, options).options == expected


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "with-dataclass",
            {"steps": 5},
            r"model\.with-dataclass\.steps: unknown setting; model\.with-dataclass has hops, weight$",
        ),
        ("with-dataclass", {"hops": "5"}, r"model\.with-dataclass\.hops: .* valid integer; found '5'$"),
        (
            "with-pydantic",
            {"steps": 5},
            r"model\.with-pydantic\.steps: unknown setting; model\.with-pydantic has hops$",
        ),
        (
            "with-pydantic",
            {"hops": 0},
            r"model\.with-pydantic\.hops: .* greater than or equal to 1; found 0$",
        ),
        ("with-pydantic", {"hops": "5"}, r"model\.with-pydantic\.hops: .* valid integer; found '5'$"),
        ("with-pydantic", 5, r"the options of 'with-pydantic' are a group of settings, not 5$"),
    ],
)
def test_options_of_a_plug_in_are_checked_by_its_own_class(name, options, message):
    with pytest.raises(InputError, match=message):
        make(name, options)


def exit_code(code):
    return subprocess.run([sys.executable, "-c", code], check=False).returncode


@pytest.mark.parametrize(
    "statement",
    [
        "import divea",
        "from divea.registry import MODELS; MODELS.names()",
        "from divea.config import ModelSettings; ModelSettings(name='rrea').options('rrea')",
        "import divea.evaluation",
    ],
)
def test_torch_is_not_imported_before_it_is_needed(statement):
    assert exit_code(f"import sys; {statement}; sys.exit('torch' in sys.modules)") == 0


def test_code_that_predicts_does_not_import_evaluation():
    assert (
        exit_code(
            "import sys, divea.matching; from divea.config import ModelSettings; "
            "from divea.models import make_model; from divea.registry import MODELS; "
            "[make_model(ModelSettings(name=name)) for name in MODELS.names()]; "
            "sys.exit('divea.evaluation' in sys.modules)"
        )
        == 0
    )
