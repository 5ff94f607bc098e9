"""The benchmarks as a system: all are listed and explained, and what they share works."""

import argparse
import json
import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import page
from benchmarks.__main__ import listing, main
from benchmarks.catalogue import KINDS, all_benchmarks, find
from benchmarks.common import (
    MIB,
    DataSet,
    Figures,
    Measurement,
    Rounds,
    Spread,
    held_out_seeds,
    in_turns,
    make_models,
    make_record,
    measure_in_child,
    shown,
    validation_folds,
    write_record,
)
from benchmarks.common.records import PAGE, ROOT
from benchmarks.quality import review, suggest
from divea import InputError
from divea.graphs.planted import planted_pair
from tests.runs.tiny import PAIR

NAMES = [benchmark.name for benchmark in all_benchmarks()]


def allocate(size: int) -> Callable[[], int]:
    """Work for a child process: hold `size` bytes and wait."""

    def work() -> int:
        block = b"x" * size
        time.sleep(0.05)
        return len(block)

    return work


def allocate_less(before: int, size: int) -> Callable[[], int]:
    """Work that holds less than its preparation did."""
    allocate(before)()
    return allocate(size)


def crash() -> Callable[[], None]:
    raise InputError("no work here")


def example_record() -> dict[str, object]:
    figures = Figures()
    table = figures.table("sizes", {"entities": "", "time": "s"})
    table.add({"entities": 1000, "time": Spread(2.0, 1.5, 2.5, 3)})
    table.add({"entities": 2000})
    figures.add("ratio", 2.123456789)
    figures.add("speed", 3.5, "GB/s")
    parameters = {"data": ROOT.parent / "shared" / "data", "rounds": 3}
    arguments = ["divide", "--pairs", str(ROOT / "pairs"), "--rounds", "3"]
    return make_record(
        "divide", figures, arguments=arguments, parameters=parameters, device="cpu", seconds=1.0
    )


def test_every_script_is_listed_with_what_it_needs():
    folder = ROOT / "benchmarks"
    scripts = {
        path.stem for kind in KINDS for path in (folder / kind).glob("*.py") if path.stem != "__init__"
    }
    assert set(NAMES) == scripts
    assert len(NAMES) == len(scripts), "two benchmarks have the same name"
    lines = listing().splitlines()
    for benchmark in all_benchmarks():
        line = next(line for line in lines if line.split()[:1] == [benchmark.name])
        needs = benchmark.needs
        assert all(text in line for text in (needs.data, needs.hardware, needs.time, benchmark.summary))


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_explains_itself(name, capsys):
    assert find(name).summary.endswith("."), "the first line of the docstring is a sentence"
    with pytest.raises(SystemExit) as end:
        main(["run", name, "--help"])
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert find(name).summary in text
    assert "--record" in text


def test_the_page_is_up_to_date_with_the_records():
    assert PAGE.read_text() == page.render(page.stored_records()), "run `python -m benchmarks page`"


def test_every_record_belongs_to_a_benchmark_and_succeeded():
    for record in page.stored_records():
        assert record["benchmark"] in NAMES
        assert record["failures"] == []


def documented_commands() -> list[tuple[str, list[str]]]:
    """The page and the arguments of every benchmark command in the docs, in code blocks and in sentences."""
    found = []
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path != PAGE:
            text = path.read_text().replace("\\\n", " ")
            commands = re.findall(r"^(?:\w+=\S+ )?python -m benchmarks run (.+)$", text, re.MULTILINE)
            commands += re.findall(r"`(?:\w+=\S+ )?python\s-m\sbenchmarks\srun\s([^`]+)`", text)
            found += [(path.name, shlex.split(command, comments=True)) for command in commands]
    return found


@pytest.mark.parametrize(("document", "arguments"), documented_commands())
def test_every_documented_command_is_valid(document, arguments):
    if arguments[0] != "NAME":
        # A wrong option would end the parser with SystemExit.
        assert find(arguments[0]).parser().parse_args(arguments[1:]) is not None


