"""The run directory: it can be continued, refuses what does not belong to it, and survives a bad disk."""

import fcntl
import json
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.api import align
from divea.archives import map_matches, write_matches, write_solved
from divea.config import Settings, combine_settings
from divea.division import Whole
from divea.errors import InputError
from divea.executors import attempt
from divea.formats import write_task
from divea.io import is_temporary, temporary_path
from divea.resources.limits import Limits, allow_many_files
from divea.runs import manifest, prepare
from divea.runs.align import align_in
from divea.runs.archives import read_solved
from divea.runs.directory import RunDirectory
from divea.runs.journal import Entry, Journal, read_journal
from divea.runs.layout import JOURNAL, LOCK, LOG, MANIFEST
from divea.runs.manifest import library_versions, stored_manifest
from divea.types import Matches, Solved
from tests.command_line import divea
from tests.runs.tiny import PAIR, SETTINGS, tables, write_inputs


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run: the command that made it, its folder and its tables."""
    folder = tmp_path_factory.mktemp("directory")
    command = write_inputs(folder)
    assert divea(*command, "--out", folder / "run").code == 0
    return command, folder / "run", tables(folder / "run")


def test_a_finished_run_is_not_touched_again(finished):
    command, run, expected = finished
    times = {path: path.stat().st_mtime_ns for path in run.rglob("*") if path.name not in (LOG, LOCK)}
    for again in (command, ["align"]):
        ended = divea(*again, "--out", run)
        assert ended.code == 0 and "this run is finished" in ended.err
    assert times == {path: path.stat().st_mtime_ns for path in times}
    assert tables(run) == expected


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (["--random-seed", 7], "(random_seed 0, now 7)"),
        (
            ["-n", 3, "--matching", "csls"],
            "(subtasks 2, now 3; size 150, now 100; matching.method 'sinkhorn', now 'csls')",
        ),
        (["--set", "model.label-propagation.heads=8"], "(model.label-propagation.heads 16, now 8)"),
        (["--memory", "9GiB"], "(memory None, now "),
    ],
)
def test_other_settings_are_refused_by_name(finished, changes, difference):
    command, run, expected = finished
    ended = divea(*command, *changes, "--out", run)
    assert ended.code == 2 and difference in ended.err and ended.err.count("\n") == 1, ended.err
    assert tables(run) == expected


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (["--random-seed", 1], "is a run with other settings (random_seed 0, now 1)"),
        (["--memory", "9GiB"], "is a run of something else (memory None, now "),
        (["--device", "cuda"], "device"),
        (["--skip-unknown-seeds"], "--skip-unknown-seeds has no effect: "),
    ],
)
def test_a_run_that_is_continued_keeps_its_settings_and_limits(finished, changes, difference):
    _, run, expected = finished
    ended = divea("align", *changes, "--out", run)
    assert ended.code == 2 and difference in ended.err and ended.err.count("\n") == 1, ended.err
    assert tables(run) == expected


@pytest.fixture
def half_done(finished, tmp_path):
    """A copy of the run, of which one subtask and the tables must be made again."""
    run = shutil.copytree(finished[1], tmp_path / "run")
    (run / "iteration-1" / "subtask-00001.npz").unlink()
    (run / "mappings.parquet").unlink()
    return run


@pytest.mark.parametrize("is_task_named", [True, False])
def test_a_run_of_other_libraries_is_not_continued(finished, half_done, monkeypatch, is_task_named):
    monkeypatch.setattr(prepare, "library_versions", lambda: {**library_versions(), "torch": "1.0"})
    ended = divea(*(finished[0] if is_task_named else ["align"]), "--out", half_done)
    assert ended.code == 2 and "is a run of something else (torch '" in ended.err, ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("is_task_named", [True, False])
def test_another_kind_of_processor_is_noted_once(finished, half_done, monkeypatch, is_task_named):
    monkeypatch.setattr(prepare, "processor", lambda device: "another kind")
    command = [*(finished[0] if is_task_named else ["align"]), "--out", half_done]
    ended = divea(*command)
    assert ended.code == 0 and ", then another kind): the last digits may differ" in ended.err, ended.err
    assert tables(half_done) == finished[2]
    (half_done / "iteration-1" / "subtask-00001.npz").unlink()
    assert "another kind" not in divea(*command).err
    assert json.loads((half_done / MANIFEST).read_text())["processors"][1:] == ["another kind"]


def test_other_graphs_are_refused_by_name(finished, tmp_path):
    command, run, expected = finished
    assert divea("synth", tmp_path / "other", "--entities", 150, "--random-seed", 2).code == 0
    ended = divea("align", tmp_path / "other" / "task", *command[2:], "--out", run)
    assert ended.code == 2 and "(the source graph; the target graph; the seeds)" in ended.err, ended.err
    assert tables(run) == expected


def test_other_seeds_are_refused_by_name(finished, tmp_path):
    command, run, expected = finished
    seeds = zip(*PAIR.task.seeds.labels(PAIR.task.source, PAIR.task.target), strict=True)
    fewer = tmp_path / "seeds.tsv"
    fewer.write_text("".join(f"{a}\t{b}\n" for a, b in list(seeds)[:20]))
    ended = divea(*command, "--seeds", fewer, "--out", run)
    assert ended.code == 2 and "(the seeds)" in ended.err, ended.err
    assert tables(run) == expected


def test_other_versions_are_refused_by_name(finished, monkeypatch):
    command, run, expected = finished
    monkeypatch.setattr(prepare, "library_versions", lambda: {**library_versions(), "torch": "99"})
    ended = divea(*command, "--out", run)
    assert ended.code == 2 and "(torch " in ended.err and "now '99')" in ended.err, ended.err
    assert tables(run) == expected


def test_a_run_of_another_format_is_refused_and_not_overwritten(finished, monkeypatch, tmp_path):
    command, _, _ = finished
    monkeypatch.setitem(manifest.FORMAT, "version", 99)
    assert divea(*command, "--out", tmp_path / "run").code == 0
    monkeypatch.undo()
    before = (tmp_path / "run" / MANIFEST).read_bytes()
    ended = divea(*command, "--out", tmp_path / "run")
    assert ended.code == 2 and "has format {'format': 'divea run', 'version': 99}" in ended.err
    assert (tmp_path / "run" / MANIFEST).read_bytes() == before


def test_a_second_process_is_refused(finished):
    command, run, _ = finished
    with (run / LOCK).open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        ended = divea(*command, "--out", run)
        assert ended.code == 2 and "another process is working on this run" in ended.err
        assert "running" in divea("status", run).out
    assert divea(*command, "--out", run).code == 0


def test_a_folder_or_file_that_is_no_run_is_not_touched(finished, tmp_path):
    command, _, _ = finished
    (tmp_path / "precious").write_text("mine")
    ended = divea(*command, "--out", tmp_path)
    assert ended.code == 2 and "no run of divea" in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]
    ended = divea(*command, "--out", tmp_path / "precious")
    assert ended.code == 2 and "is a file" in ended.err
    assert (tmp_path / "precious").read_text() == "mine"


@pytest.fixture
def at_commit(monkeypatch):
    """Calls a function with the run directory just before its n-th commit."""

    def arrange(number, call):
        commits = 0
        commit = RunDirectory.commit

        def counting(self, *arguments):
            nonlocal commits
            commits += 1
            if commits == number:
                call(self.path)
            commit(self, *arguments)

        monkeypatch.setattr(RunDirectory, "commit", counting)

    return arrange


def test_a_run_ends_with_one_line_if_its_folder_is_removed(finished, at_commit, monkeypatch, tmp_path):
    command, _, expected = finished
    at_commit(2, shutil.rmtree)
    ended = divea(*command, "--out", tmp_path / "run")
    assert ended.code == 2 and "removed or replaced" in ended.err.splitlines()[-1]
    assert "Traceback" not in ended.err
    monkeypatch.undo()
    assert divea(*command, "--out", tmp_path / "run").code == 0
    assert tables(tmp_path / "run") == expected


def test_ctrl_c_says_how_to_continue(finished, at_commit, monkeypatch, tmp_path):
    command, _, expected = finished

    def press(_):
        raise KeyboardInterrupt

    at_commit(3, press)
    run = tmp_path / "run"
    ended = divea(*command, "--out", run)
    assert ended.code == 130 and f"divea align --out {run}" in ended.err.splitlines()[-1]
    monkeypatch.undo()
    assert "stopped" in divea("status", run).out
    assert divea("align", "--out", run).code == 0
    assert tables(run) == expected


def test_a_subtask_that_fails_is_left_out_and_solved_the_next_time(finished, monkeypatch, tmp_path):
    command, _, expected = finished
    solve_job = attempt.solve_job

    def failing(task, job):
        if job.iteration == 0 and job.subtasks[0].index == 1:
            raise RuntimeError("bad luck")
        return solve_job(task, job)

    monkeypatch.setattr(attempt, "solve_job", failing)
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
def test_a_torn_journal_loses_lines_only_from_its_end(tmp_path_factory, lines, cut):
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
    again.repair()
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
def test_a_damaged_line_of_the_journal_does_not_count(tmp_path, line):
    good = b'{"file": "a", "checksum": "b", "made_from": "c"}'
    (tmp_path / JOURNAL).write_bytes(b"\n".join([line, good, line, b""]))
    assert read_journal(tmp_path) == [Entry("a", "b", "c")]


def test_names_in_the_journal_are_not_used_as_paths(finished, tmp_path):
    command, run, expected = finished
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    with (copy / JOURNAL).open("a") as file:
        for name in ("../precious", "/etc/passwd", "iteration-0/../../precious"):
            file.write(json.dumps({"file": name, "checksum": "x", "made_from": "y"}) + "\n")
    ended = divea(*command, "--out", copy)
    assert ended.code == 0 and "this run is finished" in ended.err
    assert tables(copy) == expected


@pytest.fixture(scope="module")
def subtask():
    return Whole().divide(PAIR.task).subtasks[0]


@pytest.fixture
def result(subtask):
    """A valid result of the subtask: every source has one and the same target."""
    rows = len(subtask.unmatched)
    target = np.tile(np.int32([subtask.candidates[0], -1]), (rows, 1))
    matches = Matches(subtask.unmatched, target, np.zeros((rows, 2), np.float32), np.zeros(rows, bool))
    return Solved(matches, np.zeros(len(subtask.candidates), np.float32))


def test_a_result_is_read_as_it_was_written(tmp_path, subtask, result):
    write_solved(result, tmp_path / "result.npz")
    found = read_solved(tmp_path / "result.npz", subtask)
    for name in ("source", "target", "score", "mutual"):
        np.testing.assert_array_equal(getattr(found.matches, name), getattr(result.matches, name))
    np.testing.assert_array_equal(found.top_sums, result.top_sums)


def with_matches(solved, **changes):
    """The result with other arrays of matches."""
    found = solved.matches
    arrays = {"source": found.source, "target": found.target, "score": found.score, "mutual": found.mutual}
    return Solved(Matches(**{**arrays, **changes}), solved.top_sums)


WRONG = {
    "fewer sources": lambda solved: with_matches(
        solved,
        source=solved.matches.source[1:],
        target=solved.matches.target[1:],
        score=solved.matches.score[1:],
        mutual=solved.matches.mutual[1:],
    ),
    "fewer sums": lambda solved: Solved(solved.matches, solved.top_sums[1:]),
    "sums of another type": lambda solved: Solved(solved.matches, solved.top_sums.astype(np.float64)),
    "ids of another type": lambda solved: with_matches(solved, target=solved.matches.target.astype(np.int64)),
    "targets that are no candidates": lambda solved: with_matches(
        solved, target=np.full_like(solved.matches.target, PAIR.task.seeds.target[0])
    ),
    "fewer scores than targets": lambda solved: with_matches(solved, score=solved.matches.score[:, :1]),
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_arrays_that_do_not_fit_the_subtask_are_no_result(tmp_path, subtask, result, change):
    write_solved(change(result), tmp_path / "result.npz")
    assert read_solved(tmp_path / "result.npz", subtask) is None


def test_a_file_without_plain_arrays_is_no_result(tmp_path, subtask):
    path = tmp_path / "result.npz"
    np.savez(path, source=np.array([{"a": 1}], dtype=object), allow_pickle=True)
    assert read_solved(path, subtask) is None
    path.write_bytes(b"PK not really")
    assert read_solved(path, subtask) is None
    assert read_solved(tmp_path / "missing.npz", subtask) is None


def test_the_manifest_holds_the_settings_and_what_each_stage_took(finished):
    _, run, _ = finished
    stored = json.loads((run / MANIFEST).read_text())
    assert combine_settings(stored["settings"], SETTINGS) == stored["settings"]
    assert {stage["stage"] for stage in stored["stages"]} == {"divide", "solve", "learn", "merge", "write"}
    assert all(stage["peak_memory"] > 1 << 20 for stage in stored["stages"])


def test_a_run_that_another_process_makes_meanwhile_is_not_overwritten(tmp_path):
    """Reading a task may take minutes, and only then is the run locked."""
    settings = {**SETTINGS, "iterations": 2}

    def read():
        align(PAIR.task, out=tmp_path / "run", device="cpu", **{**settings, "iterations": 1})
        return PAIR.task

    with pytest.raises(InputError, match="is a run with other settings"):
        align_in(tmp_path / "run", read, Settings.of(None, settings), limits=Limits.of("cpu"))
    assert stored_manifest(tmp_path / "run").settings.iterations == 1


def test_nothing_temporary_is_left_when_a_run_ends(tmp_path):
    """A worker that is killed after it wrote a result leaves a file."""
    run = tmp_path / "run"

    def leave(iteration):
        temporary_path(run / f"iteration-{iteration.number}" / "result.npz").write_bytes(b"left")

    settings = Settings.of(None, SETTINGS)
    align_in(run, lambda: PAIR.task, settings, limits=Limits.of("cpu"), observe=leave)
    assert not [path for path in run.rglob("*") if is_temporary(path.name)]


@pytest.fixture
def few_files():
    """The lowest limit of open files that leaves a few to this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_results_stay_open_than_a_process_may_usually_open(few_files, tmp_path):
    ids, nothing = np.zeros(0, np.int32), np.zeros((0, 0), np.int32)
    write_matches(Matches(ids, nothing, nothing.astype(np.float32), ids > 0), tmp_path / "lists.npz")
    with pytest.raises(InputError, match="too many open files"):
        kept = [map_matches(tmp_path / "lists.npz") for _ in range(30)]
    allow_many_files()
    kept = [map_matches(tmp_path / "lists.npz") for _ in range(30)]
    assert len(kept) == 30


