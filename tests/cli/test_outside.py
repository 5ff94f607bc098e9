"""No command line and no call of the API ends with a traceback, however far outside its values are."""

import re
import shutil
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import divea as package
from divea.errors import InputError
from tests.cli.outside import (
    COMMANDS,
    NUMBERS,
    PATHS,
    SETTING_PATHS,
    VALID,
    WORDS,
    command_lines,
    scratch,
)
from tests.cli.outside import SMALL as SMALL_OPTIONS
from tests.command_line import divea

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")
QUICK, MANY = 300, 10_000


@pytest.fixture(scope="module")
def inputs():
    with scratch() as folder:
        yield folder


def check(words):
    """The command ends with an exit code that is documented and prints nothing but text."""
    ended = divea(*words)
    assert ended.code in (0, 2, 4), (words, ended)
    assert not CONTROL.search(ended.out + ended.err), (words, ended)
    if ended.code:
        assert ended.err.splitlines()[-1].startswith("divea: "), (words, ended)
    return ended.code


@settings(max_examples=QUICK, database=None)
@given(words=command_lines())
def test_a_command_line_from_outside_is_refused_in_one_line(inputs, words):
    check(words)


@pytest.mark.slow
def test_many_command_lines_from_outside(inputs, capsys):
    ended = Counter()

    @settings(max_examples=MANY, database=None)
    @given(words=command_lines())
    def draw(words):
        ended[words[0], check(words)] += 1

    draw()
    with capsys.disabled():
        print(f"\n{ended.total()} command lines")
        for name in sorted(COMMANDS):
            print(f"{name:18} exit 0: {ended[name, 0]:5}  exit 2: {ended[name, 2]:5}  4: {ended[name, 4]}")
    assert ended.total() >= MANY


FIGURES = st.sampled_from(
    [-1, 0, 1, 0.5, 2**31, 10**30, -(10**30), 10**5000, -(10**5000), float("nan"), float("inf")]
)
VALUES = FIGURES | st.sampled_from([*NUMBERS, *WORDS, None, True, [], {}, {"a": 1}, b"x", "a\0b"])
API_PATHS = PATHS | st.just("a\0b")
SMALL = {"subtasks": 2, "iterations": 1, "model": {"label-propagation": {"heads": 16, "labels": 32}}}


def align(draw):
    changes = SMALL | draw(st.dictionaries(st.sampled_from(SETTING_PATHS), VALUES, max_size=2))
    options = {"device": draw(st.sampled_from(["cpu", "cpu", "tpu", "", 3, None]))}
    options |= {name: draw(VALUES) for name in draw(st.sets(st.sampled_from(["memory", "gpu_memory"])))}
    return package.align(draw(API_PATHS), out=draw(API_PATHS), **options, **changes)


def evaluate(draw):
    alignment = package.Alignment(draw(st.just("run") | API_PATHS))
    return alignment.evaluate(
        draw(API_PATHS), draw(st.just("open") | st.sampled_from(WORDS)), min_confidence=draw(FIGURES)
    )


def export(draw):
    options = ["precision", "min_confidence", "names", "seeds", "context", "for_spreadsheet"]
    given = {name: draw(VALUES) for name in draw(st.sets(st.sampled_from(options), max_size=2))}
    return package.Alignment("run").export(draw(API_PATHS | st.just("new.tsv")), **given)


def explain(draw):
    label = st.just("http://source.example/resource/E102") | VALUES
    return package.Alignment("run").explain(draw(label), draw(VALUES))


CALLS = {
    "align": align,
    "evaluate": evaluate,
    "explain": explain,
    "export": export,
    "settings": lambda draw: package.Settings.of(
        draw(st.sampled_from([None, "fast", "best", "", 3])),
        draw(st.dictionaries(st.sampled_from(SETTING_PATHS), VALUES, max_size=3)),
    ),
    "load": lambda draw: package.Settings.load(draw(API_PATHS)),
    "read task": lambda draw: package.read_task(draw(API_PATHS), draw(st.none() | API_PATHS)),
    "read graph": lambda draw: package.read_graph(draw(API_PATHS)),
    "report": lambda draw: package.Alignment("run").report(draw(API_PATHS), draw(VALUES | API_PATHS)),
    "review": lambda draw: package.Alignment("run").review(
        draw(API_PATHS | st.just("new.tsv")), draw(VALUES)
    ),
    "suggest": lambda draw: package.suggest(
        draw(st.just("run") | API_PATHS), draw(API_PATHS | st.just("new.tsv")), draw(VALUES)
    ),
    "make task": lambda draw: package.make_task(draw(VALUES), draw(VALUES), draw(VALUES)),
    "save": lambda draw: package.Alignment("run").save(draw(API_PATHS)),
}


@settings(max_examples=QUICK, database=None)
@given(name=st.sampled_from(sorted(CALLS)), data=st.data())
def test_a_call_from_outside_is_refused(inputs, name, data):
    try:
        CALLS[name](data.draw)
    except (InputError, OSError) as error:
        assert str(error)


@pytest.mark.slow
def test_many_calls_from_outside(inputs, capsys):
    ended = Counter()

    @settings(max_examples=MANY, database=None)
    @given(name=st.sampled_from(sorted(CALLS)), data=st.data())
    def draw(name, data):
        try:
            CALLS[name](data.draw)
            ended["accepted"] += 1
        except (InputError, OSError) as error:
            ended[type(error).__name__] += 1

    draw()
    with capsys.disabled():
        print(f"\n{ended.total()} calls: {dict(ended)}")
    assert ended.total() >= MANY


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_command_lines_that_are_changed_work(inputs, name):
    assert set(VALID) == set(COMMANDS)
    for path in ("new-run", "new-pair"):
        shutil.rmtree(path, ignore_errors=True)
    ended = divea(name, *SMALL_OPTIONS.get(name, []), *VALID[name])
    assert ended.code == 0, ended
