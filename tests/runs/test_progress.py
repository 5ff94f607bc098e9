"""What the progress of a run shows, in a terminal, in a notebook and elsewhere."""

import sys
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest
from jupyter_client.manager import start_new_kernel

import divea
from divea.errors import InputError
from divea.runs.displays import Notebook, PlainLines, Terminal, choose_display, is_watched
from divea.runs.progress import Progress, clock
from tests.runs.tiny import PAIR, SETTINGS

ESCAPE = "\x1b[31m"


# The live line.


def test_the_live_line_keeps_moving(monkeypatch):
    now = 1000.0
    monkeypatch.setattr("divea.runs.progress.time.time", lambda: now)
    progress = Progress()
    assert progress.live_line() == "opening the run"
    progress("started", iterations=2, subtasks=2, costs=[1.0, 5.0])
    progress("iteration", iteration=0, subtasks=2, solved_before=0)
    now += 41
    expected = "iteration 1 of 2, 0 of 2 subtasks, 0 pseudo-seeds, solving for 0:41; 0:41 so far"
    assert progress.live_line() == expected
    now += 19
    progress("solved", iteration=0, subtasks=[1], seconds=60.0, peak_memory=0, peak_gpu_memory=0)
    now += 10
    # One more subtask of a minute, ten seconds of which are over, and two of five minutes.
    expected = (
        "iteration 1 of 2, 1 of 2 subtasks, 0 pseudo-seeds, solving for 0:10; 1:10 so far; about 10:50 left"
    )
    assert progress.live_line() == expected


def test_the_live_line_shows_the_steps_of_models_in_training():
    progress = Progress()
    progress("started", iterations=2, subtasks=9, costs=[1.0, 5.0])
    progress("iteration", iteration=0, subtasks=9, solved_before=0)
    progress("steps", subtasks=[2], done=30, all=60)
    assert ", subtask 2: step 30 of 60; " in progress.live_line()
    for first in (3, 5, 7):
        progress("steps", subtasks=[first, first + 1], done=first, all=9)
    shown = "for 0:00, subtask 2: step 30 of 60, subtasks 3 to 4: step 3 of 9; "
    assert shown in progress.live_line()
    progress("solved", iteration=0, subtasks=[2], seconds=60.0, peak_memory=0, peak_gpu_memory=0)
    progress("failed", iteration=0, subtasks=[3, 4], reason="none")
    assert "for 0:00, subtasks 5 to 6: step 5 of 9, subtasks 7 to 8" in progress.live_line()
    progress("learned", iteration=0, pseudo_seeds=3)
    assert "step" not in progress.live_line()
    progress("iteration", iteration=1, subtasks=9, solved_before=0)
    assert "step" not in progress.live_line()


def test_the_clock():
    assert [clock(seconds) for seconds in (-3, 0, 59.6, 3599, 3600, 90_000)] == [
        "0:00",
        "0:00",
        "1:00",
        "59:59",
        "1:00:00",
        "25:00:00",
    ]


def test_notes_are_escaped(capsys):
    progress = Progress()
    progress("note", text=f"label {ESCAPE}red\nsecond line")
    assert capsys.readouterr().err == "note: label \\x1b[31mred\\nsecond line\n"


# Where it is shown.


def pretend_to_be_a_notebook(monkeypatch, shown):
    """Replace IPython by a module whose shell has a kernel, and collect the contents of its one output."""

    def display(content, *, raw, display_id):
        assert raw and display_id
        shown.append(content["text/plain"])
        return SimpleNamespace(update=lambda content, raw: shown.append(content["text/plain"]))

    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)


def test_the_display_is_that_of_the_process(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    assert isinstance(choose_display(), PlainLines) and not is_watched()
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: True))
    assert isinstance(choose_display(), Terminal) and is_watched()
    for odd in (None, SimpleNamespace()):
        monkeypatch.setattr("sys.stderr", odd)
        assert isinstance(choose_display(), PlainLines) and not is_watched()
    shell = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert not is_watched(), "IPython in a terminal has a shell without a kernel"
    shell.kernel = object()
    assert isinstance(choose_display(), Notebook) and is_watched()


