"""`divea --help`, `info`, `convert` and `synth`, and the modules that commands import."""

import json
import subprocess
import sys

import pytest

from divea import read_graph, read_task
from divea.formats import read_mappings
from tests.command_line import divea, imported_by, python
from tests.runs.tiny import write_inputs

HEAVY = ("torch", "numpy", "scipy", "pyarrow", "pandas")
COMMANDS = (
    "align",
    "check",
    "convert",
    "divide",
    "evaluate",
    "evaluate-division",
    "explain",
    "export",
    "info",
    "plan",
    "reproduce",
    "report",
    "review",
    "runs",
    "settings",
    "status",
    "suggest",
    "synth",
)


@pytest.mark.parametrize("module", ["divea", "divea.cli.app"])
def test_an_import_loads_no_heavy_module(module):
    assert python(f"import {module}, sys; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["align", "--help"]])
def test_help_loads_no_heavy_module(arguments):
    assert imported_by(arguments, HEAVY) == (0, [])


@pytest.mark.parametrize("command", ["info", "convert", "status", "runs", "settings", "settings of a run"])
def test_a_command_that_solves_nothing_does_not_load_torch(inputs, tmp_path, command):
    """Each command runs to its end in a fresh process."""
    arguments = {
        "info": ["info", inputs / "task"],
        "convert": ["convert", inputs / "task", tmp_path / "jape", "--to", "jape"],
        "status": ["status", inputs / "run"],
        "runs": ["runs", inputs],
        "settings": ["settings", "--preset", "best"],
        "settings of a run": ["settings", inputs / "run"],
    }
    assert imported_by(arguments[command], ["torch"]) == (0, [])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with a task and a finished run."""
    folder = tmp_path_factory.mktemp("inputs")
    ended = divea(*write_inputs(folder), "--out", folder / "run")
    assert ended.code == 0, ended.err
    return folder


def test_public_names_exist():
    import divea

    assert all(hasattr(divea, name) for name in divea.__all__)
    assert set(divea.__all__) <= set(dir(divea))
    with pytest.raises(AttributeError):
        divea.nothing  # noqa: B018


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command_has_an_example(command):
    assert command in divea("--help").out
    printed = divea(command, "--help")
    assert printed.code == 0
    assert "Example" in printed.out and f"divea {command} " in printed.out


def test_every_command_is_tested_above():
    from divea.cli.app import app

    names = {item.name or item.callback.__name__.replace("_", "-") for item in app.registered_commands}
    assert names == set(COMMANDS)


def test_version():
    from divea import __version__

    assert divea("--version").out == f"divea {__version__}\n"


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("synth") / "pair"
    assert divea("synth", folder, "--entities", 400, "--random-seed", 5).code == 0
    return folder


def test_synth_writes_the_task_and_the_gold_links_separately(pair, tmp_path):
    task = read_task(pair / "task")
    gold = read_mappings(pair / "gold.tsv")
    assert len(task.seeds) + len(gold) == round(0.77 * 400)
    assert not set(gold["source"].to_pylist()) & set(task.source.label(task.seeds.source))
    divea("synth", tmp_path / "again", "--entities", 400, "--random-seed", 5)
    for path in sorted(pair.rglob("*")):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "again" / path.relative_to(pair)).read_bytes()


def test_synth_with_names_and_without_seeds(tmp_path):
    done = divea(
        "synth", tmp_path / "pair", "--entities", 100, "--names", "--name-noise", 0, "--seed-share", 0
    )
    assert done.code == 0 and "0 seeds" in done.out
    task, gold = read_task(tmp_path / "pair" / "task"), read_mappings(tmp_path / "pair" / "gold.tsv")
    assert len(task.seeds) == 0 and len(gold) == 77
    assert task.source.attributes is not None and task.target.attributes is not None
    refused = divea("synth", tmp_path / "other", "--name-noise", 0.1)
    assert refused.code == 2 and "name_noise has no effect without names" in refused.err


def test_info_as_table_and_json(pair):
    table = divea("info", pair / "task")
    assert table.code == 0
    assert "entities" in table.out and "400" in table.out
    summary = json.loads(divea("info", pair / "task", "--json").out)
    assert summary["source"]["entities"] == summary["target"]["entities"] == 400
    assert summary["seeds"] == 62
    assert len(summary["parts"]) == 5
    assert sum(part["seeds"] for part in summary["parts"]) == 62
    assert sum(part["entities"] for part in summary["parts"]) == 400
    assert "part 5 of 5" in table.out


def test_info_on_zh_en(shared_data):
    printed = divea("info", shared_data / "dbp15k" / "zh_en").out
    rows = {line.split("  ")[0]: line.split()[-2:] for line in printed.splitlines() if "  " in line}
    assert rows["entities"] == ["19388", "19572"]
    assert rows["triples"] == ["70414", "95142"]
    assert "no seeds" in printed


def test_info_counts_by_hand(tmp_path):
    a, b, seeds = tmp_path / "a.tsv", tmp_path / "b.tsv", tmp_path / "s.tsv"
    # A path 1-2-3-4, a separate pair 5-6, a self-loop and a repeated line.
    a.write_text("1\tr\t2\n2\tr\t3\n3\tr\t4\n5\tr\t6\n6\tr\t6\n1\tr\t2\n")
    b.write_text("1\tr\t2\n")
    seeds.write_text("1\t1\n")
    summary = json.loads(divea("info", "--source", a, "--target", b, "--seeds", seeds, "--json").out)
    source = summary["source"]
    assert {key: source[key] for key in source if key != "degree percentiles"} == {
        "entities": 6,
        "relations": 1,
        "triples": 5,
        "attributes": 0,
        "repeated triples": 1,
        "self-loops": 1,
        "isolated entities": 0,
        "components": 2,
        "largest component": 4,
        "anchors": 1,
        "one hop from an anchor": 1,
        "two hops from an anchor": 1,
        "components without an anchor": 1,
        "entities in those components": 2,
        "labels used as entity and relation": 0,
    }
    assert source["degree percentiles"]["0"] == 1
    assert source["degree percentiles"]["100"] == 2
    assert len(summary["warnings"]) == 2


def test_a_graph_is_converted_there_and_back(tmp_path):
    given = tmp_path / "g.tsv"
    given.write_text("Rome\tcapital of\tItaly\nOslo\tcapital of\tNorway\n")
    steps = ["g.nt.gz", "h.ttl.zst", "i.parquet", "j.csv.xz", "k.tsv.bz2"]
    for step in steps:
        ended = divea("convert", given, tmp_path / step)
        assert ended.code == 0 and "4 entities" in ended.out
        given = tmp_path / step
    assert read_graph(given) == read_graph(tmp_path / "g.tsv")


def test_mappings_are_converted_there_and_back(tmp_path):
    given = tmp_path / "m.tsv"
    given.write_text("source\ttarget\tconfidence\na\tA\t0.5\nb\tB\t1\n")
    for step in ("m.sssom.tsv", "m.rdf", "m.parquet", "m.csv"):
        ended = divea("convert", given, tmp_path / step)
        assert ended.code == 0 and "2 mappings" in ended.out, ended.err
        given = tmp_path / step
    assert read_mappings(given).equals(read_mappings(tmp_path / "m.tsv"))
    assert divea("convert", given, tmp_path / "m.nt").code == 0
    assert len(read_mappings(tmp_path / "m.nt")) == 2


@pytest.mark.parametrize("layout", ["jape", "openea", "parquet", "divea"])
def test_a_task_is_converted_there_and_back(pair, tmp_path, layout):
    assert divea("convert", pair / "task", tmp_path / "there", "--to", layout).code == 0
    assert divea("convert", tmp_path / "there", tmp_path / "back").code == 0
    first, last = read_task(pair / "task"), read_task(tmp_path / "back")
    assert (first.source, first.target, first.seeds) == (last.source, last.target, last.seeds)


def test_separate_files_are_converted_into_a_task(tmp_path):
    (tmp_path / "a.nt").write_text('<x:a> <x:r> <x:b> .\n<x:a> <x:name> "A" .\n')
    (tmp_path / "b.nt").write_text("<y:a> <y:r> <y:b> .\n")
    (tmp_path / "s.nt").write_text("<x:a> <http://www.w3.org/2002/07/owl#sameAs> <y:a> .\n")
    files = ["--source", tmp_path / "a.nt", "--target", tmp_path / "b.nt", "--seeds", tmp_path / "s.nt"]
    assert divea("convert", *files, tmp_path / "task").code == 0
    task = read_task(tmp_path / "task")
    assert len(task.seeds) == 1 and len(task.source.attributes) == 1
    ended = divea("convert", *files, tmp_path / "jape", "--to", "jape")
    assert ended.code == 0
    assert "1 attribute values of the source are left out" in ended.err


def test_a_closed_pipe_is_not_an_error(pair):
    command = f"{sys.executable} -m divea info {pair / 'task'} | head -1"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
