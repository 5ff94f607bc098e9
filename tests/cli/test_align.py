"""`divea align`, `divea evaluate`, `divea status` and `divea runs`, compared with `divea.align`."""

import fcntl
import json
import random
import shutil

import pyarrow.parquet as pq
import pytest

import divea as package
from divea.evaluation import read_gold
from divea.formats import read_mappings, write_task
from divea.graphs import AlignmentTask, Links
from divea.graphs.planted import planted_pair
from tests.command_line import divea
from tests.runs.tiny import PAIR, SETTINGS, tables, write_inputs

SMALL = {"labels": 64, "heads": 32, "draft_heads": 32, "rounds": 2}
"""Options of label propagation that make an alignment quick."""


def labelled(links):
    """The links as pairs of labels."""
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
    assert ",".join(ranked.column_names) == "source,target,rank,score,confidence,subtask,given"
    common = ["source", "target", "rank", "score"]
    pairs, assigned = (
        {tuple(row.values()) for row in table.select(common).to_pylist()}
        for table in (mappings, ranked.filter(ranked["given"]))
    )
    assert pairs == assigned
    sources, targets = (set(mappings[name].to_pylist()) for name in ("source", "target"))
    assert len(sources) == len(targets) == len(mappings) > 0
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
    assert (figures["protocol"], figures["links"]) == (protocol, len(gold))
    for k in (1, 5, 10):
        assert figures[f"hits@{k}"] == pytest.approx(sum(rank <= k for rank in ranks) / len(gold))
    assert figures["mrr"] == pytest.approx(sum(1 / rank for rank in ranks) / len(gold))
    # Lists of ten hold all that is covered and more than a tenth of it.
    assert 0 < figures["hits@10"] <= figures["coverage"] <= 1
    assert package.Alignment(run).evaluate(finished / "gold.tsv", protocol).as_dict() == figures
    assert package.Alignment(run).evaluate(PAIR.gold, protocol).as_dict() == figures


def test_precision_and_recall_by_hand(finished):
    run = finished / "run"
    gold = set(labelled(PAIR.gold))
    sources, targets = {source for source, _ in gold}, {target for _, target in gold}
    pairs = [(row["source"], row["target"]) for row in pq.read_table(run / "mappings.parquet").to_pylist()]
    judged = [pair for pair in pairs if pair[0] in sources or pair[1] in targets]
    ends = sum((source in sources) + (target in targets) for source, target in pairs)
    correct = sum(pair in gold for pair in pairs)
    assert 0 < correct < len(judged) < len(pairs)
    printed = divea("evaluate", run, "--gold", finished / "gold.tsv").out
    assert printed.startswith(f"{len(gold)} gold links\n")
    assert f"{len(pairs)} pairs in the mappings, {len(judged)} of them with an end in a gold link" in printed
    figures = {line[:10].strip(): line[10:].split("  ")[0] for line in printed.splitlines()}
    assert figures["recall"] == f"{correct / len(gold):.4f}"
    assert figures["precision"] == f"{correct / len(judged):.4f}"
    assert figures["by ends"] == f"{2 * correct / ends:.4f}"
    assert figures["strict"] == f"{correct / len(pairs):.4f}"
    as_json = json.loads(divea("evaluate", run, "--gold", finished / "gold.tsv", "--json").out)
    assert (as_json["pairs"], as_json["judged"]) == (len(pairs), len(judged))
    assert as_json["recall"] == correct / len(gold) and as_json["precision"] == correct / len(judged)
    assert as_json["precision_by_ends"] == 2 * correct / ends
    assert as_json["strict_precision"] == correct / len(pairs)


