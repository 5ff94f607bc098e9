"""`divea settings`: the effective settings as text, as JSON and as a JSON schema."""

import json

import pytest

from divea import Settings
from divea.config import PRESETS
from tests.command_line import divea
from tests.runs.tiny import SETTINGS, write_inputs


def shown(*arguments):
    """The values that the command prints, by path."""
    ended = divea("settings", *arguments)
    assert ended.code == 0, ended.err
    rows = [line.split(maxsplit=1) for line in ended.out.splitlines()]
    return {path: json.JSONDecoder().raw_decode(rest)[0] for path, rest in rows}


def flat(nested, prefix=""):
    """Nested values by path."""
    found = {}
    for name, value in nested.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def as_json(*arguments):
    ended = divea("settings", *arguments, "--json")
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_the_defaults_are_those_of_settings():
    assert shown() == flat(Settings().resolved().in_use()) == flat(as_json())
    assert shown()["model.label-propagation.labels"] == 512
    assert shown()["subtasks"] is None


def test_every_setting_has_an_explanation():
    for line in divea("settings", "--preset", "best").out.splitlines():
        _, rest = line.split(maxsplit=1)
        _, end = json.JSONDecoder().raw_decode(rest)
        assert rest[end:].strip().endswith("."), line


def test_only_models_in_use_are_shown():
    assert not [path for path in shown() if path.startswith(("model.rrea", "last_model.name"))]
    paths = shown("--set", "model.name=rrea")
    assert [path for path in paths if path.startswith("model.rrea.")]
    assert not [path for path in paths if path.startswith("model.label-propagation")]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset(preset):
    assert as_json("--preset", preset) == Settings.preset(preset).resolved().in_use()


def test_assignments_are_read_as_json_where_they_are_json():
    found = shown("--set", "model.name=rrea", "--set", "model.rrea.steps=60", "--set", "model.rrea.loss=hard")
    assert (found["model.name"], found["model.rrea.steps"], found["model.rrea.loss"]) == ("rrea", 60, "hard")


def test_assignments_override_the_file_which_overrides_the_preset(tmp_path):
    (tmp_path / "settings.json").write_text('{"iterations": 6, "random_seed": 4}')
    found = shown(
        *("--preset", "best", "--config", tmp_path / "settings.json", "--set", "random_seed=5"),
    )
    assert found["last_model.iterations"] == 4
    assert (found["iterations"], found["random_seed"]) == (6, 5)


@pytest.mark.parametrize("suffix", ["json", "yaml", "toml"])
def test_a_file(tmp_path, suffix):
    texts = {
        "json": '{"model": {"name": "rrea", "rrea": {"steps": 60}}}',
        "yaml": "model:\n  name: rrea\n  rrea: {steps: 60}\n",
        "toml": '[model]\nname = "rrea"\nrrea.steps = 60\n',
    }
    path = tmp_path / f"settings.{suffix}"
    path.write_text(texts[suffix])
    found = shown("--config", path)
    assert (found["model.name"], found["model.rrea.steps"]) == ("rrea", 60)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    ended = divea(*write_inputs(folder), "--out", folder / "run")
    assert ended.code == 0, ended.err
    return folder / "run"


def test_the_settings_of_a_run_are_those_that_it_was_given_and_those_that_were_chosen(run):
    found = as_json(run)
    expected = Settings.of(None, SETTINGS).resolved().in_use()
    confidence = {**expected["confidence"], "folds": 0}
    # The pair has neither names nor literals.
    chosen = {"size": 150, "confidence": confidence, "features": {"name": "none"}}
    assert found == flat_update(expected, **chosen)
    assert shown(run) == flat(found)


def flat_update(settings, **changes):
    return {**settings, **changes}


def test_a_run_cannot_be_shown_with_other_settings(run, tmp_path):
    for arguments in (["--preset", "best"], ["--set", "subtasks=3"]):
        ended = divea("settings", run, *arguments)
        assert ended.code == 2 and "leave out --preset, --config and --set" in ended.err
    ended = divea("settings", tmp_path)
    assert ended.code == 2 and "no run" in ended.err and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "division=divea"],
        [],
        ["--preset", "best"],
        ["--set", "division=cps"],
        ["--set", "iterations=1"],
        ["--set", "confidence.precision=0.9"],
    ],
)
def test_the_json_is_read_again_by_config(tmp_path, arguments):
    first = divea("settings", *arguments, "--json")
    (tmp_path / "settings.json").write_text(first.out)
    second = divea("settings", "--config", tmp_path / "settings.json", "--json")
    assert second.code == 0, second.err
    assert second.out == first.out


def test_the_json_of_a_run_is_read_again_by_config(run, tmp_path):
    (tmp_path / "settings.json").write_text(divea("settings", run, "--json").out)
    assert as_json("--config", tmp_path / "settings.json") == as_json(run)


def test_the_json_schema_accepts_the_json():
    schema = json.loads(divea("settings", "--json-schema").out)
    assert schema["type"] == "object"
    for arguments in (
        [],
        ["--preset", "best"],
        ["--set", "model.name=gcn-align"],
        ["-set", "division=cps"][:0],
    ):
        assert list(problems(as_json(*arguments), schema, schema)) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["subtasks"], 0),
        (["subtasks"], "5"),
        (["iterations"], 1.5),
        (["output", "one_to_one"], 1),
        (["division", "partitioner"], "scissors"),
        (["division", "delta1"], 1),
        (["model", "label-propagation", "labels"], 0),
        (["modle"], "rrea"),
        (["division", "lambda"], 2),
    ],
)
def test_the_json_schema_refuses_wrong_values(path, value):
    schema = json.loads(divea("settings", "--json-schema").out)
    settings = as_json()
    *groups, name = path
    group = settings
    for key in groups:
        group = group[key]
    group[name] = value
    assert list(problems(settings, schema, schema)) == [".".join(path)]


TYPES = {"object": dict, "array": list, "string": str, "null": type(None), "boolean": bool}
LIMITS = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}


def problems(value, node, schema, path=""):
    """The paths at which a value does not fit a JSON schema that uses the keywords of ours."""
    if "$ref" in node:
        node = {**schema["$defs"][node["$ref"].removeprefix("#/$defs/")], **node}
    if "anyOf" in node and all(any(problems(value, branch, schema, path)) for branch in node["anyOf"]):
        branches = [list(problems(value, branch, schema, path)) for branch in node["anyOf"]]
        yield from max(branches, key=lambda found: max(map(len, found)))
    if "type" in node and not has_type(value, node["type"]):
        yield path
        return
    if "enum" in node and value not in node["enum"]:
        yield path
    if any(keyword in node and not fits(value, node[keyword]) for keyword, fits in LIMITS.items()):
        yield path
    if isinstance(value, dict):
        for name, item in value.items():
            below = f"{path}.{name}".lstrip(".")
            if name in node.get("properties", {}):
                yield from problems(item, node["properties"][name], schema, below)
            elif node.get("additionalProperties") is False:
                yield below


def has_type(value, name):
    if name in ("integer", "number"):
        kinds = int if name == "integer" else (int, float)
        return isinstance(value, kinds) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])
