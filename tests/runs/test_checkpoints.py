"""A run continues after its last complete iteration, with the same bytes as if it had never stopped."""

import json
import shutil

import pytest

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
