"""Every wrong setting is refused in one line, in Python, on the command line and in a file alike."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

import divea as divea_package
from divea.config import ModelSettings, Settings
from divea.errors import InputError
from divea.formats import write_task
from divea.graphs.planted import planted_pair
from divea.models import make_model
from tests.command_line import divea

NAN, INFINITY = float("nan"), float("inf")


@dataclass(frozen=True)
class Wrong:
    """Settings that are refused, and how the message starts: with the path of the wrong setting."""

    settings: Mapping[str, Any]
    message: str
    preset: str | None = None
    ways: tuple[str, ...] = ("python", "set", "config")
    """How these settings can be given."""

    def __str__(self) -> str:
        return f"{self.preset or ''}{dict(self.settings)}"[:60]


RREA, HARD = {"model": "rrea"}, {"model": "rrea", "model.rrea.loss": "hard"}
LAST_RREA = {"last_model.name": "rrea", "last_model.iterations": 2}
ONE_ROUND = {"model.label-propagation.rounds": 1}

UNKNOWN_NAMES = [
    Wrong({"modle": "rrea"}, "modle: unknown setting; did you mean 'model'? there are"),
    Wrong({"quality": 5}, "quality: unknown setting; there are"),
    Wrong({"quality.level": 5}, "quality: unknown setting; there are"),
    Wrong({"steps": 5}, "steps: unknown setting; did you mean 'model.rrea.steps'? there are"),
    Wrong({"alpha": 0.5}, "alpha: unknown setting; did you mean 'division.alpha'? there are"),
    Wrong({"supervised": True}, "supervised: unknown setting; there are"),
    Wrong({"division.delta3": 0.5}, "division.delta3: unknown setting; did you mean 'delta2'? division has"),
    Wrong({"division.evidence.power": 2}, "division.evidence.power: unknown setting; division.evidence has"),
    Wrong({"matching.avrage": 2}, "matching.avrage: unknown setting; did you mean 'average'? matching has"),
    Wrong({"confidence.recall": 0.9}, "confidence.recall: unknown setting; confidence has"),
    Wrong({"features.neighbours": 5}, "features.neighbours: unknown setting; features has name"),
    Wrong({"features.names.both": "x"}, "features.names.both: unknown setting; features.names has source"),
    Wrong({"output.format": "tsv"}, "output.format: unknown setting; output has"),
    Wrong({"model.nmae": "rrea"}, "model.nmae: unknown setting; did you mean 'name'? model has name"),
    Wrong({"model.transformer.layers": 2}, "model.transformer: unknown setting; model has name"),
    Wrong(
        {**RREA, "model.rrea.stpes": 5},
        "model.rrea.stpes: unknown setting; did you mean 'steps'? model.rrea has",
    ),
    Wrong(
        {"model.label-propagation.label": 5},
        "model.label-propagation.label: unknown setting; did you mean 'labels'? model.label-propagation has",
    ),
    Wrong({"last_model.depth": 2}, "last_model.depth: unknown setting; last_model has name"),
    Wrong(
        {**LAST_RREA, "last_model.rrea.stpes": 5},
        "last_model.rrea.stpes: unknown setting; did you mean 'steps'? last_model.rrea has",
    ),
]

WRONG_TYPES = [
    Wrong({"subtasks": "5"}, "subtasks: expected an integer from 1 to 10000000, or null; found '5'"),
    Wrong({"subtasks": True}, "subtasks: expected an integer from 1 to 10000000, or null; found true"),
    Wrong({"subtasks": 5.0}, "subtasks: expected an integer from 1 to 10000000, or null; found 5.0"),
    Wrong({"subtasks": [5]}, "subtasks: expected an integer from 1 to 10000000, or null; found [5]"),
    Wrong(
        {"subtasks.number": 5},
        "subtasks: expected an integer from 1 to 10000000, or null; found {'number': 5}",
    ),
    Wrong({"iterations": None}, "iterations: expected an integer from 1 to 1000; found null"),
    Wrong(
        {"random_seed": "zero"},
        "random_seed: expected an integer, at least 0, below 2147483648; found 'zero'",
    ),
    Wrong({"output.one_to_one": 1}, "output.one_to_one: expected true or false; found 1"),
    Wrong({"output.one_to_one": "yes"}, "output.one_to_one: expected true or false; found 'yes'"),
    Wrong(
        {"matching.threshold": "high"}, "matching.threshold: expected a number from -10 to 10; found 'high'"
    ),
    Wrong({"matching.threshold": None}, "matching.threshold: expected a number from -10 to 10; found null"),
    Wrong(
        {"division.delta1": "half"},
        "division.delta1: expected a number, above 0, below 1, or null; found 'half'",
    ),
    Wrong(
        {"division.delta1.of": 0.5},
        "division.delta1: expected a number, above 0, below 1, or null; found {'of': 0.5}",
    ),
    Wrong({"division": None}, "division: expected a group of settings; found null"),
    Wrong({"division": ["joint"]}, "division: expected a group of settings; found ['joint']"),
    Wrong({"division.evidence": None}, "division.evidence: expected a group of settings; found null"),
    Wrong({"division.evidence": 3}, "division.evidence: expected a group of settings; found 3"),
    Wrong({"model": None}, "model: expected a group of settings; found null"),
    Wrong({"model": 3}, "model: expected a group of settings; found 3"),
    Wrong({"model.name": ["rrea"]}, "model.name: expected a string; found ['rrea']"),
    Wrong({**RREA, "model.rrea": [60]}, "model.rrea: expected a group of settings; found [60]"),
    Wrong(
        {**RREA, "model.rrea.steps": "60"},
        "model.rrea.steps: expected an integer from 1 to 1000000; found '60'",
    ),
    Wrong({"last_model": ["rrea"]}, "last_model: expected a group of settings; found ['rrea']"),
    Wrong({"features": 3}, "features: expected a group of settings; found 3"),
    Wrong({"features": None}, "features: expected a group of settings; found null"),
    Wrong({"features.name": ["names"]}, "features.name: expected a string; found ['names']"),
    Wrong({"features.names": "label"}, "features.names: expected a group of settings; found 'label'"),
    Wrong({"features.names.source": 3}, "features.names.source: expected a string, or null; found 3"),
    Wrong({"matching": 3}, "matching: expected a group of settings; found 3"),
    Wrong({"confidence": "high"}, "confidence: expected a group of settings; found 'high'"),
    Wrong({"confidence": None}, "confidence: expected a group of settings; found null"),
    Wrong({"output": []}, "output: expected a group of settings; found []"),
]

OUT_OF_RANGE = [
    Wrong({"subtasks": 0}, "subtasks: expected an integer from 1 to 10000000, or null; found 0"),
    Wrong(
        {"subtasks": 10**30},
        "subtasks: expected an integer from 1 to 10000000, or null; found 1000000000000000000000000000000",
    ),
    Wrong({"size": 1}, "size: expected an integer from 2 to 1099511627776, or null; found 1"),
    Wrong(
        {"size": 10**30},
        "size: expected an integer from 2 to 1099511627776, or null; found 1000000000000000000000000000000",
    ),
    Wrong({"iterations": 0}, "iterations: expected an integer from 1 to 1000; found 0"),
    Wrong({"iterations": 10**9}, "iterations: expected an integer from 1 to 1000; found 1000000000"),
    Wrong({"random_seed": -1}, "random_seed: expected an integer, at least 0, below 2147483648; found -1"),
    Wrong(
        {"random_seed": 1 << 31},
        "random_seed: expected an integer, at least 0, below 2147483648; found 2147483648",
    ),
    Wrong({"division.delta1": 0}, "division.delta1: expected a number, above 0, below 1, or null; found 0"),
    Wrong({"division.delta1": 2}, "division.delta1: expected a number, above 0, below 1, or null; found 2"),
    Wrong({"division.delta2": 1.0}, "division.delta2: expected a number, at least 0, below 1; found 1.0"),
    Wrong(
        {"division.evidence.strength": 0},
        "division.evidence.strength: expected a number, above 0, at most 1000; found 0",
    ),
    Wrong(
        {"division.evidence.layers": 17},
        "division.evidence.layers: expected an integer from 1 to 16; found 17",
    ),
    Wrong({"matching.threshold": 11}, "matching.threshold: expected a number from -10 to 10; found 11"),
    Wrong({"matching.average": 0}, "matching.average: expected an integer from 1 to 1000; found 0"),
    Wrong(
        {"confidence.held_back": 1.0},
        "confidence.held_back: expected a number, at least 0, below 1; found 1.0",
    ),
    Wrong({"confidence.folds": 1}, "confidence.folds: expected 0, or at least 2; found 1"),
    Wrong(
        {"confidence.folds": 101}, "confidence.folds: expected an integer from 0 to 100, or null; found 101"
    ),
    Wrong(
        {"confidence.min_confidence": 1.5},
        "confidence.min_confidence: expected a number from 0 to 1, or null; found 1.5",
    ),
    Wrong(
        {"confidence.precision": 1.0},
        "confidence.precision: expected a number, above 0, below 1, or null; found 1.0",
    ),
    Wrong({"features.nearest": 0}, "features.nearest: expected an integer from 1 to 1000; found 0"),
    Wrong({"features.nearest": 1001}, "features.nearest: expected an integer from 1 to 1000; found 1001"),
    Wrong({"output.top": 0}, "output.top: expected an integer from 1 to 10000; found 0"),
    Wrong(
        {"last_model.iterations": -1}, "last_model.iterations: expected an integer from 0 to 1000; found -1"
    ),
    Wrong(
        {"model.label-propagation.labels": -1},
        "model.label-propagation.labels: expected an integer from 1 to 65536; found -1",
    ),
    Wrong(
        {"model.label-propagation.threshold": 2},
        "model.label-propagation.threshold: expected a number from 0 to 1; found 2",
    ),
    Wrong(
        {**RREA, "model.rrea.dropout": 1.0},
        "model.rrea.dropout: expected a number, at least 0, below 1; found 1.0",
    ),
    Wrong(
        {**RREA, "model.rrea.learning_rate": 0},
        "model.rrea.learning_rate: expected a number, above 0, at most 1000000.0; found 0",
    ),
    Wrong(
        {"model": "gcn-align", "model.gcn-align.negatives": 0},
        "model.gcn-align.negatives: expected an integer from 1 to 10000; found 0",
    ),
    Wrong(
        {"model": "dual-amn", "model.dual-amn.proxies": 1 << 20},
        "model.dual-amn.proxies: expected an integer from 1 to 16384; found 1048576",
    ),
    Wrong(
        {"confidence.precision": NAN},
        "confidence.precision: expected a number, above 0, below 1, or null; found nan",
    ),
    Wrong(
        {"confidence.min_confidence": NAN},
        "confidence.min_confidence: expected a number from 0 to 1, or null; found nan",
    ),
    Wrong(
        {"matching.threshold": INFINITY}, "matching.threshold: expected a number from -10 to 10; found inf"
    ),
    Wrong(
        {**RREA, "model.rrea.learning_rate": INFINITY},
        "model.rrea.learning_rate: expected a number, above 0, at most 1000000.0; found inf",
    ),
    Wrong(
        {**HARD, "model.rrea.hard_shift": NAN},
        "model.rrea.hard_shift: expected a number from -1000000.0 to 1000000.0; found nan",
    ),
]

NOT_IN_THE_LIST = [
    Wrong(
        {**RREA, "model.rrea.loss": "hadr"}, "model.rrea.loss: expected one of 'margin', 'hard'; found 'hadr'"
    ),
    Wrong(
        {"division.partitioner": "scissors"},
        "division.partitioner: expected one of 'metis', 'kaminpar', 'random'; found 'scissors'",
    ),
    Wrong(
        {"division.locality": "near"}, "division.locality: expected one of 'propagate', 'bfs'; found 'near'"
    ),
    Wrong(
        {"division.evidence": "guess"},
        "division.evidence.method: expected one of 'first_order', 'rounds', 'exact'; found 'guess'",
    ),
    Wrong({"matching": "dot"}, "matching.method: expected one of 'sinkhorn', 'csls', 'cosine'; found 'dot'"),
    Wrong({"division": "thirds"}, "division.name: unknown division 'thirds'; choose from"),
    Wrong({"features": "smell"}, "features.name: unknown feature 'smell'; choose from"),
    Wrong({"features": ""}, "features.name: unknown feature ''; choose from"),
    Wrong({"features": "names+"}, "features.name: unknown feature ''; choose from"),
    Wrong({"features": "names+none"}, "features.name: unknown feature 'none'; choose from"),
    Wrong({"features": "names+names"}, "features.name: a feature is named twice"),
    Wrong({"model": "transformer"}, "model.name: unknown model 'transformer'; choose from"),
    Wrong({"model": ""}, "model.name: unknown model ''; choose from"),
    Wrong({"model": "rrea+transformer"}, "model.name: unknown model 'transformer'; choose from"),
    Wrong({"model": "rrea+"}, "model.name: unknown model ''; choose from"),
    Wrong({"model": "rrea\ndual-amn"}, "model.name: unknown model 'rrea\\ndual-amn'; choose from"),
    Wrong(
        {"last_model": {"name": "hope", "iterations": 2}},
        "last_model.name: unknown model 'hope'; choose from",
    ),
    Wrong({}, "unknown preset 'slow'; choose from fast, best", preset="slow", ways=("python", "set")),
]

OPTIONS_OF_PLUG_INS = [
    Wrong({"model": "toy", "model.toy.wdth": 3}, "model.toy.wdth: unknown setting; model.toy has"),
    Wrong({"model": "rrea+toy", "model.toy.wdth": 3}, "model.toy.wdth: unknown setting; model.toy has"),
    Wrong(
        {"model": "toy", "model.toy.width": "wide"},
        "model.toy.width: Input should be a valid integer; found 'wide'",
    ),
    Wrong(
        {"model": "toy", "model.toy.width": True},
        "model.toy.width: Input should be a valid integer; found True",
    ),
    Wrong({"model": "bare", "model.bare.width": 3}, "model.bare: this model has no options"),
    Wrong({"model": "toy", "model.bare.width": 3}, "model.bare has no effect: model.name is 'toy'"),
    Wrong(
        {"last_model": {"name": "toy", "iterations": 2, "toy": {"wdth": 3}}},
        "last_model.toy.wdth: unknown setting",
    ),
    Wrong(
        {"model": "toy", "model.toy": 3},
        "model: the options of 'toy' are a group of settings, not 3",
    ),
    Wrong(
        {"model": "dataclass-toy", "model.dataclass-toy.wdth": 3},
        "model.dataclass-toy.wdth: unknown setting; model.dataclass-toy has",
    ),
    Wrong(
        {"model": "dataclass-toy", "model.dataclass-toy.width": "wide"},
        "model.dataclass-toy.width: Input should be a valid integer; found 'wide'",
    ),
]

WITHOUT_EFFECT = [
    # One subtask is the whole graph.
    Wrong({"subtasks": 1, "size": 100}, "size has no effect: subtasks is 1, so nothing is divided"),
    Wrong(
        {"subtasks": 1, "division": "cps"},
        "division.name has no effect: subtasks is 1, which is the whole graph",
    ),
    Wrong(
        {"subtasks": 1, "division.delta1": 0.4},
        "division.delta1 has no effect: subtasks is 1, so nothing is divided",
    ),
    Wrong(
        {"subtasks": 1, "division.evidence": "exact"},
        "division.evidence.method has no effect: subtasks is 1, so nothing is divided",
    ),
    Wrong(
        {"subtasks": 3, "division": "whole"},
        "subtasks has no effect: division.name is 'whole', which is one subtask",
    ),
    Wrong(
        {"size": 100, "division": "whole"},
        "size has no effect: division.name is 'whole', which has no such option",
    ),
    # The rivals have no size limit and no options.
    Wrong(
        {"size": 100, "division": "cps"},
        "size has no effect: division.name is 'cps', which has no such option",
    ),
    Wrong(
        {"division": {"name": "cps", "delta1": 0.4}},
        "division.delta1 has no effect: division.name is 'cps', which has no such option",
    ),
    Wrong(
        {"division": {"name": "sbp", "alpha": 0.4}},
        "division.alpha has no effect: division.name is 'sbp', which has no such option",
    ),
    Wrong(
        {"division": {"name": "isbp", "evidence": "exact"}},
        "division.evidence.method has no effect: division.name is 'isbp', which has no such option",
    ),
    Wrong(
        {"division": {"name": "whole", "locality": "bfs"}},
        "division.locality has no effect: division.name is 'whole', which has no such option",
    ),
    # `random` is a partitioner, and similarity weights belong to `divea` and `random`.
    Wrong(
        {"division": {"name": "random", "partitioner": "kaminpar"}},
        "division.partitioner has no effect: division.name is 'random', which is a partitioner of its own",
    ),
    Wrong(
        {"division.alpha": 0.4},
        "division.alpha has no effect: division.name is 'joint', which uses no similarity weights",
    ),
    Wrong(
        {"division.beta": 0.4},
        "division.beta has no effect: division.name is 'joint', which uses no similarity weights",
    ),
    Wrong(
        {"division.nearest": 5},
        "division.nearest has no effect: division.name is 'joint', which uses no similarity weights",
    ),
    Wrong(
        {"division": {"name": "divea", "nearest": 0, "alpha": 0.4}},
        "division.alpha has no effect: division.nearest is 0, so there are no similarity weights",
    ),
    Wrong(
        {"division": {"name": "random", "nearest": 0, "beta": 0.4}},
        "division.beta has no effect: division.nearest is 0, so there are no similarity weights",
    ),
    # Options of models that are not in use.
    Wrong({"model.rrea.steps": 60}, "model.rrea.steps has no effect: model.name is 'label-propagation'"),
    Wrong(
        {"model": "rrea+gcn-align", "model.dual-amn.steps": 9},
        "model.dual-amn.steps has no effect: model.name is 'rrea+gcn-align'",
    ),
    Wrong(
        {**LAST_RREA, "last_model.dual-amn.steps": 9},
        "last_model.dual-amn.steps has no effect: last_model.name is 'rrea'",
    ),
    Wrong(
        {"last_model": "rrea"},
        "last_model.name has no effect: last_model.iterations is 0, so there is no last model",
    ),
    Wrong(
        {"last_model.rrea.steps": 9},
        "last_model.rrea.steps has no effect: last_model.iterations is 0, so there is no last model",
    ),
    # RREA has two losses.
    Wrong({**RREA, "model.rrea.batch": 9}, "model.rrea.batch has no effect: model.rrea.loss is 'margin'"),
    Wrong(
        {**RREA, "model.rrea.hard_margin": 2.0},
        "model.rrea.hard_margin has no effect: model.rrea.loss is 'margin'",
    ),
    Wrong(
        {**RREA, "model.rrea.hard_scale": 9.0},
        "model.rrea.hard_scale has no effect: model.rrea.loss is 'margin'",
    ),
    Wrong(
        {**RREA, "model.rrea.hard_shift": 9.0},
        "model.rrea.hard_shift has no effect: model.rrea.loss is 'margin'",
    ),
    Wrong({**HARD, "model.rrea.margin": 2.0}, "model.rrea.margin has no effect: model.rrea.loss is 'hard'"),
    Wrong(
        {**LAST_RREA, "last_model.rrea.batch": 9},
        "last_model.rrea.batch has no effect: last_model.rrea.loss is 'margin'",
    ),
    # Label propagation in a single round has no drafts.
    Wrong(
        {**ONE_ROUND, "model.label-propagation.draft_heads": 9},
        "model.label-propagation.draft_heads has no effect: model.label-propagation.rounds is 1",
    ),
    Wrong(
        {**ONE_ROUND, "model.label-propagation.threshold": 0.4},
        "model.label-propagation.threshold has no effect: model.label-propagation.rounds is 1",
    ),
    # Options of features that are not used, and features without what they need.
    Wrong(
        {"features": "none", "features.names.source": "http://a.example/name"},
        "features.names.source has no effect: features.name is 'none'",
    ),
    Wrong(
        {"features": {"name": "attributes", "names": {"target": "http://a.example/name"}}},
        "features.names.target has no effect: features.name is 'attributes'",
    ),
    Wrong(
        {"features": {"name": "propagation", "nearest": 9}},
        "features.nearest has no effect: features.name is 'propagation'",
    ),
    Wrong(
        {"features.given.source": "vectors.npy"},
        "features.given.source has no effect: features.name is 'names+attributes'",
    ),
    Wrong(
        {"features": "none", "features.encoder.model": "minilm"},
        "features.encoder.model has no effect: features.name is 'none'",
    ),
    Wrong(
        {"features": "given"},
        "features.given.source: expected a file of vectors, because features.name is 'given'",
    ),
    Wrong(
        {"features": "names+given", "features.given.source": "vectors.npy"},
        "features.given.target: expected a file of vectors, because features.name is 'names+given'",
    ),
    Wrong(
        {"features": "encoder"},
        "features.encoder.model: expected a model, because features.name is 'encoder'",
    ),
    # The last model.
    Wrong(
        {"last_model.iterations": 3},
        "last_model.iterations: expected at most iterations - 1, which is ",
    ),
    Wrong(
        {"iterations": 9, "last_model.iterations": 9},
        "last_model.iterations: expected at most iterations - 1, which is ",
    ),
    Wrong(
        {"last_model.iterations": 1},
        "last_model.iterations: expected 0, or at least 2, because confidence is calibrated one iteration",
    ),
    # A single iteration.
    Wrong(
        {"iterations": 1, "matching.threshold": 0.4},
        "matching.threshold has no effect: it counts from the second iteration on, and iterations is 1",
    ),
    Wrong(
        {"iterations": 1, "matching.average": 2},
        "matching.average has no effect: it counts from the second iteration on, and iterations is 1",
    ),
    Wrong(
        {"iterations": 1, "confidence.held_back": 0.2},
        "confidence.held_back has no effect: to hold seeds back takes two iterations, and iterations is 1",
    ),
    Wrong(
        {"iterations": 1, "confidence": {"folds": 0, "min_confidence": 0.4}},
        "confidence.min_confidence has no effect: iterations is 1 and confidence.folds is 0, so no",
    ),
    Wrong(
        {"iterations": 1, "confidence": {"folds": 0, "precision": 0.9}},
        "confidence.precision has no effect: iterations is 1 and confidence.folds is 0, so no confidence",
    ),
    Wrong(
        {"confidence": {"folds": 5, "held_back": 0.2}},
        "confidence.held_back has no effect: confidence.folds takes its place",
    ),
    # Confidence.
    Wrong(
        {"confidence": {"held_back": 0.0, "min_confidence": 0.4}},
        "confidence.min_confidence has no effect: confidence.held_back is 0, so no confidence is calibrated",
    ),
    Wrong(
        {"confidence": {"held_back": 0.0, "precision": 0.9}},
        "confidence.precision has no effect: confidence.held_back is 0, so no confidence is calibrated",
    ),
    Wrong(
        {"confidence": {"min_confidence": 0.4, "precision": 0.9}},
        "confidence.min_confidence has no effect: confidence.precision takes its place",
    ),
]

FOUND_BY_THE_REVIEW = [
    # Each of these was a traceback, or had no effect without a word, in the first release.
    Wrong({"division": {"depth": 3}}, "division.depth: unknown setting; division has"),
    Wrong(
        {"division": {"evidence": {"mode": "exact"}}},
        "division.evidence.mode: unknown setting; did you mean 'method'? division.evidence has",
    ),
    Wrong(
        {"division": "random", "division.partitioner": "kaminpar"},
        "division.partitioner has no effect: division.name is 'random', which is a partitioner of its own",
    ),
    Wrong(
        {"model": {"name": "rrea", "rrea": {"loss": "hadr"}}},
        "model.rrea.loss: expected one of 'margin', 'hard'; found 'hadr'",
    ),
    Wrong(
        {"division": {"alpha": 0.5}},
        "division.alpha has no effect: division.name is 'joint', which uses no similarity weights",
    ),
]

TOO_MANY_SUBTASKS = [
    Wrong({"subtasks": 500}, "subtasks: 500 is more than the 14 unmatched source entities"),
]

TABLE = [
    *UNKNOWN_NAMES,
    *WRONG_TYPES,
    *OUT_OF_RANGE,
    *NOT_IN_THE_LIST,
    *OPTIONS_OF_PLUG_INS,
    *WITHOUT_EFFECT,
    *FOUND_BY_THE_REVIEW,
    *TOO_MANY_SUBTASKS,
]

PLUG_IN = """
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from divea.models import Model


