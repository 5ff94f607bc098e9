"""What a conversion keeps, what it leaves out and says so, and what a reader makes of awkward input."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea import AlignmentTask, InputError, KnowledgeGraph, read_graph, write_graph
from divea.formats import mapping_table, read_mappings, read_task, read_task_files, write_mappings, write_task
from divea.formats.mapping_files import SUFFIXES
from divea.runs.tables import MAPPINGS_SCHEMA, RANKED_SCHEMA
from tests.command_line import divea

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
OWL = "http://www.w3.org/2002/07/owl#"
HELD = {".rdf": {"confidence"}, ".nt": set()}
"""The numbers that a format holds, if not all of score, confidence and rank."""


def run_table(name, folder):
    """A table of a run, written as runs write it, and its scores, confidences and ranks."""
    score, confidence, rank = [0.6, 1.25, -0.1], [0.9, None, 0.25], [1, 2, 1]
    ends = {"source": ["http://y.example/Ü", "a", "b"], "target": ["x", "http://z.example/1", "=y"]}
    rest = {
        "margin": [0.1] * 3,
        "mutual": [True] * 3,
        "subtask": [0] * 3,
        "iteration": [5] * 3,
        "given": [True] * 3,
    }
    columns = ends | {"score": score, "confidence": confidence, "rank": rank} | rest
    schema = RANKED_SCHEMA if name == "ranked.parquet" else MAPPINGS_SCHEMA
    table = pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema)
    path = folder / name
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        write_mappings(table, path)
    return path, {"score": score, "confidence": confidence, "rank": rank}, [*schema.names]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", ["mappings.tsv", "mappings.parquet", "ranked.parquet"])
def test_the_tables_of_a_run_keep_their_numbers(tmp_path, name, suffix):
    """What the format cannot hold is said in a note, and nothing else is lost."""
    given, numbers, columns = run_table(name, tmp_path)
    output = tmp_path / f"out{suffix}"
    ended = divea("convert", given, output)
    if (name, suffix) == ("ranked.parquet", ".nt"):
        assert ended.code == 2 and "ranked lists cannot be written as owl:sameAs" in ended.err
        return
    assert (ended.code, ended.out) == (0, f"{output}: 3 mappings\n")
    again = read_mappings(output)
    held = HELD.get(suffix, {*numbers})
    if suffix == ".rdf":
        numbers["confidence"] = [0.9, 1.0, 0.25]
        assert "note: 1 mappings without a confidence have the measure 1\n" in ended.err
    for number, values in numbers.items():
        assert again[number].to_pylist() == (values if number in held else [None] * 3)
    lost = ", ".join(number for number in numbers if number not in held)
    assert (f"note: a {suffix} file has no {lost}: left out\n" in ended.err) == bool(lost)
    for column in set(columns) - {"source", "target", *numbers}:
        assert column in ended.err
    back = tmp_path / "back.tsv"
    assert divea("convert", output, back).code == 0
    assert read_mappings(back).equals(again)


def test_an_old_column_of_similarities_is_read_as_scores(tmp_path):
    path = tmp_path / "m.tsv"
    path.write_text("source\ttarget\tsimilarity\tnote\tnote\na\tb\t0.5\tx\ty\n")
    assert read_mappings(path).to_pylist() == mapping_table(["a"], ["b"], [0.5]).to_pylist()
    sssom = tmp_path / "m.sssom.tsv"
    sssom.write_text(
        "#mapping_tool: divea\nsubject_id\tpredicate_id\tobject_id\tother\n"
        "x:a\tskos:exactMatch\tx:b\tsimilarity=1.5\n"
    )
    assert read_mappings(sssom)["score"].to_pylist() == [1.5]


def test_other_values_of_a_foreign_sssom_file_are_left_alone(tmp_path):
    path = tmp_path / "m.sssom.tsv"
    path.write_text(
        "#mapping_tool: other\n#mapping_date: 2024-13-45\n#no: 99\n#curie_map: {no: 'http://no.example/'}\n"
        "subject_id\tsubject_label\tpredicate_id\tobject_id\tother\n"
        "no:%C3%9C\tÜ\tskos:exactMatch\tx:b\tscore=high|rank\n"
    )
    assert read_mappings(path).to_pylist() == mapping_table(["http://no.example/%C3%9C"], ["x:b"]).to_pylist()


FORMULAS = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "＝1", "Rome", "a=b", "'=x"]


@pytest.mark.parametrize("suffix", [".tsv", ".csv"])
def test_tables_for_spreadsheets_contain_no_formulas(tmp_path, suffix):
    table = mapping_table(FORMULAS, FORMULAS, [-1.0] * len(FORMULAS))
    write_mappings(table, tmp_path / f"plain{suffix}")
    assert read_mappings(tmp_path / f"plain{suffix}")["source"].to_pylist() == FORMULAS
    safe = [f"'{label}" for label in FORMULAS[:5]] + FORMULAS[5:]
    output = tmp_path / f"safe{suffix}"
    ended = divea("convert", tmp_path / f"plain{suffix}", output, "--for-spreadsheet")
    assert "note: this file is for people" in ended.err
    assert read_mappings(output).equals(mapping_table(safe, safe, [-1.0] * len(FORMULAS)))
    graph = KnowledgeGraph.from_triples(list(zip(FORMULAS, FORMULAS, FORMULAS, strict=True)))
    write_graph(graph, output, for_spreadsheet=True)
    assert read_graph(output) == KnowledgeGraph.from_triples(list(zip(safe, safe, safe, strict=True)))


@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9.tsv"), "a\0b.tsv", 7, None])
def test_what_is_no_path_is_refused(name):
    graph = KnowledgeGraph.from_triples([("x:a", "x:r", "x:b")])
    for action in (
        lambda: read_graph(name),
        lambda: read_mappings(name),
        lambda: read_task(name),
        lambda: read_task_files(name, name),
        lambda: write_graph(graph, name),
        lambda: write_mappings(mapping_table(["x:a"], ["x:b"]), name),
        lambda: write_task(AlignmentTask(graph, graph), name),
    ):
        with pytest.raises(InputError, match="not a path in UTF-8"):
            action()


TABLES = [
    # Files that are triples, however much they look like something else.
    ("one triple", "a\tr\tb\n"),
    ("other relations", "a\tr\tb\nc\ts\td\ne\tt\tf\n"),
    ("integers", "1\t2\t3\n3\t2\t1\n4\t2\t5\n"),
    ("numbers as tails", "Rome\tname\tRoma\nRome\tpopulation\t2800000\nRome\tyear\t753\n"),
    ("a name and numbers", "a\tr\tb\n1\tr\t2\n2\tr\t3\n"),
    ("the word id", "id\tpart of\tnumber\nnumber\tpart of\t1\nid\tlength\t2\n"),
    ("one triple per head", "".join(f"e{i}\tr{i % 4}\te{i + 1}\n" for i in range(30))),
    ("a header", "head\trelation\ttail\n1\tr\t2\n2\ts\t3\n"),
]


@pytest.mark.parametrize("text", [row[1] for row in TABLES], ids=[row[0] for row in TABLES])
def test_triples_without_a_header_are_read(tmp_path, text):
    path = tmp_path / "g.tsv"
    path.write_text(text)
    rows = text.splitlines()[int(text.startswith("head")) :]
    assert read_graph(path) == KnowledgeGraph.from_triples([tuple(row.split("\t")) for row in rows])


@pytest.mark.parametrize(
    "name, text",
    [
        ("g.nq", '<x:a> <x:r> <x:b> <x:g> .\n<x:a> <x:n> "1" <x:g> .\n<x:a> <x:r> <x:b> _:h .\n'),
        ("first_line_without_a_graph.nq", '<x:a> <x:r> <x:b> .\n<x:a> <x:n> "1" <x:g> .\n'),
        ("another_name", '<x:a> <x:r> <x:b> <x:g> .\n<x:a> <x:n> "1" <x:g> .\n'),
        ("g.trig", '@prefix x: <x:> .\nx:g { x:a x:r x:b . }\n{ x:a x:n "1" }\n'),
    ],
)
def test_graphs_of_quads_are_read_without_their_names(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    (tmp_path / "g.nt").write_text('<x:a> <x:r> <x:b> .\n<x:a> <x:n> "1" .\n')
    assert read_graph(tmp_path / name) == read_graph(tmp_path / "g.nt")


def test_the_entities_that_ontology_editors_declare_are_read(tmp_path):
    path = tmp_path / "g.owl"
    path.write_text(
        "<?xml version='1.0'?>\n<!DOCTYPE rdf:RDF [\n<!ENTITY x \"http://x.example/\" >\n]>\n"
        "<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:x='&x;'>\n"
        "<!-- a comment --><rdf:Description rdf:about='&x;a'><x:r rdf:resource='&x;b'/></rdf:Description>\n"
        "</rdf:RDF>"
    )
    graph = KnowledgeGraph.from_triples([("http://x.example/a", "http://x.example/r", "http://x.example/b")])
    assert read_graph(path) == graph


SCHEMA = f"""
@prefix x: <http://x.example/> . @prefix owl: <{OWL}> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
x:Film a owl:Class ; rdfs:subClassOf x:Work ; rdfs:label "film" .
x:director a owl:ObjectProperty ; rdfs:domain x:Film ; rdfs:range x:Person .
x:unused a rdfs:Class .
x:heat a x:Film ; x:director x:mann ; x:title "Heat" .
x:mann a x:Person .
x:alien a x:Film , owl:NamedIndividual .
x:house a x:HouseProperty ; x:near x:heat .
"""


def test_classes_and_properties_are_not_aligned_unless_asked(tmp_path):
    (tmp_path / "a.ttl").write_text(SCHEMA)
    (tmp_path / "b.nt").write_text("<x:a> <x:r> <x:b> .\n")
    notes = []
    task = read_task_files(tmp_path / "a.ttl", tmp_path / "b.nt", add_note=notes.append)
    names = sorted(label.rsplit("/")[-1] for label in task.source.entities.to_pylist())
    assert names == ["alien", "heat", "house", "mann"]
    wanted = tmp_path / "wanted.ttl"
    wanted.write_text(
        "@prefix x: <http://x.example/> . x:heat x:director x:mann ; x:title 'Heat' . x:house x:near x:heat ."
    )
    without_alien = task.source.subgraph(np.flatnonzero(task.source.degrees))
    assert np.array_equal(without_alien.triples, read_graph(wanted).triples)
    assert task.source.relations.equals(read_graph(wanted).relations)
    assert task.source.attributes.values.to_pylist() == ["Heat"]
    assert notes == [
        f"{tmp_path / 'a.ttl'}: 10 classes and properties and 11 triples about them are left out; "
        "keep_schema=True keeps them"
    ]
    kept = read_task_files(tmp_path / "a.ttl", tmp_path / "b.nt", keep_schema=True)
    assert kept.source == read_graph(tmp_path / "a.ttl")


def test_classes_are_left_out_on_the_command_line_with_a_note(tmp_path):
    (tmp_path / "a.ttl").write_text(SCHEMA)
    given = ["--source", tmp_path / "a.ttl", "--target", tmp_path / "a.ttl"]
    ended = divea("convert", *given, tmp_path / "task")
    assert "4 entities" in ended.out
    assert ended.err.count("note: ") == 2 and ended.err.count("--keep-schema keeps them") == 2
    ended = divea("info", *given, "--keep-schema", "-n", "1", "--json")
    assert '"entities": 14' in ended.out and ended.err == ""


@pytest.mark.parametrize("name", ["a.tsv", "a.parquet"])
def test_tables_have_no_schema(tmp_path, name):
    graph = KnowledgeGraph.from_triples([("x:a", TYPE, "x:C"), ("x:a", "x:r", "x:b")])
    write_graph(graph, tmp_path / name)
    assert read_task_files(tmp_path / name, tmp_path / name).source == graph


def test_seeds_may_be_in_angle_brackets(tmp_path):
    (tmp_path / "a.nt").write_text("<http://a.example/1> <x:r> <http://a.example/2> .\n")
    (tmp_path / "b.tsv").write_text("<1>\tr\t<2>\n")
    seeds = tmp_path / "seeds.tsv"
    seeds.write_text("<http://a.example/1>\t<1>\nhttp://a.example/2\t<2>\n")
    assert len(read_task_files(tmp_path / "a.nt", tmp_path / "b.tsv", seeds).seeds) == 2
    seeds.write_text("<http://a.example/3>\t<1>\n")
    with pytest.raises(InputError, match=r"<http://a\.example/3>"):
        read_task_files(tmp_path / "a.nt", tmp_path / "b.tsv", seeds)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_table_without_a_source_is_refused(tmp_path, suffix):
    with pytest.raises(InputError, match="expected a table with the columns source and target"):
        write_mappings(pa.table({"subject": ["a"], "target": ["b"]}), tmp_path / f"m{suffix}")


def test_tabs_are_refused_in_every_type_of_text(tmp_path):
    with pytest.raises(InputError, match="contains a tab"):
        write_mappings(pa.table({"source": ["a\tb"], "target": ["c"]}), tmp_path / "m.tsv")


def test_a_table_of_a_run_is_written_with_its_own_digits(tmp_path):
    table = pa.table({"source": ["a"], "target": ["b"], "score": pa.array([0.6], pa.float32()), "rank": [2]})
    path = tmp_path / "m.sssom.tsv"
    write_mappings(table, path)
    assert "\t0.6\trank=2\n" in path.read_text()
