"""The settings of methods, the changes that `--set` makes to them, and the cells of recipes."""

from dataclasses import replace

import pytest

from divea.errors import InputError
from divea.experiments.methods import METHODS, read_changes, settings_for
from divea.experiments.recipes import RECIPES


def test_a_supervised_run_is_the_first_iteration_of_a_semi_supervised_one():
    semi, sup = (settings_for(f"CPS ({mode})", "gcn-align", "cps", {}) for mode in ("semi", "sup"))
    assert (semi["iterations"], sup["iterations"]) == (5, 1)
    # The threshold of pseudo-seeds and the average over iterations have no effect in a single iteration.
    assert semi["matching"].pop("threshold") == 0.2 and semi["matching"].pop("average") == 1
    assert {**sup, "iterations": 5} == semi


@pytest.mark.parametrize("named", [method for method in METHODS if method.endswith("with names")])
def test_a_method_with_names_differs_in_its_features_alone(named):
    plain = named.removesuffix(", with names")
    with_names, without = (settings_for(method, "rrea", "cps", {}) for method in (named, plain))
    assert with_names.pop("features") == {"name": "names"} and without.pop("features") == {"name": "none"}
    assert with_names == without


@pytest.mark.parametrize("method", METHODS)
def test_changes_reach_every_method_that_they_have_an_effect_on(method):
    changes = read_changes(["model.rrea.steps=7", "matching=cosine", "division.locality=bfs"], ["rrea"])
    settings = settings_for(method, "rrea", "sbp", changes)
    assert settings["matching"]["method"] == "cosine"
    assert settings["model"]["rrea"]["steps"] == 7
    assert (settings["division"].get("locality") == "bfs") == ("DivEA" in method)
    assert not settings_for(method, "dual-amn", "sbp", changes)["model"].get("rrea")


@pytest.mark.parametrize("method", ["CPS (sup)", "SBP (sup)"])
def test_changes_leave_supervised_methods_supervised(method):
    assert settings_for(method, "rrea", "cps", {"iterations": 2})["iterations"] == 1


def test_changes_for_another_model_leave_a_cell_as_it_is():
    changes = read_changes(["model.rrea.steps=7"], ["rrea", "dual-amn"])
    plain, changed = (
        RECIPES["cps"].cells(["zh_en"], ["dual-amn"], [0], changes=given) for given in ({}, changes)
    )
    assert [cell.key for cell in changed] == [cell.key for cell in plain]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("model.rrea.steps", "expected PATH=VALUE"),
        ("what=1", "what: unknown setting"),
        ("steps=3", "steps: unknown setting; did you mean 'model.rrea.steps'?"),
        ("rrea.steps=3", "rrea: unknown setting; did you mean 'model.rrea'?"),
        ("model.rrea.steps=0", "model.rrea.steps: expected an integer from 1"),
        ("model.name=rrea", "model.name is part of the experiment"),
        ("division.name=cps", "division.name is part of the experiment"),
        ("subtasks=3", "subtasks is part of the experiment"),
        ("size=3000", "size is part of the experiment"),
        ("random_seed=3", "random_seed is part of the experiment"),
    ],
)
def test_changes_that_make_no_sense_are_refused(change, message):
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        read_changes([change], ["rrea"])


@pytest.mark.parametrize("change", ["model=rrea", "division=cps", 'division={"name": "cps"}'])
def test_the_model_and_the_division_of_a_method_cannot_be_changed(change):
    with pytest.raises(InputError, match="part of the experiment"):
        read_changes([change], ["rrea"])


def test_options_of_a_model_that_does_not_run_are_refused():
    with pytest.raises(InputError, match="gcn-align"):
        read_changes(["model.gcn-align.steps=3"], ["rrea"])


def test_methods_can_be_chosen():
    cells = RECIPES["coverage"].cells(["zh_en"], ["rrea"], [0], methods=["DivEA", "I-SBP"])
    assert [(cell.method, cell.scale) for cell in cells] == [
        ("DivEA", "cps"),
        ("I-SBP", "sbp"),
        ("DivEA", "sbp"),
    ]


def test_recipes_share_equal_runs():
    recipes = {
        name: RECIPES[name].cells(["zh_en"], ["rrea"], [0])
        for name in ("cps", "sbp", "coverage", "time", "attributes")
    }
    known = {cell.key for name in ("cps", "sbp") for cell in recipes[name]}
    assert {cell.key for name in ("coverage", "time") for cell in recipes[name]} <= known
    assert {cell.key for cell in recipes["attributes"] if not cell.uses_names} <= known
    assert not {cell.key for cell in recipes["attributes"] if cell.uses_names} & known
    rival, *_, ours = recipes["cps"]
    assert replace(ours, method="another name").key == ours.key
    assert replace(ours, scale="sbp").key != ours.key
    assert replace(rival, scale="sbp").key == rival.key  # CPS has no size limit