class Bare(Model):
    def embed(self, task, *, random_seed=0, device="cpu"):
        raise NotImplementedError


class ToyOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int = 4


class Toy(Bare):
    options_type = ToyOptions

    def __init__(self, options):
        self.options = options


@dataclass(frozen=True)
class DataclassOptions:
    width: int = 4


class DataclassToy(Toy):
    options_type = DataclassOptions
"""


@pytest.fixture(scope="module", autouse=True)
def plug_in(tmp_path_factory):
    """An installed package with plug-in models."""
    folder = tmp_path_factory.mktemp("plug-in")
    (folder / "wrong_settings_plug_in.py").write_text(PLUG_IN)
    about = folder / "wrong_settings_plug_in-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong-settings-plug-in\nVersion: 1.0\n")
    names = {"toy": "Toy", "bare": "Bare", "dataclass-toy": "DataclassToy"}
    points = [f"{name} = wrong_settings_plug_in:{kind}" for name, kind in names.items()]
    (about / "entry_points.txt").write_text("\n".join(["[divea.models]", *points]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


@pytest.fixture(scope="module")
def task():
    return planted_pair(entities=20, triples=60, seeds=6).task


@pytest.fixture(scope="module")
def task_folder(task, tmp_path_factory):
    folder = tmp_path_factory.mktemp("task") / "task"
    write_task(task, folder)
    return folder


def given_by(way):
    """The rows that can be given this way."""
    return [pytest.param(wrong, id=str(wrong)) for wrong in TABLE if way in wrong.ways]


def check_refused_by_the_command(wrong, arguments, task_folder, run, where=""):
    ended = divea("align", task_folder, "--out", run, "--device", "cpu", *arguments)
    assert ended.code == 2
    assert ended.err.startswith((f"divea: {wrong.message}", f"divea: {where}{wrong.message}"))
    assert ended.err.endswith("\n")
    assert ended.err.count("\n") == 1
    assert ended.out == ""
    assert not run.exists()


@pytest.mark.parametrize("wrong", given_by("python"))
def test_python_refuses_wrong_settings(wrong, task, tmp_path):
    with pytest.raises(InputError) as refused:
        divea_package.align(task, wrong.preset, out=tmp_path / "run", device="cpu", **wrong.settings)
    assert str(refused.value).startswith(wrong.message)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("wrong", given_by("set"))
def test_the_command_line_refuses_wrong_settings(wrong, task_folder, tmp_path):
    arguments = [] if wrong.preset is None else ["--preset", wrong.preset]
    for path, value in wrong.settings.items():
        arguments += ["--set", f"{path}={json.dumps(value)}"]
    check_refused_by_the_command(wrong, arguments, task_folder, tmp_path / "run")


@pytest.mark.parametrize("wrong", given_by("config"))
def test_a_file_of_wrong_settings_is_refused(wrong, task_folder, tmp_path):
    """Wrong names and values are named with the file; combinations may come from several sources."""
    path = tmp_path / "settings.json"
    path.write_text(json.dumps(wrong.settings))
    check_refused_by_the_command(wrong, ["--config", path], task_folder, tmp_path / "run", f"{path}: ")


def test_an_integer_with_thousands_of_digits_is_refused(task, tmp_path):
    """Python does not convert such integers to text, and reads them from files in hexadecimal only."""
    message = r"output\.top: expected an integer from 1 to 10000; found a number that is far too large"
    with pytest.raises(InputError, match=message):
        divea_package.align(task, **{"output.top": 10**5000})
    (tmp_path / "settings.toml").write_text(f"output.top = 0x{'f' * 6000}")
    with pytest.raises(InputError, match=message):
        Settings.load(tmp_path / "settings.toml")


@pytest.mark.parametrize("name", ["toy", "dataclass-toy"])
def test_options_of_plug_ins_may_be_a_pydantic_model_or_a_dataclass(name):
    assert make_model(ModelSettings(name=name)).options.width == 4
    assert make_model(ModelSettings.checked({"name": name, name: {"width": 7}})).options.width == 7
