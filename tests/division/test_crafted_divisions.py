"""Division folders that somebody made to do harm: each is refused with one line that names the file."""

import json
import os

import numpy as np
import pytest

from divea.division import DivEA, load_division, write_division
from divea.errors import InputError
from divea.graphs.synth import SynthConfig, synthesise

LISTS = ("source_entities", "target_entities", "unmatched", "candidates")
FILES = (
    "division.json",
    "arrays/groups.npy",
    *(f"arrays/{name}{end}.npy" for name in LISTS for end in ("", "_ends")),
)


@pytest.fixture(scope="module")
def task():
    return synthesise(SynthConfig(entities=200, random_seed=8)).task


@pytest.fixture(scope="module")
def division(task):
    return DivEA(2, 250).divide(task)


@pytest.fixture
def folder(task, division, tmp_path):
    write_division(division, task, tmp_path / "d", layouts=[])
    return tmp_path / "d"


def changed(name, change):
    def craft(folder):
        path = folder / "arrays" / f"{name}.npy"
        array = np.load(path)
        found = change(array)
        np.save(path, array if found is None else found)

    return craft


def set_to(row, value):
    return lambda array: array.__setitem__(row, value)


def described(**changes):
    def craft(folder):
        path = folder / "division.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return craft


def text(content):
    return lambda folder: (folder / "division.json").write_text(content)


def fifo(name):
    def craft(folder):
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return craft


def huge_shape(folder):
    path = folder / "arrays/unmatched.npy"
    data = path.read_bytes()
    start = data.index(b"(") + 1
    end = data.index(b",)", start)
    header = data[:start] + b"9" * 15 + data[end : 128 - 16 + (end - start)] + b"\n"
    path.write_bytes(header + data[128:])


CASES = {
    **{
        f"{name} {value}": (changed(name, set_to(-1, value)), f"{name}.npy: is damaged (it has entity ids")
        for name in LISTS
        for value in (200, 2**31 - 1, -1)
    },
    "part that is none": (changed("groups", set_to(3, 2)), "groups.npy: has parts outside -1..1"),
    "negative part": (changed("groups", set_to(3, -7)), "groups.npy: has parts outside -1..1"),
    "parts of 64 bits": (
        changed("groups", lambda groups: groups.astype(np.int64)),
        "groups.npy: is no .npy file of int32",
    ),
    "parts of other entities": (
        changed("groups", lambda groups: groups[:-1]),
        "divides a source of 199 entities",
    ),
    "overlapping lists": (
        changed("source_entities_ends", set_to(0, 2**40)),
        "its lists do not fit source_entities.npy",
    ),
    "lists beyond the end": (
        changed("candidates_ends", lambda ends: ends + 1),
        "its lists do not fit candidates.npy",
    ),
    "negative end": (changed("unmatched_ends", set_to(0, -5)), "its lists do not fit unmatched.npy"),
    "fewer lists": (
        changed("unmatched_ends", lambda ends: ends[1:]),
        "division.json: subtasks: 2 is not the number of lists",
    ),
    "ends of 32 bits": (
        changed("unmatched_ends", lambda ends: ends.astype(np.int32)),
        "is no .npy file of int64 numbers",
    ),
    "unmatched twice": (
        changed("unmatched", lambda ids: ids[[1, *range(1, len(ids))]]),
        "unmatched.npy: holds an entity twice",
    ),
    "entity twice": (
        changed("source_entities", lambda ids: ids[[1, *range(1, len(ids))]]),
        "holds an entity twice",
    ),
    "candidate twice": (
        changed("candidates", lambda ids: ids[[1, *range(1, len(ids))]]),
        "candidates.npy: subtask 0 holds an entity twice",
    ),
    "more rows than the file has": (huge_shape, "its size does not fit the shape"),
    "deep JSON": (text('{"a":' * 100_000), "is nested too deeply"),
    "huge integer": (text("9" * 5_000), "Exceeds the limit"),
    "a list": (text("[]"), "has another format"),
    "another format": (described(version=99), "has another format"),
    "billions of subtasks": (described(subtasks=10**12), "subtasks: 1000000000000 is not the number"),
    "subtasks of text": (described(subtasks="2"), "subtasks: '2' is not the number"),
    "notes of numbers": (described(notes=[1]), "notes is not a list of texts"),
    "no notes": (described(notes=None), "notes is not a list of texts"),
    "shares of text": (described(shares={"source": "x", "connecting": 0}), "shares has no numbers"),
    "a list of shares": (described(shares=[1]), "shares is not an object"),
    "share out of range": (
        described(shares={"source": 7, "connecting": 0}),
        "division.json: delta1 is a share",
    ),
    "share of NaN": (
        described(shares={"source": float("nan"), "connecting": 0}),
        "division.json: delta1 is a share",
    ),
    **{f"pipe as {name}": (fifo(name), "is not a regular file") for name in FILES},
}


@pytest.mark.parametrize("craft, message", CASES.values(), ids=CASES.keys())
def test_a_crafted_division_is_refused_with_one_line(task, folder, craft, message):
    craft(folder)
    with pytest.raises(InputError) as caught:
        load_division(folder, task)
    assert message in str(caught.value)
    assert str(folder) in str(caught.value) and "\n" not in str(caught.value)


def test_the_division_that_the_cases_change_is_read(task, division, folder):
    assert load_division(folder, task).subtasks == division.subtasks