def test_pairs_below_the_confidence_threshold_are_left_out(tmp_path):
    """There are enough seeds to calibrate on. A higher threshold leaves fewer and surer pairs."""
    divea("synth", tmp_path / "pair", "--entities", 1500, "--seed-share", 0.4, "--random-seed", 4)
    settings = {"model": {"label-propagation": SMALL}, "confidence": {"held_back": 0.3}}
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
    assert ended.code == 0 and "for an expected precision of 0.9" in ended.err
    precise = package.Alignment(tmp_path / "precise")
    # Surer pairs make up for pairs with a confidence below .9.
    assert min(precise.mappings["confidence"].to_pylist()) < 0.9
    assert precise.evaluate(gold).pairs.judged_precision == pytest.approx(0.9, abs=0.06)


def test_gold_in_the_folder_changes_no_byte(tmp_path):
    """Gold is absent, present or shuffled: every file that holds a prediction has the same bytes."""
    task = tmp_path / "task"
    write_task(PAIR.task, task, "jape")
    entities = PAIR.task.source.num_entities
    true = [(source, target + entities) for source, target in PAIR.gold.pairs.tolist()]
    targets = [target for _, target in true]
    random.Random(0).shuffle(targets)
    shuffled = [(source, target) for (source, _), target in zip(true, targets, strict=True)]
    assert shuffled != true
    (tmp_path / "settings.json").write_text(json.dumps(SETTINGS))
    found = {}
    for name, pairs in {"absent": None, "present": true, "shuffled": shuffled}.items():
        if pairs is not None:
            (task / "ref_ent_ids").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
        run = tmp_path / name
        ended = divea("align", task, "--config", tmp_path / "settings.json", "--out", run)
        assert ended.code == 0, ended.err
        files = [path for folder in run.glob("iteration-*") for path in folder.rglob("*") if path.is_file()]
        results = {str(path.relative_to(run)): path.read_bytes() for path in files}
        assert sum("subtask-" in name for name in results) == 4
        assert {"iteration-0/learned.npz", "iteration-0/division/division.json"} < results.keys()
        found[name] = tables(run) | results
    assert found["absent"] == found["present"] == found["shuffled"]
    # A gold file elsewhere may use the ids of the task folder.
    shutil.move(tmp_path / "task" / "ref_ent_ids", tmp_path / "elsewhere")
    ended = divea("evaluate", tmp_path / "absent", "--gold", tmp_path / "elsewhere", "--json")
    assert ended.code == 0, ended.err
    gold = read_gold(tmp_path / "elsewhere", PAIR.task, task)
    assert isinstance(gold, Links) and len(gold) == len(PAIR.gold)


def test_every_command_that_prints_figures_prints_them_as_json(finished, tmp_path):
    assert divea("divide", finished / "task", "-n", 2, "--out", tmp_path / "parts").code == 0
    task, gold = finished / "task", finished / "gold.tsv"
    found = {
        command: json.loads(divea(command, *words, "--json").out)
        for command, words in {
            "evaluate": [finished / "run", "--gold", gold],
            "evaluate-division": [tmp_path / "parts", "--task", task, "--gold", gold],
            "status": [finished / "run"],
            "runs": [finished],
            "plan": [task, "-n", 2, "--device", "cpu"],
            "info": [task],
        }.items()
    }
    assert {"links", "coverage", "recall", "precision", "mrr"} <= set(found["evaluate"])
    division = found["evaluate-division"]
    assert (
        division["links"] == found["evaluate"]["links"] == sum(part["gold"] for part in division["subtasks"])
    )
    assert division["coverage"] == division["covered"] / division["links"] <= division["together"]
    status = found["status"]
    assert 0 < status.pop("bytes_of_iterations") < status.pop("bytes")
    assert found["runs"] == [status | {"idle_seconds": found["runs"][0]["idle_seconds"]}]
    assert (status["state"], status["iteration"], status["subtasks"]) == ("finished", 2, 2)
    assert (status["model"], status["seconds_left"]) == ("label-propagation", None)
    plan = found["plan"]
    assert (plan["subtasks"], plan["size"], plan["device"]) == (2, 150, "cpu")
    assert plan["models"][0]["model"] == "label-propagation" and plan["models"][0]["memory"] > 1 << 20


