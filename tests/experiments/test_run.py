"""Runs of cells on a small data set: their figures, and experiments that are stopped and continued."""

import json
import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest

import divea as package
from divea.errors import InputError
from divea.experiments import run_cell as run_cell_module
from divea.experiments.cell import Cell
from divea.experiments.methods import METHODS, settings_for
from divea.experiments.recipes import RECIPES
from divea.experiments.run import finished_cells, run_folder
from divea.experiments.run_cell import cell_settings, read_metrics, read_split, run_cell
from divea.formats import read_task
from divea.graphs.names import GIVEN_NAME
from divea.resources.machine import cores
from divea.runs.journal import Journal, read_journal
from divea.runs.layout import METRICS
from divea.runs.status import status_of
from tests.command_line import divea
from tests.experiments.data import PAIR, split_of, write_data, write_names
from tests.runs.tiny import solved_now, tables

QUICK = {"model.gcn-align.steps": 3, "output.top": 20}
"""Settings that make a cell take a fraction of a second."""
OPTIONS = (
    *("--pairs", PAIR, "--splits", "0-1", "--subtasks", "2", "--models", "gcn-align"),
    *("--set", "model.gcn-align.steps=3", "--set", "output.top=20"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


def quick_cell(method, scale="cps", subtasks=2, **more):
    settings = settings_for(method, "gcn-align", scale, QUICK)
    # Two iterations are enough; a supervised method has one.
    settings["iterations"] = min(settings["iterations"], 2)
    return Cell(PAIR, 20, 0, method, scale, "gcn-align", subtasks, settings, **more)


def run_here(cell, run, data):
    """Run a cell in this process: with a job per core, none has cores left for workers of its own."""
    return run_cell(cell, run, data=data, device="cpu", jobs=cores())


@cache
def all_cells(methods=()):
    """The cells that OPTIONS name: ten of the recipe `cps`."""
    return RECIPES["cps"].cells([PAIR], ["gcn-align"], [0, 1], subtasks=[2], methods=methods, changes=QUICK)


# One cell


@pytest.mark.parametrize("method", METHODS)
def test_every_method_is_measured(method, data, tmp_path):
    metrics = run_here(quick_cell(method), tmp_path / "run", data)
    assert len(metrics["iterations"]) == (1 if method.endswith("(sup)") else 2)
    for found in metrics["iterations"]:
        assert 0 <= found["H@1"] <= found["H@5"] <= found["H@10"] <= 1
        assert found["coverage"] <= found["together"] <= 1
        assert found["subtasks"] == 2
    assert metrics["division_seconds"] + metrics["solving_seconds"] <= metrics["seconds"]
    assert json.loads((tmp_path / "run" / METRICS).read_text()) == metrics
    assert read_metrics(tmp_path / "run") == metrics


def test_the_figures_are_those_of_the_run(data, tmp_path):
    metrics = run_here(quick_cell("DivEA"), tmp_path / "run", data)
    assert status_of(tmp_path / "run").state == "finished"
    found = package.Alignment(tmp_path / "run").evaluate(split_of(data) / "ref_ent_ids")
    last = metrics["iterations"][-1]
    assert metrics["links"] == found.links
    assert (last["H@1"], last["MRR"], last["coverage"]) == (found.h1, found.mrr, found.coverage)


def test_sizes_are_those_of_the_rival(data, tmp_path):
    task = read_task(data / PAIR, split_of(data) / "sup_ent_ids")
    entities = task.source.num_entities + task.target.num_entities
    assert cell_settings(quick_cell("DivEA"), task).size == entities // 2
    rival = run_here(quick_cell("SBP (sup)", "sbp"), tmp_path / "run", data)["iterations"][0]
    assert cell_settings(quick_cell("DivEA", "sbp"), task).size == int(rival["mean_size"])
    assert cell_settings(quick_cell("CPS (semi)"), task).size is None


def test_gold_changes_the_figures_but_not_the_predictions(data, tmp_path):
    shuffled = write_data(tmp_path / "data")
    path = split_of(shuffled) / "ref_ent_ids"
    pairs = [line.split() for line in path.read_text().splitlines()]
    turned = [f"{a}\t{b}\n" for (a, _), (_, b) in zip(pairs, pairs[1:] + pairs[:1], strict=True)]
    path.write_text("".join(turned))
    cell = quick_cell("DivEA")
    true = run_here(cell, tmp_path / "true", data)["iterations"]
    false = run_here(cell, tmp_path / "false", shuffled)["iterations"]
    for name in ("pseudo_seeds", "subtasks", "mean_size"):
        assert [found[name] for found in true] == [found[name] for found in false]
    assert tables(tmp_path / "true") == tables(tmp_path / "false")
    assert false[-1]["H@1"] < true[-1]["H@1"]


def test_gold_is_read_after_the_run_has_finished(data, tmp_path, monkeypatch):
    run, states = tmp_path / "run", []

    def fail(*arguments):
        states.append((status_of(run).state, len(package.Alignment(run).ranked)))
        raise InputError("no gold today")

    with monkeypatch.context() as patch:
        patch.setattr(run_cell_module, "read_gold", fail)
        with pytest.raises(InputError, match="no gold today"):
            run_here(quick_cell("DivEA"), run, data)
    assert len(states) == 1 and states[0][0] == "finished" and states[0][1] > 0
    assert read_metrics(run) is None and not (run / METRICS).exists()
    before = tables(run)
    metrics = run_here(quick_cell("DivEA"), run, data)
    assert solved_now(run) == 0 and tables(run) == before
    assert read_metrics(run) == metrics


def test_a_cell_without_test_links_has_a_complete_run(tmp_path):
    data = write_data(tmp_path / "data")
    (split_of(data) / "ref_ent_ids").unlink()
    with pytest.raises(InputError, match="ref_ent_ids"):
        run_here(quick_cell("DivEA"), tmp_path / "run", data)
    assert status_of(tmp_path / "run").state == "finished"
    assert len(package.Alignment(tmp_path / "run").ranked)
    assert read_metrics(tmp_path / "run") is None


def test_validation_does_not_read_test_links(tmp_path):
    data = write_data(tmp_path / "data")
    (split_of(data) / "ref_ent_ids").unlink()
    metrics = run_here(quick_cell("DivEA", validation=0.5), tmp_path / "run", data)
    seeds = (split_of(data) / "sup_ent_ids").read_text().count("\n")
    assert metrics["links"] == round(0.5 * seeds)


def test_one_subtask_is_the_whole_graph(data, tmp_path):
    metrics = run_here(quick_cell("DivEA", subtasks=1, stacked=False), tmp_path / "run", data)
    assert metrics["iterations"][-1]["coverage"] == 1
    assert metrics["memory_mib"] > 0


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Data with names, of which those of the left graph are in a file."""
    data = write_data(tmp_path / "named")
    file = write_names(data)
    monkeypatch.setitem(run_cell_module.NAME_FILES, PAIR, file.name)
    return data


@pytest.mark.parametrize("method", ["CPS (semi)", "DivEA (paper)", "DivEA"])
def test_names_help_every_division(method, named, tmp_path):
    plain, with_names = (
        run_here(quick_cell(name), tmp_path / name, named)["iterations"]
        for name in (method, f"{method}, with names")
    )
    # Already in the first iteration, because pairs that names are sure of take part in the division.
    assert with_names[0]["coverage"] > plain[0]["coverage"]
    assert with_names[0]["H@1"] > plain[0]["H@1"] + 0.2
    assert with_names[-1]["H@1"] > plain[-1]["H@1"] + 0.2


def test_names_are_read_only_for_methods_that_use_them(named):
    assert read_split(named / PAIR, 20, 0).source.attributes is None
    task = read_split(named / PAIR, 20, 0, with_names=True)
    assert set(task.source.attributes.predicate_labels.to_pylist()) == {GIVEN_NAME}
    assert task.target.attributes is None


def test_a_missing_file_of_names_is_an_error_of_the_methods_that_use_it(named, tmp_path):
    (named / PAIR / "names_1.tsv").unlink()
    run_here(quick_cell("DivEA"), tmp_path / "plain", named)
    with pytest.raises(InputError, match=r"names_1\.tsv"):
        run_here(quick_cell("DivEA, with names"), tmp_path / "run", named)


@pytest.mark.parametrize(("committed", "left"), [(1, 4), (3, 3), (5, 2), (8, 0)])
def test_an_interrupted_cell_continues_and_ends_with_the_same_figures(
    data, tmp_path, monkeypatch, committed, left
):
    """A run commits a division and two results in each of two iterations, what it learned between them, and
    then its tables.
    """
    cell = quick_cell("DivEA (paper)")
    expected = run_here(cell, tmp_path / "undisturbed", data)
    run = tmp_path / "interrupted"
    append = Journal.append

    def interrupt(journal, entry):
        append(journal, entry)
        if len(journal.entries) == committed:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run_here(cell, run, data)
    assert read_metrics(run) is None and len(read_journal(run)) == committed
    found = run_here(cell, run, data)
    # The last line was written before its file was put in place, so that result does not count.
    assert solved_now(run) == left
    assert found["iterations"] == expected["iterations"] and found["links"] == expected["links"]
    assert tables(run) == tables(tmp_path / "undisturbed")


@pytest.mark.parametrize("damage", ["cut short", "changed", "removed", "not in the journal"])
def test_damaged_metrics_are_computed_again_without_solving_a_subtask_again(data, tmp_path, damage):
    cell, run = quick_cell("DivEA (paper)"), tmp_path / "run"
    expected, before = run_here(cell, run, data), tables(run)
    path, journal = run / METRICS, run / "journal.jsonl"
    if damage == "cut short":
        path.write_text(path.read_text()[:-20])
    elif damage == "changed":
        path.write_text(json.dumps({**expected, "links": 1}))
    elif damage == "removed":
        path.unlink()
    else:
        lines = journal.read_text().splitlines(keepends=True)
        journal.write_text("".join(line for line in lines if METRICS not in line))
    assert read_metrics(run) is None
    found = run_here(cell, run, data)
    assert solved_now(run) == 0 and tables(run) == before
    assert found["iterations"] == expected["iterations"] and found["links"] == expected["links"]
    assert read_metrics(run) == found


def test_metrics_that_are_computed_again_have_the_same_costs(data, tmp_path):
    cell, run = quick_cell("DivEA (paper)"), tmp_path / "run"
    expected = run_here(cell, run, data)
    (run / METRICS).unlink()
    found = run_here(cell, run, data)
    assert found["division_seconds"] == expected["division_seconds"]
    assert found["solving_seconds"] == expected["solving_seconds"]


# Experiments


def test_from_data_to_table(data, tmp_path):
    out = tmp_path / "out"
    ended = divea("reproduce", "cps", "--data", data, "--out", out, "--jobs", 2, *OPTIONS)
    assert ended.code == 0, ended.err
    assert "[10/10]" in ended.err
    assert "CPS (semi)" in ended.out
    assert sorted(path.name for path in out.iterdir()) == [
        *("cps.md", "cps.png", "cps.svg", "cps.tsv", "runs")
    ]
    lines = (out / "cps.tsv").read_text().splitlines()
    methods = [method for method, _ in RECIPES["cps"].methods]
    assert [line.split("\t")[5:7] for line in lines[1:]] == [[method, "2"] for method in methods]
    # Every cell is finished: the same command runs nothing, and another recipe uses the cells that it shares.
    before = {path: path.read_bytes() for path in (out / "runs").rglob("*") if path.is_file()}
    again = divea("reproduce", "cps", "--data", data, "--out", out, *OPTIONS)
    assert again.code == 0 and "10 cells, 10 of them finished before" in again.err
    ended = divea("reproduce", "coverage", "--data", data, "--out", out, "--no-run", *OPTIONS)
    assert ended.code == 0
    assert {path: path.read_bytes() for path in (out / "runs").rglob("*") if path.is_file()} == before
    assert (out / "coverage.tsv").read_text().count("\n") == 4


class Experiment:
    """`divea reproduce` with ten cells, in a process that can be stopped."""

    def __init__(self, data, out):
        self.out = out
        self.arguments = ["reproduce", "cps", "--data", str(data), "--out", str(out), "--jobs", "2", *OPTIONS]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "divea", *self.arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for_a_cell(self):
        """Wait until a cell is finished; returns the processes that run the cells."""
        wait_until(self.finished)
        assert self.process.poll() is None
        workers = [child for child in children_of(self.process.pid) if is_pool_worker(child)]
        assert len(workers) == 2
        return workers

    def finished(self):
        """The figures of the finished cells, by key."""
        return finished_cells(all_cells(), self.out)

    def missing(self):
        """The cells that are not finished, those that were started first."""
        finished = self.finished()
        assert 1 <= len(finished) < len(all_cells())
        missing = [cell for cell in all_cells() if cell.key not in finished]
        return sorted(missing, key=lambda cell: not run_folder(self.out, cell).exists())


def wait_until(is_reached, seconds=120):
    deadline = time.monotonic() + seconds
    while not is_reached():
        assert time.monotonic() < deadline, "took too long"
        time.sleep(0.02)


def children_of(process):
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process)], capture_output=True, text=True, check=False
    )
    return [int(number) for number in listed.stdout.split()]


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def is_pool_worker(process):
    return b"spawn_main" in Path(f"/proc/{process}/cmdline").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(data, tmp_path_factory):
    """The figures of all cells, each run from start to end."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return {cell.key: run_here(cell, folder / cell.key, data) for cell in all_cells()}


@pytest.fixture
def experiment(data, tmp_path, undisturbed):
    # Depends on `undisturbed` so that the experiment does not run to its end while that is computed.
    started = Experiment(data, tmp_path / "out")
    yield started
    started.process.kill()
    started.process.communicate()


def test_a_killed_experiment_continues(experiment, undisturbed):
    workers = experiment.wait_for_a_cell()
    experiment.process.kill()
    experiment.process.wait()
    # Its workers end with it.
    wait_until(lambda: not any(is_alive(worker) for worker in workers))
    finished = experiment.finished()
    assert experiment.missing()
    # A journal line that a crash cut short does not count, and does no harm.
    for journal in (experiment.out / "runs").glob("*/journal.jsonl"):
        with journal.open("ab") as file:
            file.write(b'{"file": "metrics.json", "checksum": "12')
    assert experiment.finished() == finished
    ended = divea(*experiment.arguments)
    assert ended.code == 0, ended.err
    assert f"10 cells, {len(finished)} of them finished before" in ended.err
    metrics = experiment.finished()
    assert metrics.keys() == undisturbed.keys()
    assert len((experiment.out / "cps.tsv").read_text().splitlines()) == 6
    assert {key: metrics[key] for key in finished} == finished
    for key, expected in undisturbed.items():
        assert metrics[key]["iterations"] == expected["iterations"]


def test_an_experiment_can_be_continued_after_ctrl_c(experiment, data, undisturbed):
    workers = experiment.wait_for_a_cell()
    experiment.process.send_signal(signal.SIGINT)
    _, err = experiment.process.communicate(timeout=120)
    assert experiment.process.returncode == 130, err
    assert "stopped; the same command continues from here" in err and "Traceback" not in err
    wait_until(lambda: not any(is_alive(worker) for worker in workers))
    cell = experiment.missing()[0]
    found = run_here(cell, run_folder(experiment.out, cell), data)
    assert found["iterations"] == undisturbed[cell.key]["iterations"]


def test_an_experiment_can_be_continued_after_a_worker_was_killed(experiment, data, undisturbed):
    workers = experiment.wait_for_a_cell()
    os.kill(workers[0], signal.SIGKILL)
    _, err = experiment.process.communicate(timeout=120)
    assert experiment.process.returncode == 2
    assert err.splitlines()[-1].startswith("divea: a worker process ended") and "fewer --jobs" in err
    assert "Traceback" not in err
    wait_until(lambda: not any(is_alive(worker) for worker in workers))
    cell = experiment.missing()[0]
    found = run_here(cell, run_folder(experiment.out, cell), data)
    assert found["iterations"] == undisturbed[cell.key]["iterations"]


def test_a_failing_cell_does_not_affect_the_others(tmp_path):
    data, out = write_data(tmp_path / "data"), tmp_path / "out"
    seeds = split_of(data, 20, 1) / "sup_ent_ids"
    good_seeds = seeds.read_text()
    seeds.write_text("1\tnothing\n")
    cells = all_cells(("CPS (sup)", "CPS (semi)"))
    methods = ["--method", "CPS (sup)", "--method", "CPS (semi)"]
    command = ["reproduce", "cps", "--data", data, "--out", out, "--jobs", 2, *OPTIONS, *methods]
    ended = divea(*command)
    assert ended.code == 2
    assert "2 cells failed" in ended.err and "'nothing'" in ended.err
    assert len(finished_cells(cells, out)) == 2
    assert (out / "cps.tsv").read_text().count("\n") == 3
    # A failed cell can be tried again in the same place.
    seeds.write_text(good_seeds)
    failed = next(cell for cell in cells if read_metrics(run_folder(out, cell)) is None)
    assert failed.split == 1
    assert run_here(failed, run_folder(out, failed), data)["links"] > 0
    assert len(finished_cells(cells, out)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "choose from cps, sbp"),
        (["cps", "--pairs", "no_no"], "no data set 'no_no'"),
        (["cps", "--splits", "a"], "names no numbers"),
        (["cps", "--splits", "7"], "none of these splits"),
        (["cps", "--set", "steps=3"], "steps: unknown setting"),
        (["cps", "--method", "I-SBP"], "has no method 'I-SBP'"),
        (["cps", "--models", "oracle"], "unknown model 'oracle'"),
    ],
)
def test_mistakes_are_named(data, tmp_path, arguments, message):
    pairs = [] if "--pairs" in arguments else ["--pairs", PAIR]
    ended = divea("reproduce", *arguments, "--data", data, "--out", tmp_path / "out", *pairs)
    assert ended.code == 2
    assert message in ended.err.splitlines()[-1] and "Traceback" not in ended.err
    assert not (tmp_path / "out").exists()


def test_a_split_that_the_data_set_lacks_is_left_out(data, tmp_path):
    options = ["--pairs", PAIR, "--splits", "0,7", "--no-run"]
    ended = divea("reproduce", "cps", "--data", data, "--out", tmp_path / "out", *options)
    assert ended.code == 0 and f"left out: {PAIR} has no split 20/7" in ended.err
    assert "no cell is finished yet" in ended.out
