"""What a run directory promises: it continues, it refuses what is not its own, it survives a bad disk."""

import errno
import fcntl
import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.alignment.solve import Solved
from divea.division import Whole
from divea.matching import Matches
from divea.run import align, manifest, prepare
from divea.run.journal import Entry, Journal, read_journal
from divea.run.manifest import versions
from divea.run.results import read_solved, write_solved
from tests.command_line import divea
from tests.run.tiny import PAIR, SETTINGS, solved_now, tables, write_inputs


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("directory")
    command = write_inputs(folder)
    assert divea(*command, "--out", folder / "run").code == 0
    return command, folder / "run", tables(folder / "run")


def test_the_same_again_has_nothing_to_do(finished):
    command, run, expected = finished
    times = {
        path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name not in ("log.jsonl", "lock")
    }
    for again in (command, ["align"]):
        ended = divea(*again, "--out", run)
        assert ended.code == 0 and "this run is finished" in ended.err
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert tables(run) == expected


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (["--seed", 7], "seed 0, now 7"),
        (["-n", 3, "--matching", "csls"], "subtasks 2, now 3; matching 'sinkhorn', now 'csls'"),
        (["--memory", "9GiB"], "memory None, now"),
    ],
)
def test_other_settings_are_refused_by_name(finished, changes, told):
    command, run, expected = finished
    ended = divea(*command, *changes, "--out", run)
    assert ended.code == 2 and told in ended.err and ended.err.count("\n") == 1, ended.err
    assert tables(run) == expected


def test_other_inputs_are_refused_by_name(finished, tmp_path):
    command, run, expected = finished
    assert divea("synth", tmp_path / "other", "--entities", 150, "--seed", 2).code == 0
    ended = divea("align", tmp_path / "other" / "task", *command[2:], "--out", run)
    assert ended.code == 2 and "the source graph; the target graph; the seeds" in ended.err
    seeds = zip(*PAIR.task.seeds.labels(PAIR.task.source, PAIR.task.target), strict=True)
    fewer = tmp_path / "seeds.tsv"
    fewer.write_text("".join(f"{a}\t{b}\n" for a, b in list(seeds)[:20]))
    ended = divea(*command, "--seeds", fewer, "--out", run)
    assert ended.code == 2 and "(the seeds)" in ended.err, ended.err
    assert divea("align", "--seed", 1, "--out", run).code == 2
    assert tables(run) == expected


def test_other_versions_are_refused_by_name(finished, monkeypatch):
    command, run, expected = finished
    monkeypatch.setattr(prepare, "versions", lambda: {**versions(), "torch": "99"})
    ended = divea(*command, "--out", run)
    assert ended.code == 2 and "now '99'" in ended.err and "torch" in ended.err
    assert tables(run) == expected


def test_another_format_is_refused_not_overwritten(finished, monkeypatch, tmp_path):
    command, _, _ = finished
    monkeypatch.setitem(manifest.FORMAT, "version", 2)
    assert divea(*command, "--out", tmp_path / "run").code == 0
    monkeypatch.undo()
    before = (tmp_path / "run" / "manifest.json").read_bytes()
    ended = divea(*command, "--out", tmp_path / "run")
    assert ended.code == 2 and "another format" in ended.err
    assert (tmp_path / "run" / "manifest.json").read_bytes() == before