@pytest.mark.parametrize("stream", [None, "closed", "full"])
def test_plain_lines_that_nobody_can_read_end_nothing(monkeypatch, tmp_path, stream):
    file = (tmp_path / "lines").open("w")
    if stream == "full":
        file = open("/dev/full", "w")  # noqa: PTH123, SIM115
    if stream == "closed":
        file.close()
    if stream is not None:
        with pytest.raises((OSError, ValueError)):
            print("nobody reads this", file=file, flush=True)
    monkeypatch.setattr("sys.stderr", None if stream is None else file)
    assert PlainLines().line("nobody reads this") is None


def test_a_notebook_has_one_output_that_keeps_moving(monkeypatch):
    shown = []
    pretend_to_be_a_notebook(monkeypatch, shown)
    monkeypatch.setattr("divea.runs.displays.UPDATE_SECONDS", 0.01)
    with Progress(choose_display()) as progress:
        assert shown[0] == "opening the run"
        progress("note", text=f"{ESCAPE}red")
        while not shown[-1].startswith("note"):
            time.sleep(0.01)
        assert shown[-1] == "note: \\x1b[31mred\nopening the run"
        progress("started", iterations=1, subtasks=1, costs=[1.0])
        while "so far" not in shown[-1]:
            time.sleep(0.01)
    assert shown[-1] == "note: \\x1b[31mred"
    count = len(shown)
    time.sleep(0.05)
    assert len(shown) == count, "the clock has stopped"


def test_a_notebook_stops_moving_if_the_run_fails(monkeypatch):
    shown = []
    pretend_to_be_a_notebook(monkeypatch, shown)
    before = threading.active_count()
    with pytest.raises(InputError, match="no seeds"):
        divea.align(divea.AlignmentTask(PAIR.task.source, PAIR.task.target), features="none")
    assert shown[0] == "opening the run" and threading.active_count() == before


# Progress in Python.


def test_progress_is_shown_if_it_is_asked_for(capsys):
    divea.align(PAIR.task, progress=True, device="cpu", **SETTINGS)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "iteration 1 of 2: 2 subtasks" and lines[-1].startswith("note: ")


def test_progress_is_not_shown_where_nobody_watches(capsys):
    divea.align(PAIR.task, device="cpu", **SETTINGS)
    assert capsys.readouterr() == ("", "")


def test_progress_can_be_turned_off(monkeypatch):
    shown = []
    pretend_to_be_a_notebook(monkeypatch, shown)
    divea.align(PAIR.task, progress=False, device="cpu", **SETTINGS)
    assert shown == []
    with pytest.raises(InputError, match="progress: expected True, False or None; found 'yes'"):
        divea.align(PAIR.task, progress="yes", device="cpu", **SETTINGS)


def test_a_real_kernel_shows_progress_and_tables(tmp_path):
    divea.write_task(PAIR.task, tmp_path / "task")
    code = f"import divea\ndivea.align({str(tmp_path / 'task')!r}, device='cpu', **{SETTINGS!r})"
    messages = []
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        client.execute_interactive(code, output_hook=messages.append, timeout=120)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    contents = {}
    for message in messages:
        contents.setdefault(message["msg_type"], []).append(message["content"])
    assert "error" not in contents and "stream" not in contents
    (first,) = contents["display_data"]
    assert {one["transient"]["display_id"] for one in contents["update_display_data"]} == {
        first["transient"]["display_id"]
    }
    assert contents["update_display_data"][-1]["data"]["text/plain"].startswith(
        "iteration 1 of 2: 2 subtasks\n"
    )
    (result,) = contents["execute_result"]
    assert result["data"]["text/plain"].startswith("Alignment(")
    assert result["data"]["text/html"].startswith("<table>")
