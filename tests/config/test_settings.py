"""Settings: files, presets, combination of sources, and what each setting's explanation looks like."""

import json
import os

import pytest
import yaml

from divea.config import (
    PRESETS,
    LabelPropagationOptions,
    RreaOptions,
    Settings,
    combine_settings,
    parse_assignment,
    read_settings_file,
)
from divea.config.effects import given_paths, leaf_paths, without_effect
from divea.config.executor import ExecutorSettings
from divea.config.group import resolved as resolved_node
from divea.config.models import BUILT_IN_OPTIONS
from divea.errors import InputError
from tests.command_line import divea


def toml(values, prefix=""):
    """Nested values as TOML, which has no null: such values are left out, and so are chosen."""
    lines, groups = [], []
    for name, value in values.items():
        if isinstance(value, dict):
            groups += [f"[{prefix}{name}]", *toml(value, f"{prefix}{name}.")]
        elif value is not None:
            lines.append(f"{name} = {json.dumps(value)}")
    return lines + groups


def write_settings(values, path):
    writers = {
        ".json": json.dumps,
        ".yaml": yaml.safe_dump,
        ".yml": yaml.safe_dump,
        ".toml": lambda values: "\n".join(toml(values)),
    }
    path.write_text(writers[path.suffix](values))
    return path


NAMES = ("settings.json", "settings.yaml", "settings.yml", "settings.toml")

