"""`divea check` finds damage anywhere in a run or a task, and changes nothing."""

import json
import shutil

import pytest

from tests.command_line import divea
from tests.runs.tiny import write_inputs


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a task and a finished run."""
    folder = tmp_path_factory.mktemp("check")
    assert divea(*write_inputs(folder), "--out", folder / "run").code == 0
    return folder


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def delete(path):
    path.unlink()


def test_a_run_and_a_task_are_valid(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    for name in ("run", "task"):
        ended = divea("check", folder / name)
        assert ended.code == 0 and "DAMAGED" not in ended.out, ended.out
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("harm", [flip, delete])
@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("manifest.json", "manifest.json"),
        ("task/seeds.npy", "task"),
        ("task/source/triples.npy", "task"),
        ("task/target/entities.arrow", "task"),
        ("division/arrays/groups.npy", "division"),
        ("division/division.json", "division"),
        ("mappings.tsv", "mappings.tsv"),
        ("mappings.parquet", "mappings.parquet"),
        ("ranked.parquet", "ranked.parquet"),
    ],
)
def test_damage_is_named(folder, tmp_path, name, found, harm):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    harm(run / name)
    ended = divea("check", run, "--json")
    assert ended.code == 2 and "checks failed" in ended.err and ended.err.count("\n") == 1, ended.err
    assert found in [item["file"] for item in json.loads(ended.out) if not item["is_valid"]]


def test_a_run_that_is_not_finished_is_valid(folder, tmp_path):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    lines = (run / "journal.jsonl").read_text().splitlines(keepends=True)
    (run / "journal.jsonl").write_text("".join(lines[:3]))
    ended = divea("check", run)
    assert ended.code == 0 and "not written yet" in ended.out, ended.out


def test_a_damaged_task_is_refused(folder, tmp_path):
    task = shutil.copytree(folder / "task", tmp_path / "task")
    (task / "source" / "triples.npy").unlink()
    ended = divea("check", task)
    assert ended.code == 2 and "triples.npy" in ended.err and ended.err.count("\n") == 1, ended.err


@pytest.mark.parametrize("harm", [flip, delete])
def test_a_finished_run_needs_no_results(folder, tmp_path, harm):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    harm(run / "iteration-0/subtask-00001.npz")
    ended = divea("check", run)
    assert ended.code == 0 and "1 of iterations are not, which a finished run does not need" in ended.out


def test_a_run_without_any_candidate_is_valid(tmp_path):
    """All targets are anchors, so that there is no ranked list with a row."""
    (tmp_path / "a.tsv").write_text("a\tr\tb\nb\tr\tc\nc\ts\ta\nd\tr\ta\n")
    (tmp_path / "b.tsv").write_text("x\tr\ty\ny\tr\tz\nz\ts\tx\n")
    (tmp_path / "seeds.tsv").write_text("a\tx\nb\ty\nc\tz\n")
    files = [
        "--source",
        tmp_path / "a.tsv",
        "--target",
        tmp_path / "b.tsv",
        "--seeds",
        tmp_path / "seeds.tsv",
    ]
    assert divea("align", *files, "--out", tmp_path / "run").code == 0
    ended = divea("check", tmp_path / "run")
    assert ended.code == 0 and "ranked.parquet: 0 ranked lists" in ended.out, ended
