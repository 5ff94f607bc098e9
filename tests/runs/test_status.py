"""The state of a run, read from its folder, whatever the folder holds."""

import fcntl
import json
import time
from contextlib import contextmanager

import pytest

from divea.config import Settings
from divea.errors import InputError
from divea.io import append_line
from divea.resources.limits import Limits
from divea.runs import manifest as manifest_module
from divea.runs.journal import Entry, Journal
from divea.runs.layout import JOURNAL, LOCK, LOG, MANIFEST, MAPPINGS, SIGNATURE, result_file
from divea.runs.prepare import prepare
from divea.runs.status import runs_in, status_of
from tests.runs.tiny import PAIR

SETTINGS = Settings.of(
    None,
    {"subtasks": 3, "iterations": 4, "last_model": {"name": "rrea+dual-amn", "iterations": 2}},
)
MANIFEST_OF_RUN, _ = prepare(PAIR.task, SETTINGS, Limits("cpu"))

STARTED = {"event": "started", "subtasks": 3, "iterations": 4}
FINISHED = {"event": "finished", "failed": 0}
FINISHED_BEFORE = {"event": "finished before"}
FAILED = {"event": "failed", "iteration": 0, "subtasks": [1], "log": "bad luck"}


def iteration(number, subtasks=3):
    return {"event": "iteration", "iteration": number, "subtasks": subtasks, "solved_before": 0}


def learned(number, pseudo_seeds):
    return {"event": "learned", "iteration": number, "pseudo_seeds": pseudo_seeds}


@pytest.fixture
def make_run(tmp_path):
    """Makes a run directory with these events in its log and these files in its journal."""

    def make(events=(), files=(), name="run"):
        run = tmp_path / name
        run.mkdir(parents=True)
        (run / LOCK).write_bytes(SIGNATURE)
        MANIFEST_OF_RUN.save(run)
        for event in events:
            append_line(run / LOG, {"time": time.time(), **event}, durable=False)
        for file in files:
            Journal(run).append(Entry(file, "checksum", "made from"))
        return run

    return make


@contextmanager
def locked(run):
    """Holds the lock, as a process that works on the run does."""
    with (run / LOCK).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# States.


def test_a_run_that_a_process_works_on_is_running(make_run):
    run = make_run([STARTED, iteration(0)])
    with locked(run):
        assert status_of(run).state == "running"
    assert status_of(run).state == "stopped"


def test_a_run_is_running_whatever_its_folder_holds(make_run):
    run = make_run([STARTED, FINISHED], [MAPPINGS])
    (run / MANIFEST).write_text("{")
    with locked(run):
        assert status_of(run).state == "running"


@pytest.mark.parametrize("last", [[FINISHED], [FINISHED, STARTED, FINISHED_BEFORE]])
def test_a_run_with_its_tables_is_finished(make_run, last):
    assert status_of(make_run([STARTED, iteration(3), *last], [MAPPINGS])).state == "finished"


def test_a_run_with_failed_subtasks_is_incomplete(make_run):
    found = status_of(make_run([STARTED, iteration(0), FAILED, FAILED, FINISHED], [MAPPINGS]))
    assert (found.state, found.failed) == ("incomplete", 2)


def test_subtasks_that_failed_before_the_last_start_do_not_count(make_run):
    found = status_of(make_run([STARTED, FAILED, FINISHED, STARTED, FINISHED], [MAPPINGS]))
    assert (found.state, found.failed) == ("finished", 0)


@pytest.mark.parametrize(
    ("events", "files"),
    [
        pytest.param([], [], id="nothing happened"),
        pytest.param([STARTED, iteration(0)], [result_file(0, 0)], id="in the first iteration"),
        pytest.param([STARTED, FINISHED, STARTED], [MAPPINGS], id="started again"),
        pytest.param([STARTED, FINISHED], [], id="its tables are not in the journal"),
    ],
)
def test_a_run_that_has_not_ended_is_stopped(make_run, events, files):
    assert status_of(make_run(events, files)).state == "stopped"


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"checksum": 5}', "[" * 10_000])
def test_a_run_without_a_valid_manifest_is_damaged(make_run, text):
    run = make_run([STARTED, iteration(1), FINISHED], [MAPPINGS, result_file(1, 0)])
    if text is None:
        (run / MANIFEST).unlink()
    else:
        (run / MANIFEST).write_text(text)
    found = status_of(run)
    assert (found.state, found.model, found.iterations) == ("damaged", "", 0)
    assert (found.iteration, found.solved, found.subtasks) == (2, 1, 3)


def test_a_run_of_another_format_is_damaged(make_run, monkeypatch):
    run = make_run([STARTED, FINISHED], [MAPPINGS])
    monkeypatch.setitem(manifest_module.FORMAT, "version", 99)
    assert status_of(run).state == "damaged"


# Progress.


def test_a_run_that_has_not_started_shows_its_settings(make_run):
    found = status_of(make_run())
    assert (found.iteration, found.iterations, found.solved, found.subtasks) == (0, 4, 0, 3)
    assert (found.pseudo_seeds, found.failed, found.idle_seconds) == (0, 0, 0.0)


def test_the_last_iteration_counts(make_run):
    events = [STARTED, iteration(0), learned(0, 40), iteration(1), learned(1, 60), iteration(2, subtasks=5)]
    files = [result_file(0, 0), result_file(1, 0), result_file(2, 0), result_file(2, 3), result_file(2, 3)]
    found = status_of(make_run(events, files))
    assert (found.iteration, found.iterations) == (3, 4)
    assert (found.solved, found.subtasks) == (2, 5)
    assert found.pseudo_seeds == 60