def test_the_result_says_that_seeds_are_not_repeated(finished, tmp_path):
    ended = divea(*write_inputs(tmp_path), "--out", tmp_path / "run")
    count = pq.read_metadata(tmp_path / "run" / "mappings.parquet").num_rows
    assert f"mappings.tsv: {count} pairs, without the seeds; " in ended.out


def test_a_task_whose_entities_are_all_seeds_is_refused(tmp_path):
    pair = planted_pair()
    task = AlignmentTask(pair.task.source, pair.task.target, pair.task.seeds.union(pair.gold))
    assert not len(task.unmatched_source)
    write_task(task, tmp_path / "task")
    for options in ([], ["-n", 2], ["-s", 20]):
        for command in ("align", "divide"):
            ended = divea(command, tmp_path / "task", "--out", tmp_path / "out", *options)
            assert (ended.code, ended.out) == (2, "")
            assert ended.err == "divea: every source entity is a seed, so nothing is left to align\n"


def test_a_running_run_has_an_estimate_of_its_time(tmp_path):
    """A log of a run in its second iteration, and the lock of a process that works on it."""
    ended = divea(*write_inputs(tmp_path), "--out", tmp_path / "run")
    assert ended.code == 0, ended.err
    log = tmp_path / "run" / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    assert json.loads(lines[0])["costs"] == pytest.approx([json.loads(lines[0])["costs"][0]] * 2)
    solved = [number for number, line in enumerate(lines) if '"event": "solved"' in line]
    log.write_text("".join(lines[: solved[2] + 1]))
    with (tmp_path / "run" / "lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status = json.loads(divea("status", tmp_path / "run", "--json").out)
        printed = divea("status", tmp_path / "run").out
    assert status["state"] == "running" and 0 <= status["seconds_left"] < 60
    assert "about 0:" in printed and " left\n" in printed


def test_status_and_runs(finished, tmp_path):
    printed = divea("status", finished / "run").out
    assert "finished" in printed and "iteration 2 of 2, 2 of 2 subtasks solved" in printed
    listed = divea("runs", finished).out
    assert listed.count("\n") == 1 and "finished" in listed
    assert "no runs" in divea("runs", tmp_path).out
    for arguments in (["status", tmp_path], ["status", tmp_path / "none"], ["runs", tmp_path / "none"]):
        ended = divea(*arguments)
        assert ended.code == 2 and ended.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-n", 0], "subtasks: expected an integer from 1 to 10000000, or null; found 0"),
        (["-n", 10**6], "subtasks: 1000000 is more than the 127 unmatched source entities"),
        (["-s", 0], "size: expected an integer from 2"),
        (["--iterations", 0], "iterations: expected an integer from 1 to 1000; found 0"),
        (["--random-seed", -1], "random_seed: expected an integer, at least 0"),
        (["--model", "oracle"], "unknown model 'oracle'; choose from label-propagation, rrea"),
        (["--division", "thirds"], "unknown division 'thirds'; choose from joint, divea"),
        (["--matching", "luck"], "matching.method: expected one of 'sinkhorn', 'csls', 'cosine'"),
        (
            ["--min-confidence", 2],
            "confidence.min_confidence: expected a number from 0 to 1, or null; found 2.0",
        ),
        (["--precision", 1.5], "confidence.precision: expected a number, above 0, below 1"),
        (["--preset", "worst"], "unknown preset 'worst'; choose from fast, best"),
        (["--config", "nowhere.json"], "nowhere.json: cannot be read: No such file"),
        (["--config", "nowhere.ini"], "nowhere.ini: cannot tell the format: use .json, .yaml or .toml"),
        (["--set", "model.rrea.steps"], "expected PATH=VALUE, as in model.rrea.steps=60"),
        (["--set", "modle=rrea"], "modle: unknown setting; did you mean 'model'?"),
        (["--set", "labels=3"], "did you mean 'model.label-propagation.labels'?"),
        (
            ["--set", "model.rrea.steps=5"],
            "model.rrea.steps has no effect: model.name is 'label-propagation'",
        ),
        (["--precision", 0.9, "--min-confidence", 0.5], "confidence.min_confidence has no effect"),
        (["--device", "tpu"], "device: expected one of 'auto', 'cpu', 'cuda'; found 'tpu'"),
        (["--memory", "much"], "not a memory size: 'much'"),
        (["--memory", "1MB"], "memory: expected at least 1 MiB, written as 4GiB or in bytes; found '1MB'"),
        (["--gpu-memory", "much"], "not a memory size: 'much'"),
        (["--executor", "magic"], "unknown executor 'magic'; choose from auto, inline, local, ray"),
        (["--workers", 0], "workers: expected an integer from 1"),
        (["--workers", 2, "--executor", "inline"], "workers has no effect: the executor 'inline'"),
        (["--gpu-share", 0], "gpu_share: expected a number, above 0, at most 1"),
        (["--gpu-share", 0.5], "gpu_share has no effect: the executor is 'auto'"),
        (["--timeout", -1], "timeout: expected a number, above 0"),
        (["--timeout", "nan"], "timeout: expected a number, above 0"),
        (["--iterations", 10**9], "iterations: expected an integer from 1 to 1000; found 1000000000"),
        (["-s", "9" * 30], "size: expected an integer from 2 to 1099511627776"),
        (["--random-seed", "9" * 30], "random_seed: expected an integer, at least 0"),
        (["--memory", "9" * 30], "not a memory size"),
        (["--memory", "9" * 15 + "TiB"], "memory: expected at least 1 MiB and at most 1 PiB"),
        (["--min-confidence", "nan"], "confidence.min_confidence: expected a number from 0 to 1"),
        (["--precision", "nan"], "confidence.precision: expected a number, above 0, below 1"),
        (["--precision", 0], "confidence.precision: expected a number, above 0, below 1"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(finished, tmp_path, arguments, message):
    ended = divea("align", finished / "task", "--out", tmp_path / "run", *arguments)
    assert ended.code == 2, ended
    assert message in ended.err and ended.err.startswith("divea: ") and ended.err.count("\n") == 1, ended.err
    assert not (tmp_path / "run").exists()


def test_wrong_arguments_are_refused_in_one_line(finished, tmp_path):
    for arguments, message in (
        (["align", finished / "task"], "--out"),
        (["align", "--out", tmp_path / "none"], "name either a task folder"),
        (["align", finished / "task", "--source", "a.nt", "--out", tmp_path / "none"], "name either"),
        (["align", "--source", "a.nt", "--out", tmp_path / "none"], "give both --source and --target"),
        (["evaluate", tmp_path, "--gold", finished / "gold.tsv"], "no run"),
        (["evaluate", finished / "run", "--gold", tmp_path / "none"], "no such file"),
        (
            ["evaluate", finished / "run", "--gold", finished / "gold.tsv", "--protocol", "ajar"],
            "unknown protocol",
        ),
        (
            ["evaluate", finished / "run", "--gold", finished / "gold.tsv", "--min-confidence", "nan"],
            "min_confidence: expected a number from 0 to 1; found nan",
        ),
        (["synth", tmp_path / "none", "--random-seed", -1], "random_seed must be between 0 and 2147483647"),
        (["synth", tmp_path / "none", "--entities", "9" * 30], "entities must be at most 100000000"),
        (
            ["reproduce", "cps", "--out", tmp_path / "none", "--splits", "0-99999999"],
            "names no numbers below",
        ),
        (["reproduce", "cps", "--out", tmp_path / "none", "--splits", "0-9999"], "more than 1000 numbers"),
        (["reproduce", "cps", "--out", tmp_path / "none", "--validation", "nan"], "0.9"),
    ):
        ended = divea(*arguments)
        assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1, ended.err


def test_an_unknown_setting_of_a_file_is_named(finished, tmp_path):
    (tmp_path / "bad.json").write_text('{"modle": "rrea"}')
    ended = divea("align", finished / "task", "--out", tmp_path / "run", "--config", tmp_path / "bad.json")
    assert ended.code == 2 and "modle: unknown setting; did you mean 'model'?" in ended.err


def test_a_task_without_seeds_and_features_is_refused(tmp_path):
    write_task(type(PAIR.task)(PAIR.task.source, PAIR.task.target), tmp_path / "seedless")
    ended = divea("align", tmp_path / "seedless", "--out", tmp_path / "run", "--features", "none")
    assert ended.code == 2 and "no seeds" in ended.err and ended.err.count("\n") == 1
    # Python users have no options.
    with pytest.raises(package.InputError, match=r"^the task has no seeds \(known matches\)[^-]*$"):
        package.align(tmp_path / "seedless", features="none")


@pytest.mark.parametrize("suffix", ["json", "yaml", "toml"])
def test_settings_are_read_from_files_of_three_formats(finished, tmp_path, suffix):
    texts = {
        "json": json.dumps(SETTINGS),
        "yaml": "subtasks: 2\niterations: 2\ndivision: {name: divea, delta1: 0.5, delta2: 0.0}\n"
        "output:\n  top: 10\n"
        "model:\n  label-propagation: {labels: 32, heads: 16, draft_heads: 16, rounds: 2}\n",
        "toml": "subtasks = 2\niterations = 2\noutput.top = 10\n"
        "[division]\nname = 'divea'\ndelta1 = 0.5\ndelta2 = 0.0\n"
        "[model.label-propagation]\nlabels = 32\nheads = 16\ndraft_heads = 16\nrounds = 2\n",
    }
    config = tmp_path / f"settings.{suffix}"
    config.write_text(texts[suffix])
    # The run refuses other settings, so the file gives the same ones.
    ended = divea("align", finished / "task", "--config", config, "--out", finished / "run")
    assert ended.code == 0 and "this run is finished" in ended.err, ended.err


def test_options_override_assignments_which_override_the_file_which_overrides_the_preset(tmp_path):
    (tmp_path / "settings.json").write_text('{"iterations": 6, "subtasks": 4, "random_seed": 4}')
    write_task(PAIR.task, tmp_path / "task")
    command = ["align", tmp_path / "task", "--preset", "fast", "--config", tmp_path / "settings.json"]
    command += ["--set", "iterations=1", "--set", "subtasks=3", "-n", 2, "--out", tmp_path / "run"]
    small = [f"--set=model.label-propagation.{name}={value}" for name, value in SMALL.items()]
    ended = divea(*command, *small)
    assert ended.code == 0, ended.err
    settings = package.Alignment(tmp_path / "run").settings
    assert (settings.random_seed, settings.iterations, settings.subtasks) == (4, 1, 2)


def test_small_graphs_are_not_divided_without_options(finished, tmp_path):
    settings = {"model": {"label-propagation": SMALL}, "iterations": 1}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    command = ["align", finished / "task", "--config", tmp_path / "settings.json", "--out", tmp_path / "run"]
    ended = divea(*command)
    assert ended.code == 0 and "no division: the whole graph fits into" in ended.err
    assert json.loads((tmp_path / "run" / "manifest.json").read_text())["settings"]["subtasks"] == 1
    assert divea(*command).code == 0


def test_quiet_verbose_and_profile(tmp_path):
    command = [*write_inputs(tmp_path), "--iterations", 1]
    quiet = divea(*command, "--out", tmp_path / "quiet", "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    verbose = divea(*command, "--out", tmp_path / "verbose", "-v", "--profile")
    assert "subtask 0 solved in" in verbose.err and "peak memory" in verbose.err
    assert "run_loop" in (tmp_path / "verbose" / "profile.txt").read_text()