def test_every_benchmark_that_the_code_names_exists():
    for path in (ROOT / "src").rglob("*.py"):
        for name in re.findall(r"benchmarks/[\w/]+\.py", path.read_text()):
            assert (ROOT / name).is_file(), f"{path.name} names {name}"


def test_work_is_measured_in_a_new_process():
    done = measure_in_child(allocate, 64 * MIB)
    assert done.result == 64 * MIB
    assert 0.05 <= done.seconds < 30
    assert done.cpu_seconds >= 0
    assert 60 * MIB < done.memory < 100 * MIB
    assert done.process_memory > done.memory


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak can be reset on Linux only")
def test_the_peak_of_the_preparation_does_not_count():
    done = measure_in_child(allocate_less, 128 * MIB, 64 * MIB)
    assert 60 * MIB < done.memory < 100 * MIB
    assert done.process_memory > 128 * MIB


def test_an_error_in_the_new_process_is_raised_here():
    with pytest.raises(InputError, match="no work here"):
        measure_in_child(crash)


def test_rounds_take_turns_and_ratios_are_of_one_round():
    order = []

    def work(name: str, seconds: list[float]) -> Measurement[None]:
        order.append(name)
        return Measurement(seconds.pop(0), 0.0, 2 * MIB, 0, None)

    slow, fast = [4.0, 9.0, 2.0], [2.0, 3.0, 1.0]
    found: dict[str, Rounds[None]] = in_turns(
        {"slow": lambda: work("slow", slow), "fast": lambda: work("fast", fast)}, rounds=3
    )
    assert order == ["slow", "fast"] * 3
    assert found["slow"].seconds == Spread(4.0, 2.0, 9.0, 3)
    assert found["slow"].times(found["fast"]) == Spread(2.0, 2.0, 3.0, 3)
    assert found["slow"].memory.median == 2.0


def test_a_record_says_how_to_measure_again(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    path = write_record(example_record(), tmp_path, label="quiet")
    assert path.name == "divide-quiet.json"
    record = json.loads(path.read_text())
    assert record["command"] == "OMP_NUM_THREADS=1 python -m benchmarks run divide --pairs pairs --rounds 3"
    assert record["parameters"] == {"data": "../shared/data", "rounds": 3}
    assert {"cpu", "cores", "memory", "gpu", "python", "torch", "numpy", "scipy", "divea"} == {
        *record["machine"]
    }
    assert {"commit", "dirty", "date"} <= record.keys()
    spread = {"median": 2.0, "low": 1.5, "high": 2.5, "rounds": 3}
    assert record["figures"] == {
        "sizes": {"columns": {"entities": "", "time": "s"}, "rows": [[1000, spread], [2000, None]]},
        "ratio": {"value": 2.1235, "unit": ""},
        "speed": {"value": 3.5, "unit": "GB/s"},
    }


def test_the_page_shows_records_and_what_has_none(tmp_path):
    write_record(example_record(), tmp_path, label="quiet")
    text = page.render(page.stored_records(tmp_path))
    assert "#### divide, quiet" in text
    assert "| entities | time, s |" in text
    assert "| 1,000 | 2 (1.5 to 2.5) |" in text
    assert "| speed | 3.5 GB/s |" in text
    assert "python -m benchmarks run divide --pairs pairs --rounds 3" in text
    assert "- `read`: " in text


def test_a_table_refuses_columns_that_it_does_not_have():
    with pytest.raises(ValueError, match="no column size"):
        Figures().table("sizes", {"entities": ""}).add({"size": 3})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.79034, "0.7903"), (12345, "12,345"), (1234.5, "1,234"), (True, "yes"), (None, ""), ("a", "a")],
)
def test_values_are_shown_to_people(value, text):
    assert shown(value) == text


def test_held_out_seeds_are_no_seeds_of_the_task():
    task = planted_pair(seeds=40).task
    reduced, held_out = held_out_seeds(task)
    assert (len(reduced.seeds), len(held_out)) == (32, 8)
    assert reduced.seeds.union(held_out) == task.seeds
    folds = list(validation_folds(task))
    assert len(folds) == 5
    assert sum(len(held_out) for _, held_out in folds) == 40
    assert all(reduced.seeds.union(held_out) == task.seeds for reduced, held_out in folds)


