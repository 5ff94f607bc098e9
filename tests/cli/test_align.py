"""`divea align`, `evaluate`, `status` and `runs` as a user meets them, and `divea.align` beside them."""

import json
import random
import shutil

import pyarrow.parquet as pq
import pytest

import divea as package
from divea.evaluation import read_gold
from divea.formats import read_mappings, write_task
from divea.graphs import Links
from tests.command_line import divea
from tests.run.tiny import PAIR, SETTINGS, tables, write_inputs


def labelled(links):
    sides = links.labels(PAIR.task.source, PAIR.task.target)
    return list(zip(*(side.to_pylist() for side in sides), strict=True))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("align")
    command = write_inputs(folder)
    (folder / "gold.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in labelled(PAIR.gold)))
    ended = divea(*command, "--out", folder / "run")
    assert ended.code == 0, ended.err
    assert "iteration 2 of 2: 2 subtasks" in ended.err and "mappings.tsv" in ended.out
    return folder


def test_tables_agree_with_each_other_and_with_python(finished):
    run = finished / "run"
    mappings, ranked = pq.read_table(run / "mappings.parquet"), pq.read_table(run / "ranked.parquet")
    names = "source,target,score,confidence,rank,margin,mutual,subtask,iteration"
    assert ",".join(mappings.column_names) == names
    given = ranked.filter(ranked["given"])
    assert {
        *zip(*(mappings[name].to_pylist() for name in ("source", "target", "rank", "score")), strict=True)
    } == {*zip(*(given[name].to_pylist() for name in ("source", "target", "rank", "score")), strict=True)}
    assert (
        len(set(mappings["target"].to_pylist())) == len(set(mappings["source"].to_pylist())) == len(mappings)
    )
    assert read_mappings(run / "mappings.tsv")["source"].to_pylist() == mappings["source"].to_pylist()
    alignment = package.align(PAIR.task, device="cpu", **SETTINGS)
    assert alignment.mappings.equals(mappings) and alignment.ranked.equals(ranked)
    assert repr(alignment) == f"Alignment({len(mappings)} pairs)"


@pytest.mark.parametrize("name", ["m.tsv", "m.csv", "m.parquet", "m.sssom.tsv", "m.rdf", "m.nt"])
def test_an_alignment_is_saved_in_any_format(finished, tmp_path, name):
    alignment = package.Alignment(finished / "run")
    alignment.save(tmp_path / name)
    assert read_mappings(tmp_path / name)["target"].to_pylist() == alignment.mappings["target"].to_pylist()


@pytest.mark.parametrize("protocol", ["open", "closed"])
def test_evaluation_by_hand(finished, protocol):
    run = finished / "run"
    gold = dict(labelled(PAIR.gold))
    counted = set(gold.values())
    lists = {}
    for row in pq.read_table(run / "ranked.parquet").to_pylist():
        if protocol == "open" or row["target"] in counted:
            lists.setdefault(row["source"], []).append(row["target"])
    ranks = [lists[s].index(t) + 1 if t in lists.get(s, []) else float("inf") for s, t in gold.items()]
    ended = divea("evaluate", run, "--gold", finished / "gold.tsv", "--protocol", protocol, "--json")
    figures = json.loads(ended.out)
    assert list(figures) == ["coverage", "hits@1", "hits@5", "hits@10", "mrr"]
    for k in (1, 5, 10):
        assert figures[f"hits@{k}"] == pytest.approx(sum(rank <= k for rank in ranks) / len(gold))
    assert figures["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / len(gold))
    # Lists of ten hold all that is covered and more than a tenth of it.
    assert 0 < figures["hits@10"] <= figures["coverage"] <= 1
    assert package.Alignment(run).evaluate(finished / "gold.tsv", protocol).as_dict() == figures
    assert package.Alignment(run).evaluate(PAIR.gold, protocol).as_dict() == figures


def test_precision_is_judged_and_strict(finished):
    run = finished / "run"
    gold = set(labelled(PAIR.gold))
    known = {s for s, _ in gold}, {t for _, t in gold}
    given = [(row["source"], row["target"]) for row in pq.read_table(run / "mappings.parquet").to_pylist()]
    judged = [pair for pair in given if pair[0] in known[0] or pair[1] in known[1]]
    right = sum(pair in gold for pair in given)
    told = divea("evaluate", run, "--gold", finished / "gold.tsv").out
    assert f"{len(given)} pairs in the one-to-one table, {len(judged)} with an end in a gold link" in told
    assert f"precision {right / len(judged):.4f} of those, recall {right / len(gold):.4f}" in told
    ends = sum((pair[0] in known[0]) + (pair[1] in known[1]) for pair in given)
    assert f"precision {2 * right / ends:.4f} by ends" in told
    assert f"strict precision {right / len(given):.4f}" in told


def test_pairs_below_a_confidence_are_left_out(tmp_path):
    """Enough seeds to calibrate on: fewer pairs, and each as sure as asked for."""
    divea("synth", tmp_path / "pair", "--entities", 1500, "--seeds", 0.4, "--seed", 4)
    settings = {
        "model_options": {"labels": 64, "heads": 32, "draft_heads": 32, "rounds": 2},
        "held_back": 0.3,
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    command = ["align", tmp_path / "pair" / "task", "--config", tmp_path / "settings.json", "-n", 2]
    assert divea(*command, "--out", tmp_path / "half").code == 0
    assert divea(*command, "--out", tmp_path / "sure", "--min-confidence", 0.8).code == 0
    half, sure = (package.Alignment(tmp_path / name) for name in ("half", "sure"))
    assert min(half.mappings["confidence"].to_pylist()) >= 0.5
    assert min(sure.mappings["confidence"].to_pylist()) >= 0.8
    assert 0 < len(sure.mappings) < len(half.mappings) < sum(half.ranked["given"].to_pylist())
    assert sure.ranked.equals(half.ranked)
    gold = tmp_path / "pair" / "gold.tsv"
    assert half.evaluate(gold, min_confidence=0.8) == sure.evaluate(gold)
    assert sure.evaluate(gold).pairs.judged_precision > half.evaluate(gold).pairs.judged_precision
    ended = divea(*command, "--out", tmp_path / "precise", "--precision", 0.9)
    assert ended.code == 0 and "for a precision of 0.9" in ended.err
    precise = package.Alignment(tmp_path / "precise")
    # Pairs less sure than .9 are in it too: those above make up for them.
    assert min(precise.mappings["confidence"].to_pylist()) < 0.9
    assert precise.evaluate(gold).pairs.judged_precision == pytest.approx(0.9, abs=0.06)


def test_gold_in_the_folder_changes_no_byte(tmp_path):
    """Present, absent or shuffled: every file that holds a prediction is the same."""
    task = tmp_path / "task"
    write_task(PAIR.task, task, "jape")
    entities = PAIR.task.source.num_entities
    true = [(source, target + entities) for source, target in PAIR.gold.pairs.tolist()]
    targets = [target for _, target in true]
    random.Random(0).shuffle(targets)
    shuffled = [(source, target) for (source, _), target in zip(true, targets, strict=True)]
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    found = {}
    for name, pairs in {"absent": None, "present": true, "shuffled": shuffled}.items():
        if pairs is not None:
            (task / "ref_ent_ids").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        run = tmp_path / name
        ended = divea("align", task, "--config", tmp_path / "settings.json", "--out", run)
        assert ended.code == 0, ended.err
        results = {str(path.relative_to(run)): path.read_bytes() for path in run.glob("iteration-*/*")}
        assert len(results) == 4
        found[name] = tables(run) | results
    assert found["absent"] == found["present"] == found["shuffled"]
    # The ids of the folder are understood, wherever in it the gold lies.
    shutil.move(tmp_path / "task" / "ref_ent_ids", tmp_path / "elsewhere")
    ended = divea("evaluate", tmp_path / "absent", "--gold", tmp_path / "elsewhere", "--json")
    assert ended.code == 0, ended.err
    gold = read_gold(tmp_path / "elsewhere", PAIR.task, task)
    assert isinstance(gold, Links) and len(gold) == len(PAIR.gold)


def test_status_and_runs(finished, tmp_path):
    told = divea("status", finished / "run").out
    assert "finished" in told and "iteration 2 of 2, 2 of 2 subtasks solved" in told
    listed = divea("runs", finished).out
    assert listed.count("\n") == 1 and "finished" in listed
    assert "no runs" in divea("runs", tmp_path).out
    for arguments in (["status", tmp_path], ["status", tmp_path / "none"], ["runs", tmp_path / "none"]):
        ended = divea(*arguments)
        assert ended.code == 2 and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-n", 0], "subtasks must be at least 1"),
        (["-n", 10**6], "N is too large"),
        (["--model", "oracle"], "unknown model 'oracle'"),
        (["--matching", "luck"], "unknown matching 'luck'"),
        (["--division", "thirds"], "unknown division 'thirds'"),
        (["--preset", "worst"], "unknown preset 'worst'"),
        (["--device", "tpu"], "unknown device 'tpu'"),
        (["--executor", "magic"], "unknown executor 'magic'"),
        (["--memory", "much"], "not a memory size"),
        (["--memory", "1MB"], "allow more memory"),
        (["--min-confidence", 2], "min_confidence is a probability"),
        (["--precision", 1.5], "precision is a share"),
        (["--seed", -1], "seed must not be negative"),
        (["--gpu-share", 0], "gpu-share is a share of one GPU"),
        (["--iterations", 0], "iterations must be at least 1"),
        (["--config", "nowhere.json"], "cannot be read as JSON"),
        (["-s", 0], "at least 2 entities"),
        (["--workers", 0], "workers must be at least 1"),
    ],
)
def test_nonsense_is_one_line(finished, tmp_path, arguments, told):
    ended = divea("align", finished / "task", "--out", tmp_path / "run", *arguments)
    assert ended.code == 2, ended
    assert told in ended.err and ended.err.startswith("divea: ") and ended.err.count("\n") == 1, ended.err


def test_more_nonsense(finished, tmp_path):
    for arguments, told in (
        (["align", finished / "task"], "--out"),
        (["align", "--out", tmp_path / "none"], "name a task folder"),
        (["evaluate", tmp_path, "--gold", finished / "gold.tsv"], "no run"),
        (["evaluate", finished / "run", "--gold", tmp_path / "none"], "no such file"),
        (
            ["evaluate", finished / "run", "--gold", finished / "gold.tsv", "--protocol", "ajar"],
            "unknown protocol",
        ),
    ):
        ended = divea(*arguments)
        assert ended.code == 2 and told in ended.err and ended.err.count("\n") == 1, ended.err
    (tmp_path / "bad.json").write_text('{"modle": "rrea"}')
    ended = divea("align", finished / "task", "--out", tmp_path / "run", "--config", tmp_path / "bad.json")
    assert ended.code == 2 and "unknown setting 'modle'" in ended.err
    seedless = tmp_path / "seedless"
    write_task(type(PAIR.task)(PAIR.task.source, PAIR.task.target), seedless)
    ended = divea("align", seedless, "--out", tmp_path / "run")
    assert ended.code == 2 and "no seeds" in ended.err


def test_without_options_small_graphs_are_not_divided(finished, tmp_path):
    settings = {"model_options": SETTINGS["model_options"], "iterations": 1}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    command = ["align", finished / "task", "--config", tmp_path / "settings.json", "--out", tmp_path / "run"]
    ended = divea(*command)
    assert ended.code == 0 and "no division is needed" in ended.err
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["settings"]["subtasks"] == 1
    assert divea(*command).code == 0


def test_quiet_verbose_and_profile(finished, tmp_path):
    command = [*write_inputs(tmp_path), "--iterations", 1]
    quiet = divea(*command, "--out", tmp_path / "quiet", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    loud = divea(*command, "--out", tmp_path / "loud", "-v", "--profile")
    assert "subtask 0 solved in" in loud.err and "peak memory" in loud.err
    assert "run_loop" in (tmp_path / "loud" / "profile.txt").read_text()