def test_files_of_another_iteration_are_not_counted(make_run):
    """Iteration 1 is not taken for iterations 10 to 19."""
    found = status_of(make_run([STARTED, iteration(1)], [result_file(1, 0), result_file(10, 0)]))
    assert found.solved == 1


@pytest.mark.parametrize(
    ("number", "model"),
    [
        (None, "label-propagation"),
        (0, "label-propagation"),
        (1, "label-propagation"),
        (2, "rrea+dual-amn"),
        (3, "rrea+dual-amn"),
        (10**9, "rrea+dual-amn"),
    ],
)
def test_the_model_is_that_of_the_iteration(make_run, number, model):
    events = [STARTED] if number is None else [STARTED, iteration(0), iteration(number)]
    assert status_of(make_run(events)).model == model


def test_seconds_count_from_the_last_event(make_run):
    now = time.time()
    run = make_run([{**STARTED, "time": now - 900}, {**iteration(0), "time": now - 100}])
    assert 100 <= status_of(run).idle_seconds < 130


# A log that was torn, or written by somebody else.


BAD_LINES = [
    "{",
    "",
    "7",
    "null",
    "[]",
    '"iteration"',
    "[" * 10_000,
    "\x00",
    '{"event": 3}',
    '{"event": null}',
    '{"event": ["iteration"]}',
    '{"iteration": 7}',
    '{"event": "iteration"',
    f'{{"event": "iteration", "iteration": {"9" * 5000}}}',
]


@pytest.mark.parametrize("line", BAD_LINES)
def test_lines_that_are_no_events_are_left_out(make_run, line):
    run = make_run([STARTED, iteration(1), learned(1, 8), FINISHED], [MAPPINGS])
    expected = status_of(run)
    text = (run / LOG).read_text()
    # Before and after each line; the last one is torn.
    (run / LOG).write_text("".join(f"{line}\n{good}\n" for good in text.splitlines()) + line)
    found = status_of(run)
    assert found.state == "finished"
    assert (found.iteration, found.pseudo_seeds) == (expected.iteration, expected.pseudo_seeds) == (2, 8)


def test_bytes_that_are_no_text_are_left_out(make_run):
    run = make_run([STARTED, iteration(1)])
    (run / LOG).write_bytes(b"\xff\xfe\n" + (run / LOG).read_bytes() + b"\xff\n")
    assert status_of(run).iteration == 2


BAD_NUMBERS = ["null", '"x"', "[]", "{}", "NaN", "Infinity", "-Infinity", "1e300", "-1e300", f"1{'0' * 400}"]


@pytest.mark.parametrize("number", BAD_NUMBERS)
def test_values_that_are_no_sensible_numbers_do_not_count(make_run, number):
    run = make_run([STARTED])
    with (run / LOG).open("a") as file:
        file.write(f'{{"event": "iteration", "iteration": {number}, "subtasks": {number}}}\n')
        file.write(f'{{"event": "learned", "pseudo_seeds": {number}, "time": {number}}}\n')
    found = status_of(run)
    assert (found.state, found.iteration, found.subtasks, found.pseudo_seeds) == ("stopped", 0, 3, 0)
    assert found.model == "label-propagation"
    assert found.idle_seconds >= 0


@pytest.mark.parametrize("number", [-1, -(10**9), 10**9, 2.5, 1e15])
def test_odd_iteration_numbers_are_shown_as_they_are(make_run, number):
    run = make_run([STARTED, {**iteration(0), "iteration": number}])
    found = status_of(run)
    assert found.iteration == int(number) + 1
    assert found.solved == 0


def test_a_damaged_journal_counts_line_by_line(make_run):
    run = make_run([STARTED, iteration(0), FINISHED], [result_file(0, 0), MAPPINGS])
    with (run / JOURNAL).open("ab") as file:
        file.write(b'\xff\n{"file": 3}\n[]\n' + json.dumps({"file": result_file(0, 1)}).encode() + b"\n{")
    found = status_of(run)
    assert (found.state, found.solved) == ("finished", 1)


# Folders.


def test_looking_changes_nothing(make_run):
    run = make_run([STARTED, iteration(0)], [result_file(0, 0)])
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    status_of(run)
    runs_in(run.parent)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        status_of(tmp_path / "missing")
    with pytest.raises(InputError, match="is no run of divea"):
        status_of(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is no run of divea"):
        status_of(tmp_path / "file")


def test_the_runs_of_a_folder_are_listed_by_name(make_run, tmp_path):
    for name in ("c", "a", "b"):
        make_run([STARTED, FINISHED], [MAPPINGS] if name == "a" else [], name=name)
    (tmp_path / "no-run").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / LOCK).write_bytes(SIGNATURE)
    found = [(status.path, status.state) for status in runs_in(tmp_path)]
    assert found == [
        (tmp_path / "a", "finished"),
        (tmp_path / "b", "stopped"),
        (tmp_path / "c", "stopped"),
        (tmp_path / "damaged", "damaged"),
    ]


def test_a_run_is_listed_as_itself(make_run):
    run = make_run([STARTED])
    assert [status.path for status in runs_in(run)] == [run]


def test_a_folder_without_runs_gives_an_empty_list(tmp_path):
    (tmp_path / "folder" / "deeper").mkdir(parents=True)
    assert runs_in(tmp_path) == []


@pytest.mark.parametrize("name", ["missing", "file"])
def test_runs_of_what_is_no_folder_are_refused(tmp_path, name):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no such folder"):
        runs_in(tmp_path / name)