SEVERAL = [
    {},
    {"iterations": 1},
    {"subtasks": 1},
    {"subtasks": 5, "size": 700, "division": "divea", "division.delta1": 0.4, "random_seed": 3},
    {"division": "cps", "confidence.precision": 0.9},
    {"model": "rrea", "model.rrea.steps": 7},
    {"model": "rrea", "model.rrea.loss": "hard"},
    {"model": "gcn-align+dual-amn", "model.dual-amn.margin": 0.5},
    {"iterations": 5, "last_model": {"name": "gcn-align", "iterations": 2}},
    PRESETS["best"],
]
"""Settings of many kinds; in most of them, some settings have no effect."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("values", SEVERAL, ids=str)
def test_settings_in_use_survive_a_file(values, name, tmp_path):
    settings = Settings.of(None, values)
    assert Settings.load(write_settings(settings.in_use(), tmp_path / name)) == settings


@pytest.mark.parametrize("values", SEVERAL, ids=str)
def test_resolved_settings_in_use_survive_a_file(values, tmp_path):
    resolved = Settings.of(None, values).resolved()
    assert Settings.load(write_settings(resolved.in_use(), tmp_path / "settings.json")) == resolved


@pytest.mark.parametrize("values", SEVERAL, ids=str)
def test_settings_in_use_are_those_with_an_effect(values):
    settings = Settings.of(None, values)
    in_use, every = set(leaf_paths(settings.in_use())), set(leaf_paths(settings.plain()))
    assert in_use <= every
    unused = {path for path, _ in without_effect(settings, every)}
    assert every - in_use == unused


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", PRESETS)
def test_given_settings_survive_a_file_and_changes_override_them(preset, name, tmp_path):
    settings = Settings.preset(preset, random_seed=3, size=700)
    given = settings.model_dump(mode="json", exclude_unset=True)
    path = write_settings(given, tmp_path / name)
    assert Settings.load(path) == settings
    assert Settings.load(path, random_seed=4).random_seed == 4
    assert Settings.load(path, **{"output.top": 5}).output.top == 5


def test_paths_and_bare_names_work_in_files(tmp_path):
    (tmp_path / "settings.yaml").write_text("model: rrea\nmodel.rrea.steps: 60\ndivision: cps\n")
    settings = Settings.load(tmp_path / "settings.yaml")
    assert (settings.model.name, settings.model.options("rrea").steps) == ("rrea", 60)
    assert settings.division.name == "cps"


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (suffix, text)
        for suffix in ("json", "yaml", "toml")
        for text in ("", "[1, 2]", "{", "null", '"fast"', "\x00", "[" * 2000)
        if (suffix, text) != ("toml", "")  # an empty TOML file is an empty group
    ],
)
def test_a_file_that_holds_no_settings_is_refused(suffix, text, tmp_path):
    path = tmp_path / f"settings.{suffix}"
    path.write_text(text)
    with pytest.raises(InputError, match=r"cannot be read as|expected an object of settings") as refused:
        Settings.load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


def test_files_that_are_missing_or_of_another_format_are_refused(tmp_path):
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_settings_file(tmp_path / "settings.json")
    with pytest.raises(InputError, match=r"use \.json, \.yaml or \.toml"):
        read_settings_file(tmp_path / "settings.ini")


def test_a_wrong_setting_in_a_file_is_named_with_the_file(tmp_path):
    path = write_settings({"subtasks": 0}, tmp_path / "settings.json")
    with pytest.raises(InputError, match=r"settings\.json: subtasks: expected an integer from 1"):
        Settings.load(path)


def test_presets():
    assert Settings.preset("fast") == Settings()
    best = Settings.preset("best")
    assert best.iterations == 7
    assert best.model.options("label-propagation").labels == 1024
    assert best.last_model.name == "label-propagation+rrea+dual-amn"
    assert best.last_model.options("rrea").loss == "hard"
    assert best.last_model.options("dual-amn").steps == 60
    changed = Settings.preset("best", subtasks=5, **{"last_model.rrea.steps": 9})
    assert (changed.subtasks, changed.last_model.options("rrea").steps) == (5, 9)
    assert changed.last_model.options("rrea").loss == "hard", "other options of the preset stay"
    with pytest.raises(InputError, match="unknown preset 'slow'; choose from fast, best"):
        Settings.preset("slow")


def test_settings_start_from_a_preset_or_from_other_settings():
    base = Settings(subtasks=5, model={"name": "rrea", "rrea": {"steps": 9}})
    assert Settings.of(base) == base
    assert Settings.of(base, {"model.rrea.steps": 60}).model.options("rrea").steps == 60
    assert Settings.of(base, {"model": "dual-amn"}).model.given_options() == {}
    assert Settings.of("best", {"subtasks": 5}) == Settings.preset("best", subtasks=5)
    with pytest.raises(InputError, match=r"settings are a divea\.Settings or the name of a preset, not 5"):
        Settings.of(5)


@pytest.mark.parametrize(
    ("sources", "combined"),
    [
        ([], {}),
        ([{"subtasks": 5}, {"size": 9}], {"subtasks": 5, "size": 9}),
        ([{"subtasks": 5}, {"subtasks": 6}], {"subtasks": 6}),
        ([{"subtasks": 5}, {"subtasks": None}], {"subtasks": None}),
        ([{"division.evidence.layers": 3}], {"division": {"evidence": {"layers": 3}}}),
        (
            [{"division": {"delta1": 0.3}, "division.evidence.layers": 3}],
            {"division": {"delta1": 0.3, "evidence": {"layers": 3}}},
        ),
        (
            [{"division": {"evidence": {"layers": 3}}}, {"division": {"evidence": {"strength": 1.0}}}],
            {"division": {"evidence": {"layers": 3, "strength": 1.0}}},
        ),
        ([{"model": "rrea"}], {"model": {"name": "rrea"}}),
        ([{"last_model": "rrea"}], {"last_model": {"name": "rrea"}}),
        ([{"division": "cps"}], {"division": {"name": "cps"}}),
        ([{"matching": "csls"}], {"matching": {"method": "csls"}}),
        (
            [{"features.nearest": 9, "features": "names"}],
            {"features": {"nearest": 9, "name": "names"}},
        ),
        # Only the group `model` can be given by a bare name, not the setting of that name.
        ([{"features.encoder.model": "x"}], {"features": {"encoder": {"model": "x"}}}),
        (
            [{"model": "rrea", "model.rrea.steps": 9}],
            {"model": {"name": "rrea", "rrea": {"steps": 9}}},
        ),
        # A later name drops the options of models that are no longer in use, and only those.
        ([{"model": "rrea", "model.rrea.steps": 9}, {"model": "dual-amn"}], {"model": {"name": "dual-amn"}}),
        (
            [{"model": {"name": "rrea", "rrea": {"steps": 9}}}, {"model.name": "rrea+dual-amn"}],
            {"model": {"name": "rrea+dual-amn", "rrea": {"steps": 9}}},
        ),
        (
            [
                {"last_model": {"name": "rrea", "rrea": {"steps": 9}, "iterations": 2}},
                {"last_model.name": "dual-amn"},
            ],
            {"last_model": {"name": "dual-amn", "iterations": 2}},
        ),
        # The options of a model that one and the same source names are never dropped: they are checked.
        (
            [{"model": "rrea", "model.dual-amn.steps": 9}],
            {"model": {"name": "rrea", "dual-amn": {"steps": 9}}},
        ),
        (
            [{"model.rrea.steps": 9}, {"model.rrea.steps": 60}],
            {"model": {"rrea": {"steps": 60}}},
        ),
    ],
    ids=str,
)
def test_later_sources_override_earlier_ones(sources, combined):
    before = json.dumps(sources)
    assert combine_settings(*sources) == combined
    assert json.dumps(sources) == before, "sources are not changed"


@pytest.mark.parametrize("wrong", [3, None, [1]])
def test_a_wrong_group_in_a_file_is_refused_even_if_a_change_replaces_it(wrong, tmp_path):
    path = write_settings({"model": wrong}, tmp_path / "settings.json")
    with pytest.raises(InputError, match="model: expected a group of settings"):
        Settings.load(path, model="rrea")
    ended = divea("settings", "--config", path, "--set", "model.name=rrea")
    assert ended.code == 2
    assert ended.err == f"divea: {path}: model: expected a group of settings; found {json.dumps(wrong)}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("subtasks=5", ("subtasks", 5)),
        ("subtasks=null", ("subtasks", None)),
        ("output.one_to_one=false", ("output.one_to_one", False)),
        ("division.delta1=0.5", ("division.delta1", 0.5)),
        ("division.delta1=.5", ("division.delta1", 0.5)),
        ("division=" + "[" * 5000, ("division", "[" * 5000)),
        ("model.rrea.loss=hard", ("model.rrea.loss", "hard")),
        ('model={"name": "rrea"}', ("model", {"name": "rrea"})),
        ("model=a=b", ("model", "a=b")),
        ("model=", ("model", "")),
    ],
)
def test_an_assignment_is_a_path_and_a_value(text, expected):
    assert parse_assignment(text) == expected


@pytest.mark.parametrize("text", ["subtasks", "=5", ""])
def test_a_text_that_is_no_assignment_is_refused(text):
    with pytest.raises(InputError, match="expected PATH=VALUE"):
        parse_assignment(text)


def test_the_last_model_solves_the_last_iterations():
    settings = Settings(
        model={"name": "rrea"}, last_model={"name": "dual-amn", "iterations": 2}, iterations=5
    )
    assert [settings.model_at(i).name for i in range(5)] == ["rrea"] * 3 + ["dual-amn"] * 2
    assert [model.name for model in settings.models()] == ["rrea"] * 3 + ["dual-amn"] * 2
    # The first iteration never has the last model, which starts from pseudo-seeds.
    with pytest.raises(InputError, match=r"last_model\.iterations: expected at most iterations - 1"):
        Settings(last_model={"name": "dual-amn", "iterations": 5}, iterations=2)
    without = Settings(iterations=5)
    assert [model.name for model in without.models()] == ["label-propagation"] * 5


def test_resolved_settings_name_what_was_chosen_and_every_option_in_use():
    settings = Settings.of("best", {"last_model.rrea.steps": 9})
    resolved = settings.resolved(subtasks=4, size=900)
    assert (resolved.subtasks, resolved.size) == (4, 900)
    assert (settings.subtasks, settings.size) == (None, None), "the settings themselves do not change"
    plain = resolved.plain()
    assert set(plain["model"]) == {"name", "label-propagation"}
    assert set(plain["last_model"]) == {"name", "iterations", "label-propagation", "rrea", "dual-amn"}
    assert plain["last_model"]["rrea"] == RreaOptions(loss="hard", steps=9).plain()


def test_resolved_settings_list_only_models_in_use():
    plain = Settings().resolved(subtasks=1).plain()
    assert plain["model"] == {
        "name": "label-propagation",
        "label-propagation": LabelPropagationOptions().plain(),
    }
    assert plain["last_model"] == {"iterations": 0}


@pytest.mark.parametrize("values", SEVERAL, ids=str)
def test_effective_settings_survive_a_manifest(values):
    """A manifest names every setting, used or not, so it is read with `allow_unused=True`."""
    effective = Settings.of(None, values).resolved(subtasks=3, size=100)
    stored = json.loads(json.dumps(effective.plain()))
    assert Settings.checked(stored, allow_unused=True) == effective


@pytest.mark.parametrize("values", SEVERAL, ids=str)
def test_the_settings_of_a_run_can_be_used_again(values):
    """A stored value that has no effect does not count as given."""
    effective = Settings.of(None, values).resolved(subtasks=3)
    stored = Settings.checked(effective.plain(), allow_unused=True)
    assert Settings.of(stored).in_use() == effective.in_use()
    assert Settings.of(stored, {"random_seed": 7}).random_seed == 7


def test_stored_settings_are_checked_except_for_their_effect():
    stored = Settings().resolved(subtasks=1).plain()
    with pytest.raises(InputError, match="has no effect"):
        Settings.checked(stored)
    with pytest.raises(InputError, match="iterations: expected an integer"):
        Settings.checked({**stored, "iterations": "3"}, allow_unused=True)
    with pytest.raises(InputError, match="iteration: unknown setting"):
        Settings.checked({**stored, "iteration": 3}, allow_unused=True)


def test_given_paths_are_those_of_given_settings():
    settings = Settings.of(
        None, {"subtasks": 5, "division.evidence.layers": 3, "model.label-propagation.hops": 3}
    )
    assert given_paths(settings) == [
        "division.evidence.layers",
        "model.label-propagation.hops",
        "subtasks",
    ]


def test_settings_cannot_be_changed_in_place():
    with pytest.raises(Exception, match="frozen"):
        Settings().subtasks = 5


def leaves(schema):
    """Path and schema node of every setting that is not a group."""

    def walk(node, prefix):
        for name, child in resolved_node(node, schema)["properties"].items():
            if "properties" in resolved_node(child, schema):
                yield from walk(child, f"{prefix}{name}.")
            else:
                yield prefix + name, child

    return dict(walk(schema, ""))


LEAVES = {**leaves(Settings.model_json_schema()), **leaves(ExecutorSettings.model_json_schema())}


def test_the_schema_has_the_settings_of_every_depth():
    assert {"subtasks", "division.evidence.method", "model.rrea.steps", "last_model.dual-amn.steps"} <= set(
        LEAVES
    )
    assert len(LEAVES) > 70


@pytest.mark.parametrize("path", LEAVES)
def test_every_setting_is_explained_in_one_line(path):
    """The first line of a description is complete; further lines may add reasons."""
    first_line = LEAVES[path].get("description", "").partition("\n")[0]
    assert first_line.endswith(".")
    assert 10 < len(first_line) <= 110
    assert first_line == first_line.strip()


@pytest.mark.parametrize(
    "arguments", [[], ["--preset", "best"], ["--set", "model.name=rrea"], ["--set", "iterations=1"]], ids=str
)
def test_the_settings_command_explains_every_setting_in_use(arguments):
    shown, as_json = divea("settings", *arguments), divea("settings", *arguments, "--json")
    assert shown.code == as_json.code == 0, shown.err
    lines = [line.split(maxsplit=2) for line in shown.out.splitlines()]
    assert [path for path, _, _ in lines] == leaf_paths(json.loads(as_json.out))
    descriptions = leaves(Settings.model_json_schema())
    for path, _, text in lines:
        assert text == descriptions[path]["description"].partition("\n")[0]


@pytest.mark.parametrize("arguments", [[], ["--preset", "best"], ["--set", "model.name=rrea"]], ids=str)
def test_the_settings_command_prints_a_file_that_config_reads(arguments, tmp_path):
    shown = divea("settings", *arguments, "--json")
    (tmp_path / "settings.json").write_text(shown.out)
    again = divea("settings", "--config", tmp_path / "settings.json", "--json")
    assert (again.code, again.out) == (0, shown.out), again.err


# Domains.


def numbers(node, schema, path=""):
    """Every number among the settings: its path, and its part of the JSON schema."""
    branches = node.get("anyOf", [node])
    node = resolved_node(node, schema)
    for name, child in node.get("properties", {}).items():
        yield from numbers(child, schema, f"{path}.{name}")
    for branch in branches:
        if branch.get("type") in ("integer", "number"):
            yield path, branch


@pytest.mark.parametrize("group", [Settings, *BUILT_IN_OPTIONS.values()], ids=lambda group: group.__name__)
def test_every_number_has_a_domain(group):
    schema = group.model_json_schema()
    found = dict(numbers(schema, schema))
    assert found
    for path, node in found.items():
        assert {"minimum", "exclusiveMinimum"} & set(node), path
        assert {"maximum", "exclusiveMaximum"} & set(node), path


# Files that are no files of settings.


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("deep.json", '{"a":' * 900 + "1" + "}" * 900, "nested"),
        ("deeper.json", '{"a":' * 20_000 + "1" + "}" * 20_000, "more than 65536 bytes"),
        ("list.json", "[" * 30_000, "cannot be read as JSON"),
        ("deep.yaml", "a: " + "[" * 30_000, "nested too deeply"),
        ("deep.toml", ".".join("a" * 900) + " = 1", "nested"),
        ("array.toml", "a = " + "[" * 30_000, "cannot be read as TOML"),
        ("number.json", f'{{"subtasks": {"9" * 5000}}}', "cannot be read as JSON"),
        ("date.yaml", "subtasks: 2024-13-45", "cannot be read as YAML"),
    ],
)
def test_a_file_that_would_exhaust_the_reader_is_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        Settings.load(tmp_path / name)


def test_settings_are_not_read_from_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="is not a regular file"):
        Settings.load(tmp_path / "pipe.json")


@pytest.mark.parametrize("path", ["x" * 300 + ".json", "a\0b.json", "caf\udce9.json"])
def test_a_name_that_no_file_can_have_is_refused(path):
    with pytest.raises(InputError):
        Settings.load(path)


def test_settings_in_python_may_not_be_nested_without_end():
    nested: dict = {}
    for _ in range(100_000):
        nested = {"a": nested}
    for changes in (nested, {".".join("a" * 5000): 1}):
        with pytest.raises(InputError, match="nested more than 20 deep"):
            Settings.of(None, changes)
