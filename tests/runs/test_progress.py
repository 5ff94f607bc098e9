"""What the progress of a run shows, in a terminal, in a notebook and elsewhere."""

import io
import os
import pty
import subprocess
import sys
import time
from types import ModuleType, SimpleNamespace

import pytest

import divea
from divea.errors import InputError
from divea.runs import displays
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
