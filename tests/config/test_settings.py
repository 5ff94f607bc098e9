"""Settings survive a file, and nonsense in them is named."""

import json

import pytest

from divea.alignment.settings import PRESETS, Settings
from divea.errors import InputError


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_survives_a_file(name, tmp_path):
    settings = Settings.preset(name, seed=3, size=700)
    settings.save(tmp_path / "settings.json")
    assert Settings.load(tmp_path / "settings.json") == settings
    assert Settings.load(tmp_path / "settings.json", seed=4).seed == 4


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"modle": "rrea"}, "unknown setting 'modle'"),
        ({"subtasks": "5"}, "'subtasks' is int"),
        ({"subtasks": True}, "'subtasks' is int"),
        ({"subtasks": 0}, "subtasks must be at least 1"),
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"seed": -1}, "seed must not be negative"),
        ({"held_back": 1.0}, "held_back is a share"),
        ({"threshold": "high"}, "'threshold' is float"),
        ({"model_options": [1]}, "'model_options' is dict"),
    ],
)
def test_nonsense_is_refused(values, complaint, tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=complaint):
        Settings.load(tmp_path / "settings.json")


@pytest.mark.parametrize("text", ["", "[1, 2]", "{", "null"])
def test_what_is_no_object_is_refused(text, tmp_path):
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(InputError, match="JSON"):
        Settings.load(tmp_path / "settings.json")


def test_the_last_model_comes_last():
    settings = Settings(model="rrea", last_model="dual-amn", iterations=5, last_iterations=2)
    assert [settings.model_at(i)[0] for i in range(5)] == ["rrea"] * 3 + ["dual-amn"] * 2
    short = Settings(model="rrea", last_model="dual-amn", iterations=2, last_iterations=5)
    assert [short.model_at(i)[0] for i in range(2)] == ["rrea", "dual-amn"]
