"""Runs on a small data set: what a cell measures, and that a stopped experiment goes on."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from divea.formats import read_task
from divea.reproduce.cell import Cell
from divea.reproduce.measure import measure, settings_of
from divea.reproduce.methods import METHODS, settings_for
from divea.reproduce.recipes import RECIPES
from divea.reproduce.runner import load
from tests.command_line import divea
from tests.reproduce.data import write_data

QUICK = {"gcn-align.steps": 3, "iterations": 2, "top": 20}
OPTIONS = (
    *("--pairs", "ab_cd", "--splits", "0-1", "--subtasks", "2", "--models", "gcn-align"),
    *("--set", "gcn-align.steps=3", "--set", "iterations=2", "--set", "top=20"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


def quick_cell(method, scale="cps", subtasks=2, **more):
    settings = settings_for(method, "gcn-align", scale, QUICK)
    return Cell("ab_cd", 20, 0, method, scale, "gcn-align", subtasks, settings, **more)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_measured(method, data):
    record = measure(quick_cell(method), data, "cpu")
    assert len(record["iterations"]) == (1 if method.endswith("(sup)") else 2)
    for found in record["iterations"]:
        assert 0 <= found["H@1"] <= found["H@5"] <= found["H@10"] <= 1
        assert found["coverage"] <= found["together"] <= 1
        assert found["subtasks"] == 2
    assert record["division_seconds"] + record["solving_seconds"] <= record["seconds"]
    json.dumps(record)


def test_sizes_are_those_of_the_rival(data):
    task = read_task(data / "ab_cd", data / "ab_cd" / "splits" / "20" / "0" / "sup_ent_ids")
    entities = task.source.num_entities + task.target.num_entities
    assert settings_of(quick_cell("DivEA"), task).size == entities // 2
    rival = measure(quick_cell("SBP (sup)", "sbp"), data, "cpu")["iterations"][0]
    assert settings_of(quick_cell("DivEA", "sbp"), task).size == int(rival["mean_size"])
    assert settings_of(quick_cell("CPS (semi)"), task).size is None


def test_gold_changes_what_is_measured_and_not_what_is_predicted(data, tmp_path):
    # With the test links shuffled, the number of pseudo-seeds and the division stay, and quality goes.
    copy = write_data(tmp_path)
    path = copy / "ab_cd" / "splits" / "20" / "0" / "ref_ent_ids"
    pairs = [line.split() for line in path.read_text().splitlines()]
    turned = [f"{a}\t{b}\n" for (a, _), (_, b) in zip(pairs, pairs[1:] + pairs[:1], strict=True)]
    path.write_text("".join(turned))
    cell = quick_cell("DivEA")
    right, wrong = (measure(cell, folder, "cpu")["iterations"] for folder in (data, copy))
    for name in ("pseudo_seeds", "subtasks", "mean_size"):
        assert [one[name] for one in right] == [one[name] for one in wrong]
    assert wrong[-1]["H@1"] < right[-1]["H@1"]


def test_validation_reads_no_test_links(tmp_path):
    copy = write_data(tmp_path)
    (copy / "ab_cd" / "splits" / "20" / "0" / "ref_ent_ids").unlink()
    record = measure(quick_cell("DivEA", validation=0.5), copy, "cpu")
    seeds = (copy / "ab_cd" / "splits" / "20" / "0" / "sup_ent_ids").read_text().count("\n")
    assert record["links"] == round(0.5 * seeds)


def test_one_subtask_is_the_whole_graph(data):
    record = measure(quick_cell("DivEA", subtasks=1, stacked=False), data, "cpu")
    assert record["iterations"][-1]["coverage"] == 1
    assert record["memory_mib"] > 0


def test_command_from_data_to_table(data, tmp_path):
    out = tmp_path / "out"
    ended = divea("reproduce", "cps", "--data", data, "--out", out, "--jobs", 2, *OPTIONS)
    assert ended.code == 0, ended.err
    assert "[10/10]" in ended.err
    assert "CPS (semi)" in ended.out
    assert sorted(path.name for path in out.iterdir()) == [
        *("cells.jsonl", "cps.md", "cps.png", "cps.svg", "cps.tsv")
    ]
    lines = (out / "cps.tsv").read_text().splitlines()
    methods = [method for method, _ in RECIPES["cps"].methods]
    assert [line.split("\t")[5:7] for line in lines[1:]] == [[method, "2"] for method in methods]
    # All is there: the same again runs nothing, and another recipe takes what it shares.
    before = (out / "cells.jsonl").read_bytes()
    assert divea("reproduce", "cps", "--data", data, "--out", out, *OPTIONS).code == 0
    ended = divea("reproduce", "coverage", "--data", data, "--out", out, "--no-run", *OPTIONS)
    assert ended.code == 0
    assert (out / "cells.jsonl").read_bytes() == before
    assert (out / "coverage.tsv").read_text().count("\n") == 4


def test_goes_on_after_it_was_killed(data, tmp_path):
    out = tmp_path / "out"
    command = ["reproduce", "sbp", "--data", str(data), "--out", str(out), *OPTIONS]
    process = subprocess.Popen(
        [sys.executable, "-m", "divea", *command], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    cells = out / "cells.jsonl"
    deadline = time.monotonic() + 120
    while not (cells.exists() and cells.read_bytes().count(b"\n")) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = children(process.pid)
    process.kill()
    process.wait()
    finished = cells.read_bytes()
    assert 1 <= finished.count(b"\n") < 14
    # Workers end with it.
    while any(alive(worker) for worker in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(worker) for worker in workers)
    # A line that was cut short is no cell.
    with cells.open("ab") as file:
        file.write(finished[: len(finished) // 3].rstrip(b"\n"))
    ended = divea(*command)
    assert ended.code == 0, ended.err
    assert cells.read_bytes().startswith(finished)
    expected = {
        cell.key
        for cell in RECIPES["sbp"].cells(["ab_cd"], ["gcn-align"], [0, 1], subtasks=[2], changes=QUICK)
    }
    records = load(cells)
    assert records.keys() == expected
    assert len((out / "sbp.tsv").read_text().splitlines()) == 8
    # What ran before and after the kill is what an undisturbed run gives.
    for record in records.values():
        again = measure(Cell(**record["cell"]), data, "cpu")
        assert again["iterations"] == record["iterations"]


def children(pid):
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    return [int(number) for number in listed.stdout.split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_failing_cell_leaves_the_others_alone(data, tmp_path):
    broken = write_data(tmp_path / "data")
    (broken / "ab_cd" / "splits" / "20" / "1" / "sup_ent_ids").write_text("1\tnothing\n")
    ended = divea("reproduce", "cps", "--data", broken, "--out", tmp_path / "out", *OPTIONS)
    assert ended.code == 2
    assert "5 cells failed" in ended.err
    assert len(load(tmp_path / "out" / "cells.jsonl")) == 5
    assert (tmp_path / "out" / "cps.tsv").read_text().count("\n") == 6


def test_mistakes_are_named(data, tmp_path):
    for arguments, said in (
        (["nothing"], "choose from cps, sbp"),
        (["cps", "--pairs", "no_no"], "no data set 'no_no'"),
        (["cps", "--splits", "a"], "names no numbers"),
        (["cps", "--splits", "7"], "none of these splits"),
        (["cps", "--set", "steps=3"], "is no setting"),
        (["cps", "--method", "I-SBP"], "has no method 'I-SBP'"),
    ):
        options = [
            "--data",
            data,
            "--out",
            tmp_path,
            *(["--pairs", "ab_cd"] if "--pairs" not in arguments else []),
        ]
        ended = divea("reproduce", *arguments, *options)
        assert ended.code == 2
        assert said in ended.err.replace("\n", " "), ended.err