def test_missing_data_is_one_clear_line(tmp_path, capsys):
    assert main(["run", "evidence", "--data", str(tmp_path)]) == 2
    error = capsys.readouterr().err.strip()
    assert error.endswith("the data set zh-en is not here; --data names the data folder")
    assert "\n" not in error


def test_a_data_set_without_the_split_is_refused(tmp_path):
    (tmp_path / "dbp15k" / "zh_en").mkdir(parents=True)
    with pytest.raises(InputError, match="no such split"):
        DataSet("zh-en", tmp_path, split=9).task()


def test_a_missing_gpu_is_one_clear_line(capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["run", "step_profile"]) == 2
    assert capsys.readouterr().err.strip() == (
        "step_profile: this benchmark needs a GPU, and torch finds none here"
    )
    assert main(["run", "sparse_kernels", "--device", "cuda"]) == 2
    assert "no GPU" in capsys.readouterr().err


def test_an_unknown_benchmark_is_refused(capsys):
    assert main(["run", "nothing"]) == 2
    assert "unknown benchmark 'nothing'; choose from divide" in capsys.readouterr().err


def test_options_of_models_are_settings_paths():
    models = make_models(["rrea", "dual-amn"], ["model.rrea.steps=7"])
    assert models["rrea"].options.steps == 7
    with pytest.raises(InputError, match="option of none of the models"):
        make_models(["rrea"], ["model.gcn-align.steps=7"])


def test_a_failure_is_recorded_and_ends_with_1(tmp_path, capsys, monkeypatch):
    def broken(options):
        figures = Figures()
        figures.fail("the bytes differ")
        return figures

    monkeypatch.setattr(find("fuzz").module, "run", broken)
    assert main(["run", "fuzz", "--record", str(tmp_path)]) == 1
    assert json.loads((tmp_path / "fuzz.json").read_text())["failures"] == ["the bytes differ"]


def test_a_benchmark_runs_from_end_to_end(capsys):
    assert main(["run", "read", "--triples", "400", "--rounds", "1"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["benchmark"] == "read"
    assert record["parameters"] == {"triples": 400, "rounds": 1}
    reading = record["figures"]["reading"]
    rows = [dict(zip(reading["columns"], row, strict=True)) for row in reading["rows"]]
    assert [row["file"] for row in rows] == ["TSV", "N-Triples", "TSV, shuffled"]
    for row in rows:
        assert row["triples"] > 300
        assert row["divea"]["median"] > 0
        assert row["time ratio"]["rounds"] == 1


def test_gold_plays_the_reviewer_and_names_counterparts():
    options = argparse.Namespace(
        pairs=15, seeds=1, subtasks=1, device="cpu", start=0.2, labels=6, rounds=2, set=["iterations=2"]
    )
    test = PAIR.gold.without(PAIR.task.seeds)
    before, reviewed, refined, random = review.compare(PAIR.task, test, options)
    judged = [reviewed.get(kind, 0) for kind in ("accepted", "corrected", "rejected", "not judged")]
    assert sum(judged) == 15 and judged[0] + judged[1] > 5
    assert random["accepted"] == 15 and before["gain"] == 0 and refined["solved again"] == 1
    start, suggested, entities, links = suggest.compare(PAIR.task, PAIR.gold, 0, options)
    assert start["seeds"] == round(0.2 * len(PAIR.gold))
    assert suggested["seeds"] == start["seeds"] + 12 - suggested["wasted"]
    assert entities["seeds"] == start["seeds"] + 12 - entities["wasted"] and entities["wasted"] > 0
    assert links["seeds"] == start["seeds"] + 12 and links["wasted"] == 0
    for row in (before, reviewed, refined, start, suggested, entities, links):
        assert 0 <= row["hits@1 of the rest"] <= 1