NOTHING_IN_COMMON = (
    '<http://x/1> <http://x/r> <http://x/2> .\n<http://x/1> <http://x/p> "a" .\n',
    '<http://y/3> <http://y/s> <http://y/4> .\n<http://y/3> <http://y/q> "b" .\n',
)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_with_nothing_to_start_from_leaves_nothing(tmp_path, is_there):
    """Otherwise the folder would be a run without seeds, and refuse the command with seeds."""
    for name, text in zip(("a.nt", "b.nt"), NOTHING_IN_COMMON, strict=True):
        (tmp_path / name).write_text(text)
    run = tmp_path / "run"
    if is_there:
        run.mkdir()
    command = ["align", "--source", tmp_path / "a.nt", "--target", tmp_path / "b.nt", "--out", run]
    ended = divea(*command)
    assert ended.code == 2 and "nothing to start from" in ended.err, ended.err
    assert not run.exists()
    (tmp_path / "seeds.tsv").write_text("http://x/1\thttp://y/3\n")
    assert divea(*command, "--seeds", tmp_path / "seeds.tsv").code == 0
    assert (run / MANIFEST).exists()


def test_a_run_whose_executor_cannot_be_made_leaves_nothing(tmp_path):
    write_task(PAIR.task, tmp_path / "task")
    command = ["align", tmp_path / "task", "-n", 2, "--out", tmp_path / "run"]
    ended = divea(*command, "--executor", "local", "--memory", "1GiB")
    assert ended.code == 2 and "leave out local" in ended.err
    assert not (tmp_path / "run").exists()


def test_a_feature_that_cannot_be_kept_leaves_nothing(tmp_path, monkeypatch):
    """Its folder exists already when the disk turns out to be full."""
    run = tmp_path / "run"

    def fail(*args):
        (run / "features").mkdir()
        raise InputError("no space left")

    monkeypatch.setattr("divea.runs.align.run_loop", fail)
    with pytest.raises(InputError, match="no space left"):
        align_in(run, lambda: PAIR.task, Settings.of(None, SETTINGS), limits=Limits.of("cpu"))
    assert not run.exists()


def test_a_failed_start_leaves_the_files_of_others(tmp_path, monkeypatch):
    run = tmp_path / "run"

    def fail(*args):
        (run / "task" / "thesis.txt").write_text("mine")
        raise InputError("not today")

    monkeypatch.setattr("divea.runs.align.run_loop", fail)
    with pytest.raises(InputError, match="not today"):
        align_in(run, lambda: PAIR.task, Settings.of(None, SETTINGS), limits=Limits.of("cpu"))
    assert [path.name for path in run.rglob("*") if path.is_file()] == ["thesis.txt"]
