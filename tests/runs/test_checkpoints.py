"""A run continues after its last complete iteration, with the same bytes as if it had never stopped."""

import json
import shutil

import numpy as np
import pytest

from divea.archives import read_arrays, write_arrays
from divea.io import file_checksum
from tests.command_line import divea
from tests.runs.tiny import NAMED_PAIR, PAIR, events, solved_now, tables, write_inputs

ITERATIONS = 5
LAST_MODEL = "last_model.name=gcn-align", "last_model.iterations=2", "last_model.gcn-align.steps=5"

CASES = {
    "joint division": (PAIR, ()),
    "similarity weights": (PAIR, ("--set", "division.name=divea")),
    "names alone": (NAMED_PAIR, ()),
    "another model at the end": (PAIR, tuple(part for text in LAST_MODEL for part in ("--set", text))),
    "propagation as a feature": (PAIR, ("--features", "propagation")),
}


@pytest.fixture(scope="module", params=CASES, ids=list(CASES))
def finished(request, tmp_path_factory):
    """A finished run: the command that made it, its folder and its tables."""
    pair, options = CASES[request.param]
    folder = tmp_path_factory.mktemp("checkpoints")
    command = [
        *write_inputs(folder, pair),
        "--iterations",
        ITERATIONS,
        "--set",
        "matching.average=3",
        *options,
    ]
    run = folder / "run"
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    return command, run, tables(run)


def iterations_now(run):
    """The iterations that were begun since the last start."""
    return [event["iteration"] for event in events(run) if event["event"] == "iteration"]


@pytest.mark.parametrize("last", range(ITERATIONS))
def test_only_what_follows_the_last_iteration_is_done_again(finished, last):
    command, run, expected = finished
    for iteration in range(last + 1, ITERATIONS):
        shutil.rmtree(run / f"iteration-{iteration}")
    shutil.rmtree(run / "division")
    (run / "mappings.parquet").unlink()
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    assert tables(run) == expected
    left = range(min(last + 1, ITERATIONS - 1), ITERATIONS)
    assert iterations_now(run) == [*left]
    assert solved_now(run) == 2 * (ITERATIONS - 1 - last)


def test_a_checkpoint_of_other_results_is_not_used(finished):
    """A result that somebody replaced, journal line included, is not what the checkpoint was learned from."""
    command, run, expected = finished
    names = [f"iteration-3/subtask-0000{subtask}.npz" for subtask in (0, 1)]
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    entry = next(line for line in reversed(lines) if line["file"] == names[1])
    with (run / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps({**entry, "file": names[0]}) + "\n")
    shutil.copy(run / names[1], run / names[0])
    (run / "mappings.parquet").unlink()
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    assert tables(run) == expected and solved_now(run) == 1


def test_lists_that_are_no_longer_averaged_are_not_needed(finished):
    command, run, expected = finished
    shutil.rmtree(run / "iteration-0")
    shutil.rmtree(run / "iteration-1")
    (run / "mappings.parquet").unlink()
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    assert tables(run) == expected and solved_now(run) == 0


def recommit(run, name, change):
    """Change a file of arrays, and the journal with it, as somebody could who wants to do harm."""
    arrays = read_arrays(run / name)
    change(arrays)
    write_arrays(arrays, run / name)
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text().splitlines()]
    entry = next(line for line in reversed(lines) if line["file"] == name)
    with (run / "journal.jsonl").open("a") as journal:
        journal.write(json.dumps({**entry, "checksum": file_checksum(run / name)}) + "\n")


def about(**changes):
    def change(arrays):
        old = json.loads(arrays["about"].tobytes())
        arrays["about"] = np.frombuffer(json.dumps({**old, **changes}).encode(), np.uint8)

    return change


def with_arrays(**arrays):
    return lambda old: old.update({name: np.asarray(array) for name, array in arrays.items()})


def nest(arrays):
    arrays["about"] = np.frombuffer(b"[" * 100_000, np.uint8)


HARMFUL = {
    "nothing": lambda arrays: arrays.clear(),
    "deep nesting": nest,
    "another chain": about(follows="0" * 64),
    "no text": about(follows=["x"]),
    "results of nothing": about(results=[]),
    "an immense scale": about(scale=10**400),
    "weights that are none": about(weights=[1]),
    "an intercept without a calibration": about(intercept=1.0),
    "ids in two dimensions": with_arrays(pseudo_seeds_source=np.zeros((2, 2), np.int32)),
    "ids that do not exist": with_arrays(
        pseudo_seeds_source=np.int32([1 << 30]), pseudo_seeds_target=np.int32([0])
    ),
    "a pseudo-seed twice": with_arrays(
        pseudo_seeds_source=np.int32([1, 1]), pseudo_seeds_target=np.int32([0, 1])
    ),
    "offsets that overflow": with_arrays(
        similarity_data=np.float32([1, 1]),
        similarity_indices=np.int64([0, 1]),
        similarity_indptr=np.int64([0, (1 << 63) - 1, -2]),
    ),
    "small offsets": with_arrays(
        similarity_data=np.float32([1, 1]),
        similarity_indices=np.int32([0, 1]),
        similarity_indptr=np.int8([0, 127, 2]),
    ),
}


@pytest.fixture
def two_iterations(tmp_path):
    command = [*write_inputs(tmp_path), "--set", "division.name=divea", "--set", "matching.average=1"]
    run = tmp_path / "run"
    assert divea(*command, "--out", run).code == 0
    return command, run, tables(run)


@pytest.mark.parametrize("harm", HARMFUL.values(), ids=list(HARMFUL))
def test_a_checkpoint_from_elsewhere_is_refused_if_it_makes_no_sense(two_iterations, harm):
    command, run, expected = two_iterations
    recommit(run, "iteration-0/learned.npz", harm)
    (run / "mappings.parquet").unlink()
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    assert tables(run) == expected and solved_now(run) == 0


def test_a_division_with_other_groups_is_not_used(two_iterations):
    command, run, expected = two_iterations
    path = run / "iteration-0" / "division" / "arrays" / "groups.npy"
    groups = np.load(path)
    np.save(path, groups[::-1].copy())
    shutil.rmtree(run / "iteration-1")
    shutil.rmtree(run / "division")
    ended = divea(*command, "--out", run)
    assert ended.code == 0, ended.err
    assert tables(run) == expected
