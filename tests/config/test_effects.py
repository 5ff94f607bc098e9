"""Settings without effect: what is reported may be left out without any consequence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.config import Settings, combine_settings
from divea.config.effects import given_paths, without_effect

CHOICES = {
    "subtasks": [None, 1, 4],
    "size": [None, 500],
    "iterations": [1, 2, 5],
    "features.name": ["none", "names", "attributes", "propagation", "names+propagation"],
    "features.nearest": [5],
    "features.names.source": ["http://a.example/name"],
    "features.given.target": ["vectors.npy"],
    "features.encoder.model": ["model"],
    "division.name": ["joint", "divea", "random", "cps", "sbp", "isbp", "whole"],
    "division.delta1": [None, 0.4],
    "division.partitioner": ["kaminpar", "random"],
    "division.alpha": [0.5],
    "division.beta": [2.0],
    "division.nearest": [0, 5],
    "division.evidence.method": ["exact"],
    "model.name": ["label-propagation", "rrea", "rrea+dual-amn"],
    "model.label-propagation.rounds": [1, 2],
    "model.label-propagation.threshold": [0.3],
    "model.rrea.loss": ["margin", "hard"],
    "model.rrea.margin": [2.0],
    "model.rrea.batch": [64],
    "last_model.name": ["rrea", "gcn-align"],
    "last_model.iterations": [0, 1, 2],
    "last_model.rrea.steps": [9],
    "last_model.gcn-align.steps": [9],
    "matching.method": ["csls"],
    "matching.threshold": [0.3],
    "matching.average": [1],
    "confidence.held_back": [0.0, 0.2],
    "confidence.min_confidence": [0.3],
    "confidence.precision": [None, 0.9],
    "output.top": [5],
}


def can_be_run(values):
    """Whether the number of iterations of the last model fits the others."""
    last, iterations = values.get("last_model.iterations", 0), values.get("iterations", 3)
    calibrates = values.get("confidence.held_back", 0.1) > 0
    return last == 0 or (last < iterations and not (last == 1 and calibrates))


any_settings = st.fixed_dictionaries(
    {}, optional={path: st.sampled_from(values) for path, values in CHOICES.items()}
).filter(can_be_run)


@pytest.fixture(scope="module", autouse=True)
def no_plug_ins():
    """Looking for plug-ins takes most of the time of a validation."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.registry.entry_points", lambda **_: [])
        yield


def unchecked(values):
    """The settings, without the check that all of them have an effect."""
    return Settings.checked(combine_settings(values), allow_unused=True)


@given(any_settings)
def test_only_given_settings_are_reported_and_the_rest_is_accepted(values):
    left = dict(values)
    while reported := {path for path, _ in without_effect(unchecked(left))}:
        assert reported <= set(given_paths(unchecked(left))) == set(left)
        left = {path: value for path, value in left.items() if path not in reported}
    assert Settings.of(None, left) == unchecked(left)


@given(any_settings)
def test_leaving_out_a_reported_setting_changes_nothing_that_runs(values):
    settings = unchecked(values)
    for path, _ in without_effect(settings):
        rest = {other: value for other, value in values.items() if other != path}
        without = unchecked(rest)
        assert [model.name for model in without.models()] == [model.name for model in settings.models()]
        if not path.startswith(("model.", "last_model.")):
            pairs = zip(without.models(), settings.models(), strict=True)
            assert all(one.is_same_model(other) for one, other in pairs)
        assert without.calibrates == settings.calibrates
        assert without.weighs_similarity == settings.weighs_similarity
