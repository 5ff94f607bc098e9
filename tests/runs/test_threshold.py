"""A confidence threshold is kept, or refused with an exit code of its own and without mappings."""

import json

import pytest

import divea as divea_package
from divea.errors import CalibrationError
from divea.graphs import AlignmentTask, Links, save_task
from divea.graphs.synth import SynthConfig, synthesise
from divea.runs.layout import CALIBRATION, MAPPINGS, MAPPINGS_TSV, RANKED
from tests.command_line import divea
from tests.runs.tiny import solved_now, tables

PAIR = synthesise(SynthConfig(entities=600, random_seed=4))
SMALL = ["--set", "model.label-propagation.labels=64", "--set", "model.label-propagation.rounds=2"]
OPTIONS = ["--device", "cpu", "-n", 2, "--iterations", 2, *SMALL]


def task_with(seeds, folder):
    """A task folder with this many of the pair's links as seeds, spread over all of them."""
    links = Links.from_pairs([*PAIR.task.seeds.pairs, *PAIR.gold.pairs])
    chosen = Links.from_pairs(links.pairs[:: len(links) // seeds][:seeds])
    save_task(AlignmentTask(PAIR.task.source, PAIR.task.target, chosen), folder)
    return folder


@pytest.mark.parametrize("threshold", [["--precision", 0.95], ["--min-confidence", 0.5]])
def test_a_threshold_that_cannot_be_kept_writes_no_mappings(tmp_path, threshold):
    """Too few seeds for any calibration: this is known before anything is solved."""
    task = task_with(12, tmp_path / "task")
    ended = divea("align", task, *OPTIONS, *threshold, "--out", tmp_path / "run")
    assert ended.code == 4 and "cannot be calibrated on 12 seeds" in ended.err, ended.err
    assert ended.err.count("\n") == 1 and "add seeds" in ended.err
    assert not (tmp_path / "run").exists()


def test_pairs_that_no_seed_judges_are_noticed_before_the_last_iteration(tmp_path):
    """Held-back seeds are asked for, and they judge too few pairs."""
    task = task_with(40, tmp_path / "task")
    run = tmp_path / "run"
    command = ["align", task, *OPTIONS, "--precision", 0.9, "--set", "confidence.folds=0", "--out", run]
    for _ in range(2):
        ended = divea(*command)
        assert ended.code == 4 and "30 are needed" in ended.err.splitlines()[-1], ended.err
        for name in (MAPPINGS, MAPPINGS_TSV, RANKED, "iteration-1"):
            assert not (run / name).exists()
    assert divea("status", run).code == 0


def test_without_a_threshold_all_pairs_are_written_and_a_note_says_so(tmp_path):
    task = task_with(12, tmp_path / "task")
    ended = divea("align", task, *OPTIONS, "--out", tmp_path / "run")
    assert ended.code == 0 and "no confidence: too few seeds" in ended.err, ended.err
    found = json.loads((tmp_path / "run" / CALIBRATION).read_text())
    assert found["method"] is None and found["expected_precision"] is None


@pytest.fixture(scope="module")
def cross_validated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("folds")
    command = ["align", task_with(60, folder / "task"), *OPTIONS, "--precision", 0.8, "--out", folder / "run"]
    return command, folder / "run", divea(*command)


def test_few_seeds_are_judged_by_cross_validation(cross_validated):
    _, run, ended = cross_validated
    assert ended.code == 0, ended.err
    assert "cross-validation on 60 seeds: 5 loops beside the main one" in ended.err
    found = json.loads((run / CALIBRATION).read_text())
    assert (found["method"], found["folds"], found["seeds"]) == ("cross-validation", 5, 60)
    low, high = found["interval"]
    assert low <= found["expected_precision"] <= high and found["expected_precision"] > 0.75
    alignment = divea_package.Alignment(run)
    assert len(alignment.mappings) == found["pairs"] > 50
    assert len(alignment.task.seeds) == 60
    known = {tuple(pair) for pair in alignment.task.seeds.pairs}
    links = {tuple(pair) for pair in (*PAIR.task.seeds.pairs, *PAIR.gold.pairs)}
    judged = alignment.evaluate(Links.from_pairs(sorted(links - known)))
    assert judged.pairs.end_precision > low - 0.1


def test_a_precision_that_the_seeds_say_too_little_about_is_refused(tmp_path, monkeypatch):
    """No interval is narrow enough here; the one of few seeds would be too wide by itself."""
    monkeypatch.setattr("divea.runs.write.MOST_BELOW", -0.5)
    task = task_with(60, tmp_path / "task")
    ended = divea("align", task, *OPTIONS, "--precision", 0.8, "--out", tmp_path / "run")
    assert ended.code == 4 and "a precision of 0.8 cannot be promised" in ended.err.splitlines()[-1], (
        ended.err
    )
    for name in (MAPPINGS, MAPPINGS_TSV, RANKED):
        assert not (tmp_path / "run" / name).exists()


@pytest.mark.parametrize(
    ("lost", "solved"),
    [
        (["fold-2/judged.npz"], 0),
        (["fold-2/iteration-1/subtask-00000.npz", "fold-2/judged.npz"], 1),
        # A fold whose pairs are judged needs nothing else.
        (["fold-2/iteration-1/subtask-00000.npz", "fold-1/iteration-0/learned.npz"], 0),
    ],
)
def test_a_cross_validated_run_can_be_continued(cross_validated, lost, solved):
    command, run, _ = cross_validated
    expected = tables(run)
    for name in lost:
        (run / name).unlink()
    (run / CALIBRATION).write_text("{}")
    assert divea("align", "--out", run).code == 0
    assert tables(run) == expected and solved_now(run) == solved
    assert "this run is finished" in divea(*command).err


def test_python_raises_an_error_of_its_own(tmp_path):
    task = task_with(12, tmp_path / "task")
    with pytest.raises(CalibrationError, match="cannot be calibrated on 12 seeds"):
        divea_package.align(task, confidence={"precision": 0.9}, device="cpu")
