"""Names on the command line and in Python: from files, of a property, and what `divea info` shows of them."""

import json

import pytest

import divea as package
from divea import AlignmentTask, InputError, KnowledgeGraph, read_task
from divea.features.names import find_names
from divea.formats import read_mappings, write_task
from divea.graphs.names import GIVEN_NAME
from tests.command_line import divea

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
NAME = "http://target.example/property/name"
QUICK = {"iterations": 2, "features": "names", "model.label-propagation.labels": 64}
OPTIONS = ["--device", "cpu", *(word for path in QUICK for word in ("--set", f"{path}={QUICK[path]}"))]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pair without seeds: with names as literals, and without literals beside files of names."""
    folder = tmp_path_factory.mktemp("names")
    made = divea("synth", folder / "pair", "--entities", 150, "--names", "--seed-share", 0)
    assert made.code == 0, made.err
    task = read_task(folder / "pair" / "task")
    plain = []
    for graph, wanted, file in ((task.source, LABEL, "1.tsv"), (task.target, NAME, "2.csv")):
        table = find_names(graph, wanted)
        separator = "\t" if file == "1.tsv" else ","
        rows = zip(graph.label(table.entities), table.texts.to_pylist(), strict=True)
        lines = ["entity" + separator + "name", *(entity + separator + name for entity, name in rows)]
        (folder / file).write_text("\n".join(lines) + "\n")
        plain.append(KnowledgeGraph(graph.entities, graph.relations, graph.triples))
    write_task(AlignmentTask(*plain), folder / "plain")
    return folder


@pytest.fixture(scope="module")
def by_files(folder):
    """The run directory of an alignment with names from files."""
    ended = divea("align", folder / "plain", "--out", folder / "files", *OPTIONS, *names(folder))
    assert ended.code == 0, ended.err
    return folder / "files"


def names(folder):
    return ["--source-names", folder / "1.tsv", "--target-names", folder / "2.csv"]


def pairs(path):
    table = read_mappings(path)
    return list(zip(table["source"].to_pylist(), table["target"].to_pylist(), strict=True))


def test_names_from_files_and_of_properties_give_the_same_pairs(folder, by_files):
    properties = ["--source-names", LABEL, "--target-names", NAME]
    ended = divea("align", folder / "pair" / "task", "--out", folder / "of", *OPTIONS, *properties)
    assert ended.code == 0, ended.err
    found = pairs(by_files / "mappings.parquet")
    assert found == pairs(folder / "of" / "mappings.parquet")
    gold = set(pairs(folder / "pair" / "gold.tsv"))
    assert len(gold & set(found)) > 0.6 * len(gold)
    settings = json.loads(divea("settings", folder / "of", "--json").out)
    assert settings["features"]["names"] == {"source": LABEL, "target": NAME}
    assert settings["features"]["name"] == "names"


def test_python_takes_names_as_the_command_does(folder, by_files):
    files = {"source_names": folder / "1.tsv", "target_names": str(folder / "2.csv")}
    for task in (folder / "plain", read_task(folder / "plain"), read_task(folder / "plain", **files)):
        given = {} if isinstance(task, AlignmentTask) and task.source.attributes else files
        alignment = package.align(task, device="cpu", **QUICK, **given)
        assert alignment.mappings.equals(package.Alignment(by_files).mappings)


def test_python_refuses_what_the_command_refuses(folder):
    for arguments, message in (
        ({"source_names": "label"}, "names of the source: expected a file or a property"),
        ({"target_names": 3}, "target_names: expected a file, a table, a dict"),
        ({"source_names": folder / "none.tsv"}, "no such file"),
        ({"source_names": folder / "1.tsv", "features": "none"}, "these names have no effect"),
        ({"source_names": "urn:x", "features": "none"}, "features.names.source has no effect"),
        ({"source_names": folder / "2.csv"}, "names the entities of the other graph"),
    ):
        with pytest.raises(InputError, match=message):
            package.align(folder / "plain", **arguments)


def test_a_run_keeps_its_names(folder, by_files):
    assert divea("align", "--out", by_files).code == 0
    assert divea("align", folder / "plain", "--out", by_files, *OPTIONS, *names(folder)).code == 0
    ended = divea("align", "--out", by_files, *names(folder))
    assert ended.code == 2 and "a file of names has no effect: the run that is continued" in ended.err
    ended = divea("align", folder / "plain", "--out", by_files, *OPTIONS)
    assert ended.code == 2 and ended.err.count("\n") == 1, "the names are part of the task"


def test_info_shows_names_and_literals(folder):
    ended = divea("info", folder / "pair" / "task")
    assert ended.code == 0, ended.err
    assert f"target names: 143 entities (95.3%), 143 unique names, from {NAME}" in ended.out.splitlines()
    assert "warning: no seeds: the alignment starts from" in ended.out
    (row,) = (line for line in ended.out.splitlines() if line.startswith(f"{NAME} "))
    assert row.split() == [NAME, "short", "text", "143", "(95.3%)", "143", "name"]
    (row,) = (line for line in ended.out.splitlines() if "property/identifier" in line)
    assert row.split()[-1] == "identifier"


def test_info_shows_names_from_files_and_of_properties(folder):
    found = json.loads(divea("info", folder / "plain", *names(folder), "--json").out)["features"]
    assert found["source"]["names from"] == found["target"]["names from"] == GIVEN_NAME
    properties = ["--source-names", LABEL, "--target-names", NAME]
    of = json.loads(divea("info", folder / "pair" / "task", *properties, "--json").out)["features"]
    assert of["unique names in common"] == found["unique names in common"] > 50
    assert divea("info", folder / "plain", *names(folder)).out.count(f"{GIVEN_NAME} ") == 2


def test_info_of_a_pair_without_names(folder, tmp_path):
    for side in ("a", "b"):
        (tmp_path / f"{side}.tsv").write_text("".join(f"{n}\tr\t{n + 1}\n" for n in range(9)))
    ended = divea("info", "--source", tmp_path / "a.tsv", "--target", tmp_path / "b.tsv")
    assert ended.code == 0 and "source names: none" in ended.out and "target names: none" in ended.out
    assert "warning: no seeds, and no names or attribute values to compare: nothing can be" in ended.out


def test_info_escapes_what_would_control_the_terminal(tmp_path):
    (tmp_path / "attr_triples_1").write_text("a\tp[red]\x1b[2J\tx\n")
    for side in (1, 2):
        (tmp_path / f"rel_triples_{side}").write_text("a\tr\tb\n")
    ended = divea("info", tmp_path)
    assert ended.code == 0, ended.err
    assert "p[red]\\x1b[2J" in ended.out and "\x1b" not in ended.out


def test_a_task_with_names_is_converted(folder, tmp_path):
    ended = divea("convert", folder / "plain", tmp_path / "task", *names(folder))
    assert ended.code == 0, ended.err
    task = read_task(tmp_path / "task")
    assert task == read_task(folder / "plain", source_names=folder / "1.tsv", target_names=folder / "2.csv")
    ended = divea("convert", folder / "plain", tmp_path / "jape", *names(folder), "--to", "jape")
    assert ended.code == 0 and "attribute values" in ended.err, "JAPE cannot hold names"


def test_unknown_names_are_left_out_on_demand(folder, tmp_path):
    (tmp_path / "more.tsv").write_text((folder / "1.tsv").read_text() + "http://nowhere.example/1\tNowhere\n")
    info = ["info", folder / "plain", "--source-names", tmp_path / "more.tsv"]
    ended = divea(*info)
    assert ended.code == 2 and "1 of 151 names are of unknown entities" in ended.err
    ended = divea(*info, "--skip-unknown-names")
    assert ended.code == 0 and "source names: 150 entities (100.0%)" in ended.out


def test_a_property_that_no_entity_has_is_refused(folder, tmp_path):
    for command in (["info"], ["align", "--out", tmp_path / "run"]):
        ended = divea(*command, folder / "pair" / "task", "--source-names", "http://x.example/none")
        assert ended.code == 2 and "no entity has a literal of the property" in ended.err
        assert ended.err.splitlines()[-1].startswith("divea: ")
