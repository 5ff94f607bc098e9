"""Damage to a file of a run is found, and only what the file held is made again."""

import random
import shutil

import pytest

from tests.command_line import divea
from tests.runs.tiny import NAMED_PAIR, PAIR, solved_now, tables, write_inputs

RESULTS = [f"iteration-{iteration}/subtask-0000{subtask}.npz" for iteration in (0, 1) for subtask in (0, 1)]
CHECKPOINT = ["iteration-0/learned.npz", "iteration-0/division/arrays/groups.npy"]
TABLES = [
    "mappings.parquet",
    "mappings.tsv",
    "ranked.parquet",
    "calibration.json",
    "features.json",
    "division/division.json",
]
NOT_READ = ["lock", "log.jsonl"]


@pytest.fixture(scope="module", params=[PAIR, NAMED_PAIR], ids=["with seeds", "with names alone"])
def finished(request, tmp_path_factory):
    """A finished run: the command that made it, its folder and its tables."""
    folder = tmp_path_factory.mktemp("damage")
    command = write_inputs(folder, request.param)
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


def replace(path):
    """Put another file of the same kind in its place, and a copy of it beside it."""
    others = [other for other in sorted(path.parent.glob(f"*{path.suffix}")) if other != path]
    shutil.copy(path, path.with_name(f"copy-of-{path.name}"))
    if others:
        shutil.copy(others[0], path)


def each_once(names, harms, random_seed):
    """Each file with one kind of harm; every kind is used."""
    draw = random.Random(random_seed)
    dealt = [*harms, *draw.choices(harms, k=len(names) - len(harms))]
    draw.shuffle(dealt)
    return list(zip(names, dealt, strict=True))


def check_table(finished, name, harm):
    """Damage a table, and check that the same command repairs it and solves nothing again."""
    command, run, expected = finished
    harm(run / name)
    # No other file is of their kind, and a copy beside them is none of divea's.
    has_changed = not (harm is replace and name in ("mappings.tsv", "division/division.json"))
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    for copy in run.rglob("copy-of-*"):
        copy.unlink()
    assert tables(run) == expected
    assert ("this run is finished" not in ended.err) == has_changed
    if has_changed:
        assert solved_now(run) == 0


def check_unfinished(finished, name, harm):
    """Damage a file of an iteration of a run without tables: the same command solves again what it needs."""
    command, run, expected = finished
    harm(run / name)
    delete(run / "mappings.parquet")
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    for copy in run.rglob("copy-of-*"):
        copy.unlink()
    assert tables(run) == expected
    # The checkpoint stands on the results of the first iteration: they are solved again one by one.
    assert solved_now(run) == (name in RESULTS)


HARMS = [flip, truncate, delete, replace]


@pytest.mark.parametrize(("name", "harm"), each_once(TABLES, HARMS, random_seed=1))
def test_a_damaged_table_is_made_again(finished, name, harm):
    check_table(finished, name, harm)


@pytest.mark.parametrize(("name", "harm"), each_once([*RESULTS, *CHECKPOINT], HARMS, random_seed=1))
def test_a_damaged_iteration_is_made_again(finished, name, harm):
    check_unfinished(finished, name, harm)


def test_a_finished_run_needs_no_iterations(finished):
    command, run, expected = finished
    for folder in run.glob("iteration-*"):
        shutil.rmtree(folder)
    assert "this run is finished" in divea(*command, "--out", run).err
    assert divea("check", run).code == 0
    delete(run / "mappings.parquet")
    assert divea(*command, "--out", run).code == 0
    assert tables(run) == expected


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", TABLES)
def test_every_damage_to_a_table_is_repaired(finished, name, harm):
    check_table(finished, name, harm)


@pytest.mark.slow
@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("name", [*RESULTS, *CHECKPOINT])
def test_every_damage_to_an_iteration_is_repaired(finished, name, harm):
    check_unfinished(finished, name, harm)


@pytest.fixture(scope="module")
def other_files(finished):
    """All files that are neither results nor tables, and that are read."""
    _, run, _ = finished
    files = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    others = sorted(files - {*RESULTS, *TABLES, *NOT_READ})
    assert {"journal.jsonl", "manifest.json", "task/seeds.npy", "division/arrays/candidates.npy"} < {*others}
    return others


def check_repaired(finished, name, harm):
    command, run, expected = finished
    harm(run / name)
    ended = divea(*command, "--out", run)
    assert ended.code == 0, (name, ended.err)
    assert tables(run) == expected, name


def test_damage_to_other_files_is_repaired(finished, other_files):
    for name, harm in each_once(other_files, [flip, truncate, delete], random_seed=2):
        check_repaired(finished, name, harm)


@pytest.mark.slow
@pytest.mark.parametrize("harm", [flip, truncate, delete])
def test_every_damage_to_other_files_is_repaired(finished, other_files, harm):
    for name in other_files:
        check_repaired(finished, name, harm)


@pytest.mark.parametrize(
    "name", ["ranked.parquet", "division/arrays/unmatched.npy", "task/source/triples.npy"]
)
def test_evaluation_names_the_damaged_file(finished, tmp_path, name):
    _, run, _ = finished
    shutil.copytree(run, tmp_path / "run")
    flip(tmp_path / "run" / name)
    ended = divea("evaluate", tmp_path / "run", "--gold", tmp_path / "none.tsv")
    assert ended.code == 2
    assert "is damaged" in ended.err and ended.err.count("\n") == 1, ended.err