def test_a_second_process_is_refused(finished):
    command, run, _ = finished
    with (run / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = divea(*command, "--out", run)
        assert ended.code == 2 and "another process is at work" in ended.err
        assert "at work" in divea("status", run).out
    assert divea(*command, "--out", run).code == 0


def test_what_is_no_run_is_left_alone(finished, tmp_path):
    command, _, _ = finished
    (tmp_path / "precious").write_text("mine")
    ended = divea(*command, "--out", tmp_path)
    assert ended.code == 2 and "no run of divea" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    ended = divea(*command, "--out", tmp_path / "precious")
    assert ended.code == 2 and "is a file" in ended.err


@pytest.fixture
def interrupted(monkeypatch):
    """Makes the n-th commit fail in a given way."""

    def arrange(number, deed):
        commits = 0
        commit = align.RunDirectory.commit

        def counting(self, *arguments):
            nonlocal commits
            commits += 1
            if commits == number:
                deed(self.path)
            commit(self, *arguments)

        monkeypatch.setattr(align.RunDirectory, "commit", counting)

    yield arrange
    monkeypatch.undo()


def test_a_folder_removed_under_it(finished, interrupted, monkeypatch, tmp_path):
    command, _, expected = finished
    interrupted(2, shutil.rmtree)
    ended = divea(*command, "--out", tmp_path / "run")
    assert ended.code == 2 and "removed or replaced" in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err
    monkeypatch.undo()
    assert divea(*command, "--out", tmp_path / "run").code == 0
    assert tables(tmp_path / "run") == expected


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("number", [2, 6])
def test_a_disk_that_refuses(finished, monkeypatch, tmp_path, error, number):
    command, _, expected = finished
    calls = 0
    fsync = os.fsync

    def failing(handle):
        nonlocal calls
        calls += 1
        # The task and the manifest come first; then each commit flushes file, folder and journal.
        if calls == 12 + 3 * number:
            raise OSError(error, os.strerror(error))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", failing)
    ended = divea(*command, "--out", tmp_path / "run")
    assert ended.code == 2, ended
    assert os.strerror(error) in ended.err.splitlines()[-1]
    assert sum(line.startswith("divea: ") for line in ended.err.splitlines()) == 1
    monkeypatch.undo()
    assert divea(*command, "--out", tmp_path / "run").code == 0
    assert solved_now(tmp_path / "run") < 4
    assert tables(tmp_path / "run") == expected


def test_ctrl_c_says_how_to_go_on(finished, interrupted, monkeypatch, tmp_path):
    command, _, expected = finished

    def press(_):
        raise KeyboardInterrupt

    interrupted(3, press)
    run = tmp_path / "run"
    ended = divea(*command, "--out", run)
    assert ended.code == 130 and f"divea align --out {run}" in ended.err.splitlines()[-1]
    monkeypatch.undo()
    assert "stopped" in divea("status", run).out
    assert divea("align", "--out", run).code == 0
    assert tables(run) == expected


def test_a_failing_subtask_is_set_aside_and_done_the_next_time(finished, monkeypatch, tmp_path):
    from divea.run import shrinking

    command, _, expected = finished
    solve_job = shrinking.solve_job

    def failing(task, job):
        if job.iteration == 0 and job.subtasks[0].index == 1:
            raise RuntimeError("bad luck")
        return solve_job(task, job)

    monkeypatch.setattr(shrinking, "solve_job", failing)
    run = tmp_path / "run"
    ended = divea(*command, "--out", run, "--executor", "inline")
    assert ended.code == 3 and "bad luck" in ended.err
    assert "incomplete" in divea("status", run).out
    assert tables(run) != expected
    monkeypatch.undo()
    assert divea(*command, "--out", run).code == 0
    assert tables(run) == expected
    assert "finished" in divea("status", run).out


@settings(max_examples=25)
@given(st.lists(st.tuples(st.text(min_size=1), st.text(), st.text()), max_size=5), st.integers(0, 400))
def test_a_torn_journal_loses_lines_from_its_end_only(tmp_path_factory, lines, cut):
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder)
    entries = [Entry(*line) for line in lines]
    for entry in entries:
        journal.append(entry)
    assert read_journal(folder) == entries
    data = journal.path.read_bytes() if entries else b""
    journal.path.write_bytes(data[:cut])
    left = read_journal(folder)
    assert left == entries[: data[:cut].count(b"\n")]
    again = Journal(folder)
    again.mend()
    again.append(Entry("new", "a", "b"))
    assert read_journal(folder) == [*left, Entry("new", "a", "b")]


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b'{"file": 3, "checksum": "a", "made_from": "b"}',
        b'{"file": "a"}',
        b'{"file": "a", "checksum": "a", "made_from": "b", "more": 1}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_line_is_no_line(tmp_path, line):
    good = b'{"file": "a", "checksum": "b", "made_from": "c"}'
    (tmp_path / "journal.jsonl").write_bytes(b"\n".join([line, good, line, b""]))
    assert read_journal(tmp_path) == [Entry("a", "b", "c")]


def test_no_path_is_taken_from_the_journal(finished, tmp_path):
    command, run, expected = finished
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    with (copy / "journal.jsonl").open("a") as file:
        for name in ("../precious", "/etc/passwd", "iteration-0/../../precious"):
            file.write(json.dumps({"file": name, "checksum": "x", "made_from": "y"}) + "\n")
    ended = divea(*command, "--out", copy)
    assert ended.code == 0 and "finished" in ended.err
    assert tables(copy) == expected


def solved(rows):
    target = np.tile(np.int32([0, -1]), (len(rows), 1))
    return Matches(rows, target, np.zeros((len(rows), 2), np.float32), np.zeros(len(rows), bool))


def test_results_are_arrays_of_their_subtask_and_nothing_else(tmp_path):
    subtask = Whole().divide(PAIR.task).subtasks[0]
    rows, sums = subtask.unmatched, np.zeros(len(subtask.candidates), np.float32)
    good = solved(rows)
    good.target[:, 0] = subtask.candidates[0]
    path = tmp_path / "result.npz"
    write_solved(Solved(good, sums), path)
    assert read_solved(path, subtask) is not None
    anchor = PAIR.task.seeds.target[0]
    for wrong in (
        Solved(solved(rows[1:]), sums),
        Solved(good, sums[1:]),
        Solved(good, sums.astype(np.float64)),
        Solved(Matches(rows, good.target.astype(np.int64), good.score, good.mutual), sums),
        Solved(
            Matches(rows, np.where(good.target >= 0, anchor, -1).astype(np.int32), *good_rest(good)), sums
        ),
        Solved(Matches(rows, good.target, good.score[:, :1], good.mutual), sums),
    ):
        write_solved(wrong, path)
        assert read_solved(path, subtask) is None
    np.savez(path, source=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert read_solved(path, subtask) is None
    path.write_bytes(b"PK not really")
    assert read_solved(path, subtask) is None


def good_rest(matches):
    return matches.score, matches.mutual


def test_settings_stand_in_the_manifest(finished):
    _, run, _ = finished
    stored = json.loads((run / "manifest.json").read_text())
    assert {key: stored["settings"][key] for key in SETTINGS} == SETTINGS
    assert {stage["stage"] for stage in stored["stages"]} == {"divide", "solve", "learn", "merge", "write"}
    assert all(stage["peak_memory"] > 1 << 20 for stage in stored["stages"])
