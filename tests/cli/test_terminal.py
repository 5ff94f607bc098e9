"""What reaches a terminal is text, and a terminal that is gone ends no run."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from divea.errors import InputError
from divea.runs.status import runs_in
from tests.command_line import divea
from tests.privileges import without_privileges
from tests.runs.tiny import tables, write_inputs

ESCAPE = "\x1b[31m"


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terminal")
    assert divea(*write_inputs(folder), "--out", folder / "run").code == 0
    (folder / "gold.tsv").write_text("")
    return folder


# Streams that are closed or broken.


@pytest.mark.parametrize("closed", ["2>&-", ">&-", "<&-", ">&- 2>&-", "2>/dev/full", "2>&1 | head -c 1"])
def test_a_closed_stream_ends_no_run(finished, tmp_path, closed):
    command = [
        sys.executable,
        "-m",
        "divea",
        *map(str, write_inputs(tmp_path)),
        "--out",
        str(tmp_path / "run"),
    ]
    line = " ".join(f"'{word}'" for word in command)
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{line} {closed}"], capture_output=True, text=True
    )
    assert ended.returncode == 0, ended
    assert "Traceback" not in ended.stderr
    assert tables(tmp_path / "run") == tables(finished / "run")


def test_results_on_a_full_disk_are_an_error_of_one_line(finished):
    command = f"{sys.executable} -m divea status {finished / 'run'} > /dev/full"
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (2, "divea: No space left on device\n")


def test_a_terminal_shows_how_far_a_run_is(finished, tmp_path):
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "divea",
        *map(str, write_inputs(tmp_path)),
        "--out",
        str(tmp_path / "run"),
    ]
    running = subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "200"})
    os.close(theirs)
    shown = b""
    while True:
        try:
            read = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not read:
            break
        shown += read
    os.close(ours)
    assert running.wait() == 0
    text = shown.decode()
    assert "so far" in text and "left" in text and "subtasks" in text


# Names that would control the terminal, or that nothing can open.


@pytest.mark.parametrize("name", [f"{ESCAPE}x", "a\nb", "[/red]", "[bold]", "caf\udce9", "\u202ecba"])
@pytest.mark.parametrize(
    "command", ["info", "status", "runs", "settings", "plan", "divide", "evaluate", "align"]
)
def test_a_file_name_cannot_control_the_terminal(finished, tmp_path, command, name):
    words = [command, tmp_path / name]
    if command == "evaluate":
        words += ["--gold", finished / "gold.tsv"]
    if command == "align":
        words += ["--out", tmp_path / "run"]
    ended = divea(*words)
    assert ended.code == 2 and ended.err.count("\n") == 1 and ended.err.startswith("divea: ")
    for character in (ESCAPE[0], "\u202e", "\udce9"):
        assert character not in ended.err


def test_runs_with_names_that_would_control_the_terminal_are_listed(finished, tmp_path):
    (tmp_path / f"{ESCAPE}run").symlink_to(finished / "run")
    (tmp_path / "caf\udce9").symlink_to(finished / "run")
    listed = divea("runs", tmp_path)
    assert listed.code == 0 and listed.out.count("finished") == 2
    assert ESCAPE not in listed.out and "\\x1b[31mrun" in listed.out and "caf\\udce9" in listed.out
    assert len(json.loads(divea("runs", tmp_path, "--json").out)) == 2


LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["info", "BAD"],
        ["align", "BAD", "--out", "new"],
        ["align", "TASK", "--out", "BAD"],
        ["align", "--out", "BAD"],
        ["evaluate", "BAD", "--gold", "GOLD"],
        ["evaluate", "RUN", "--gold", "BAD"],
        ["status", "BAD"],
        ["runs", "BAD"],
        ["settings", "BAD"],
        ["settings", "--config", "BAD"],
        ["convert", "BAD", "new.tsv"],
        ["convert", "TASK", "BAD"],
        ["synth", "BAD", "--entities", 50],
        ["divide", "TASK", "-n", 2, "--out", "BAD"],
        ["evaluate-division", "BAD", "--task", "TASK", "--gold", "GOLD"],
        ["plan", "BAD"],
        ["reproduce", "cps", "--out", "new", "--data", "BAD"],
        ["reproduce", "cps", "--out", "BAD", "--data", "BAD"],
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_a_path_that_cannot_be_reached_is_an_error_of_one_line(finished, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    Path("locked").mkdir()
    Path("locked").chmod(0)
    known = {"TASK": finished / "task", "RUN": finished / "run", "GOLD": finished / "gold.tsv"}
    with without_privileges():
        for bad in (LONG, f"{LONG}/inside", "locked/inside", "locked"):
            ended = divea(*(bad if word == "BAD" else known.get(word, word) for word in words))
            assert ended.code == 2, (bad, ended)
            assert ended.err.count("\n") == 1 and ended.err.startswith("divea: "), (bad, ended)


def test_a_folder_that_may_not_be_read_does_not_hide_other_runs(finished, tmp_path):
    (tmp_path / "locked").mkdir(mode=0)
    (tmp_path / "run").symlink_to(finished / "run")
    with without_privileges():
        found = {status.path.name: status.state for status in runs_in(tmp_path)}
        listed = divea("runs", tmp_path)
    assert found == {"run": "finished"}
    assert listed.code == 0 and "finished" in listed.out


def test_the_folder_itself_may_be_unreadable(tmp_path):
    (tmp_path / "locked").mkdir(mode=0)
    with without_privileges(), pytest.raises((OSError, InputError)):
        runs_in(tmp_path / "locked")
