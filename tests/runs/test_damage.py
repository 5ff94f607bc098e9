"""Whatever happens to a committed file is found, and only what it stood for is done again."""

import shutil

import pytest

from tests.command_line import divea
from tests.run.tiny import solved_now, tables, write_inputs

RESULTS = [f"iteration-{iteration}/subtask-0000{subtask}.npz" for iteration in (0, 1) for subtask in (0, 1)]
TABLES = ["mappings.parquet", "mappings.tsv", "ranked.parquet", "division/division.json"]
NOT_READ = ["lock", "log.jsonl"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("damage")
    command = write_inputs(folder)
    run = folder / "run"
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    return command, run, tables(run)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def delete(path):
    path.unlink()


def duplicate(path):
    """Another file of the kind in its place, and a copy of it beside."""
    others = [other for other in sorted(path.parent.glob(f"*{path.suffix}")) if other != path]
    shutil.copy(path, path.with_name(f"copy-of-{path.name}"))
    if others:
        shutil.copy(others[0], path)


@pytest.mark.parametrize("harm", [flip, truncate, delete, duplicate])
def test_each_committed_file_in_turn(finished, harm):
    command, run, expected = finished
    for name in [*RESULTS, *TABLES]:
        harm(run / name)
        ended = divea(*command, "--out", run)
        assert ended.code == 0, (name, ended.err)
        assert tables(run) == expected, name
        has_changed = not (harm is duplicate and name == "mappings.tsv")
        assert ("this run is finished" not in ended.err) == has_changed, name
        if has_changed:
            assert solved_now(run) == (name in RESULTS), name
        for copy in run.rglob("copy-of-*"):
            copy.unlink()


@pytest.mark.parametrize("harm", [flip, truncate, delete])
def test_what_belongs_to_the_run_as_a_whole(finished, harm):
    command, run, expected = finished
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    others = sorted(files - {*RESULTS, *TABLES, *NOT_READ})
    assert {"journal.jsonl", "manifest.json", "task/seeds.npy", "division/arrays/candidates.npy"} < set(
        others
    )
    for name in others:
        harm(run / name)
        ended = divea(*command, "--out", run)
        assert ended.code == 0, (name, ended.err)
        assert tables(run) == expected, name


def test_evaluation_says_what_is_damaged(finished, tmp_path):
    _, run, _ = finished
    for name in ("ranked.parquet", "division/arrays/unmatched.npy", "task/source/triples.npy"):
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(run, copy)
        flip(copy / name)
        ended = divea("evaluate", copy, "--gold", run.parent / "task" / "none.tsv")
        assert ended.code == 2
        assert "is damaged" in ended.err and ended.err.count("\n") == 1, ended.err
