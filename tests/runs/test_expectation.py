"""What the end of a run says about precision and recall, and what calibration.json holds of it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.graphs import save_task
from divea.graphs.synth import SynthConfig, synthesise
from divea.loop.confidence import threshold_for
from divea.runs.expectation import PRECISIONS, expectation, figures_above
from divea.runs.layout import CALIBRATION
from divea.wording import command_line
from tests.command_line import divea
from tests.runs.tiny import NAMED_PAIR, PAIR, events, write_inputs

LEARNED = {"method": "held-back seeds", "seeds": 300, "judged_pairs": 64, "interval": [0.9, 0.98]}


def at(precision, pairs, recall):
    return {"precision": precision, "threshold": 0.1, "pairs": pairs, "expected_recall": recall}


def lines(by_precision, pairs=90, assigned=120):
    figures = {"pairs": pairs, "expected_precision": 0.951, "expected_recall": 0.88}
    return expectation({**LEARNED, **figures, "assigned_pairs": assigned, "by_precision": by_precision})


def notes(run):
    return [event["text"] for event in events(run) if event["event"] == "note"]


# The words


def test_the_first_line_has_pairs_precision_and_recall():
    first, _ = lines([])
    assert first == (
        "90 pairs: expected precision 95.1 % (the share that is correct; 90.0 to 98.0 %), "
        "expected recall 88.0 % (the share of the findable matches); "
        "from held-back seeds with 300 seeds, 64 judged pairs"
    )


@pytest.mark.parametrize(
    ("by_precision", "said"),
    [
        (
            [at(0.9, 110, 0.99), at(0.95, 91, 0.885), at(0.99, 40, 0.4)],
            "precision 90 % with 110 pairs (recall 99.0 %), 95 % with 91 pairs (recall 88.5 %), "
            "99 % with 40 pairs (recall 40.0 %)",
        ),
        (
            [at(0.9, 120, 1.0), at(0.95, 120, 1.0), at(0.99, 40, 0.4)],
            "precision 90 and 95 % with all 120 pairs (recall 100.0 %), 99 % with 40 pairs (recall 40.0 %)",
        ),
        ([at(0.9, 80, 0.8)], "precision 90 % with 80 pairs (recall 80.0 %), 95 and 99 % cannot be reached"),
        (
            [at(precision, 120, 1.0) for precision in PRECISIONS],
            "even all 120 assigned pairs together have an expected precision of 99 % or more",
        ),
        ([], "none gives an expected precision of 90, 95 and 99 %"),
    ],
)
def test_the_second_line_has_the_same_for_other_thresholds(by_precision, said):
    _, second = lines(by_precision)
    assert second.partition(";")[0] == f"other thresholds: {said}"
    has_pairs = bool(by_precision) and by_precision[-1]["pairs"] < 120
    assert ("Alignment.export(path, precision=P)" in second) == has_pairs


def test_no_pairs():
    assert lines([], pairs=0)[0] == "0 pairs: none of the 120 assigned pairs is confident enough"
    assert lines([], pairs=0, assigned=0) == ["0 pairs: no entity was assigned a target"]


# The figures


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 1))
def test_figures_above_a_threshold_by_hand(confidence, threshold):
    found = figures_above(threshold, np.array(confidence))
    kept = [value for value in confidence if value >= threshold]
    assert found["pairs"] == len(kept)
    if kept:
        assert found["expected_precision"] == pytest.approx(np.mean(kept), abs=1e-6)
    else:
        assert found["expected_precision"] is None
    if sum(confidence) > 0:
        assert found["expected_recall"] == pytest.approx(sum(kept) / sum(confidence), abs=1e-6)
        assert 0 <= found["expected_recall"] <= 1
    else:
        assert found["expected_recall"] is None


# Runs


def check_run(run):
    """The lines and the figures of a calibrated run agree with its tables."""
    import pyarrow.parquet as pq

    expected = json.loads((run / CALIBRATION).read_text())
    ranked = pq.read_table(run / "ranked.parquet")
    confidence = ranked.filter(ranked["given"])["confidence"].to_numpy()
    assert expected["assigned_pairs"] == len(confidence)
    assert expected["pairs"] == pq.read_metadata(run / "mappings.parquet").num_rows
    assert {
        key: expected[key] for key in ("pairs", "expected_precision", "expected_recall")
    } == figures_above(expected["threshold"], confidence)
    assert [item["precision"] for item in expected["by_precision"]] == [
        precision for precision in PRECISIONS if np.isfinite(threshold_for(precision, confidence))
    ]
    for item in expected["by_precision"]:
        assert item["threshold"] == threshold_for(item["precision"], confidence)
        assert item["expected_precision"] >= item["precision"] - 1e-6
        assert item["pairs"] == (confidence >= item["threshold"]).sum()
    with command_line():
        assert notes(run)[-2:] == expectation(expected)
    return expected


def test_a_run_without_seeds(tmp_path):
    command = write_inputs(tmp_path, NAMED_PAIR)
    ended = divea(*command, "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    expected = check_run(tmp_path / "run")
    assert expected["method"] == "sure pairs and decoys" and expected["seeds"] == 0
    with command_line():
        for line in expectation(expected):
            assert f"note: {line}\n" in ended.err
    assert "expected recall" in ended.err and "other thresholds:" in ended.err


def test_a_run_with_seeds(tmp_path):
    pair = synthesise(SynthConfig(entities=600, random_seed=4, seed_share=0.9))
    save_task(pair.task, tmp_path / "task")
    small = ["--set", "model.label-propagation.labels=64", "--set", "model.label-propagation.rounds=2"]
    options = ["--device", "cpu", "-n", 2, "--iterations", 2, *small, "--set", "confidence.held_back=0.3"]
    ended = divea("align", tmp_path / "task", *options, "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    assert check_run(tmp_path / "run")["method"] == "held-back seeds"


def test_too_few_seeds_are_said_in_one_line(tmp_path):
    ended = divea(*write_inputs(tmp_path, PAIR), "--out", tmp_path / "run")
    assert ended.code == 0
    expected = json.loads((tmp_path / "run" / CALIBRATION).read_text())
    assert expected["expected_recall"] is None and expected["by_precision"] == []
    assert notes(tmp_path / "run")[-1] == (
        f"no confidence: too few seeds to calibrate it on; all {expected['pairs']} pairs are written, "
        "and how many of them are correct is not known"
    )
    assert "expected" not in ended.err


def test_one_iteration_holds_no_seeds_back(tmp_path):
    ended = divea(*write_inputs(tmp_path, PAIR), "--iterations", 1, "--out", tmp_path / "run")
    assert ended.code == 0
    assert "no confidence: no seeds are held back to calibrate it on (iterations is 1);" in ended.err


def test_quiet_prints_no_expectation(tmp_path):
    ended = divea(*write_inputs(tmp_path, PAIR), "--quiet", "--out", tmp_path / "run")
    assert (ended.code, ended.out, ended.err) == (0, "", "")
