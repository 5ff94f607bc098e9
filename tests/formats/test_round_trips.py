"""A graph, a table of mappings or a task that is written and read again is the same as before."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from divea import AlignmentTask, InputError, KnowledgeGraph, read_graph, read_task, write_graph, write_task
from divea.formats import mapping_table, read_mappings, write_mappings
from divea.formats.delimited import write_numbers
from divea.formats.mapping_files import unread_columns
from tests.generators import any_label, graphs, plain_label, tasks

COMPRESSIONS = ["", ".gz", ".bz2", ".xz", ".zst"]
few = settings(max_examples=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@few
@given(graph=graphs(any_label, attributes=True), suffix=st.sampled_from([".nt", ".ttl"]))
def test_graphs_survive_rdf(folder, graph, suffix):
    path = folder / f"g{suffix}"
    write_graph(graph, path)
    assert read_graph(path) == graph


@few
@given(graph=graphs(plain_label), suffix=st.sampled_from([".tsv", ".csv", ".parquet"]))
def test_graphs_survive_tables(folder, graph, suffix):
    path = folder / f"g{suffix}"
    write_graph(graph, path)
    assert read_graph(path) == graph


@few
@given(graph=graphs(any_label))
def test_graphs_with_any_label_survive_parquet(folder, graph):
    write_graph(graph, folder / "any.parquet")
    assert read_graph(folder / "any.parquet") == graph


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("suffix", [".nt", ".ttl", ".tsv", ".csv"])
def test_compressed_graphs_survive(tmp_path, suffix, compression):
    graph = KnowledgeGraph.from_triples([(f"http://e.example/{i}", "r", f"{i % 7}") for i in range(5000)])
    path = tmp_path / f"g{suffix}{compression}"
    write_graph(graph, path)
    assert read_graph(path) == graph
    if compression:
        # The compression is recognised by the content, so a file may have any name.
        renamed = tmp_path / f"renamed{suffix}"
        path.rename(renamed)
        assert read_graph(renamed) == graph


@few
@given(task=tasks(label=plain_label, isolated=True))
def test_tasks_survive_jape_folders(tmp_path_factory, task):
    again = _written_and_read(tmp_path_factory, task, "jape")
    assert (again.source, again.target, again.seeds) == (task.source, task.target, task.seeds)


@few
@given(task=tasks(label=plain_label, attributes=True))
def test_tasks_survive_openea_folders(tmp_path_factory, task):
    again = _written_and_read(tmp_path_factory, task, "openea")
    assert (again.source, again.target, again.seeds) == (task.source, task.target, task.seeds)


@few
@given(task=tasks(label=any_label))
def test_tasks_survive_parquet_folders(tmp_path_factory, task):
    again = _written_and_read(tmp_path_factory, task, "parquet")
    assert (again.source, again.target, again.seeds) == (task.source, task.target, task.seeds)


def _written_and_read(tmp_path_factory, task, layout):
    folder = tmp_path_factory.mktemp(layout) / "t"
    assert write_task(task, folder, layout) == []
    return read_task(folder)


def test_writing_a_task_reports_what_the_layout_cannot_hold(tmp_path):
    path = tmp_path / "g.nt"
    path.write_text('<a:x> <a:r> <a:y> .\n<a:z> <a:name> "Z" .\n')
    graph = read_graph(path)
    left_out = write_task(AlignmentTask(graph, graph), tmp_path / "t", "parquet")
    assert left_out == [
        "1 attribute values of the source are left out",
        "1 source entities without a triple are left out",
        "1 attribute values of the target are left out",
        "1 target entities without a triple are left out",
    ]


scores = st.none() | st.floats(-2, 2)
rows = st.lists(
    st.tuples(plain_label, plain_label, scores, st.none() | st.floats(0, 1)), min_size=1, max_size=8
)


@few
@given(rows=rows, suffix=st.sampled_from([".tsv", ".csv", ".parquet", ".tsv.gz"]))
def test_mappings_survive_tables(folder, rows, suffix):
    table = mapping_table(*zip(*rows, strict=True))
    path = folder / f"m{suffix}"
    write_mappings(table, path)
    assert read_mappings(path).equals(table)


@few
@given(rows=rows)
def test_mappings_survive_sssom(folder, rows):
    table = mapping_table(*zip(*rows, strict=True))
    path = folder / "m.sssom.tsv"
    write_mappings(table, path)
    assert read_mappings(path).equals(table)


@few
@given(rows=st.lists(st.tuples(any_label, any_label), min_size=1, max_size=8))
def test_links_survive_same_as_statements(folder, rows):
    table = mapping_table(*zip(*rows, strict=True))
    write_mappings(table, folder / "m.nt")
    assert read_mappings(folder / "m.nt").equals(table)


@few
@given(rows=st.lists(st.tuples(any_label, any_label, st.none(), st.floats(0, 1)), min_size=1, max_size=8))
def test_mappings_survive_oaei_alignments(folder, rows):
    table = mapping_table(*zip(*rows, strict=True))
    write_mappings(table, folder / "m.rdf")
    again = read_mappings(folder / "m.rdf")
    assert sorted(map(str, again.to_pylist())) == sorted(map(str, table.to_pylist()))


def test_only_mappings_of_the_same_thing_are_read_from_sssom(tmp_path):
    path = tmp_path / "m.sssom.tsv"
    path.write_text(
        "#curie_map:\n#  x: http://x.example/\n"
        "subject_id\tpredicate_id\tpredicate_modifier\tobject_id\tmapping_justification\tconfidence\n"
        "x:1\tskos:exactMatch\t\tx:a\tsemapv:LexicalMatching\t0.5\n"
        "x:2\tskos:broadMatch\t\tx:b\tsemapv:LexicalMatching\t0.9\n"
        "x:3\tskos:exactMatch\tNot\tx:c\tsemapv:LexicalMatching\t0.9\n"
        "other:4\towl:sameAs\t\tx:d\tsemapv:LexicalMatching\t\n"
    )
    assert read_mappings(path).to_pylist() == [
        {
            "source": "http://x.example/1",
            "target": "http://x.example/a",
            "score": None,
            "confidence": 0.5,
            "rank": None,
        },
        {
            "source": "other:4",
            "target": "http://x.example/d",
            "score": None,
            "confidence": None,
            "rank": None,
        },
    ]


def test_oaei_alignments_of_the_campaigns_are_read(tmp_path):
    """Their namespace does not end in `#`, and they have relations other than `=`."""
    path = tmp_path / "reference.rdf"
    cell = (
        "<map><Cell><entity1 rdf:resource='http://a.example/{0}'/><entity2 rdf:resource='http://b.example/{0}'/>"
        "<measure rdf:datatype='xsd:float'>1.0</measure><relation>{1}</relation></Cell></map>"
    )
    path.write_text(
        "<?xml version='1.0' encoding='utf-8'?>\n"
        "<rdf:RDF xmlns='http://knowledgeweb.semanticweb.org/heterogeneity/alignment'\n"
        " xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'><Alignment>"
        + cell.format("x", "=")
        + cell.format("y", "&lt;")
        + "</Alignment></rdf:RDF>"
    )
    assert read_mappings(path).to_pylist() == [
        {
            "source": "http://a.example/x",
            "target": "http://b.example/x",
            "score": None,
            "confidence": 1.0,
            "rank": None,
        }
    ]


def test_a_label_that_a_table_cannot_hold_is_refused(tmp_path):
    graph = KnowledgeGraph.from_triples([("a\tb", "r", "c")])
    with pytest.raises(InputError, match="contains a tab"):
        write_graph(graph, tmp_path / "g.tsv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "write, thing, message",
    [
        (write_graph, KnowledgeGraph.from_triples([("a", "r", "b")]), "unknown graph format: use .nt"),
        (write_mappings, mapping_table(["a"], ["b"]), "unknown mapping format: use .sssom.tsv"),
    ],
)
def test_unknown_suffixes_are_refused(tmp_path, write, thing, message):
    with pytest.raises(InputError, match=message):
        write(thing, tmp_path / "x.docx")


def test_windows_line_ends_and_a_byte_order_mark_are_accepted(tmp_path):
    plain, windows = tmp_path / "a.tsv", tmp_path / "b.tsv"
    plain.write_text("a\tr\tb\nb\tr\tc\n")
    windows.write_bytes(b"\xef\xbb\xbfa\tr\tb\r\nb\tr\tc\r\n")
    assert read_graph(plain) == read_graph(windows)
    (tmp_path / "c.nt").write_bytes(b"\xef\xbb\xbf<x:a> <x:r> <x:b> .\r\n")
    assert read_graph(tmp_path / "c.nt").num_triples == 1


def test_the_full_grammar_of_ntriples_is_read(tmp_path):
    path = tmp_path / "g.nt"
    path.write_text(
        "# a comment\n\n"
        "<http://e.example/caf\\u00E9> <http://e.example/r> _:blank.1 . # another\n"
        '<http://e.example/a> <http://e.example/n> "tab\\t quote\\" \\U0001F600"@en-GB .\n'
        '<http://e.example/a> <http://e.example/n> "7"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        '<http://e.example/a> <http://e.example/n> "plain" .\n'
    )
    graph = read_graph(path)
    assert sorted(graph.entities.to_pylist()) == ["_:blank.1", "http://e.example/a", "http://e.example/café"]
    literals = sorted(
        zip(graph.attributes.values.to_pylist(), graph.attributes.kinds.to_pylist(), strict=True)
    )
    assert literals == [
        ("7", "http://www.w3.org/2001/XMLSchema#integer"),
        ("plain", ""),
        ('tab\t quote" 😀', "@en-gb"),
    ]


@given(
    columns=st.integers(1, 3),
    numbers=st.lists(st.integers(0, 9) | st.integers(0, 2**31 - 1), min_size=0, max_size=60),
    at_a_time=st.sampled_from([1, 7, 1 << 16]),
)
def test_numbers_are_written_as_python_writes_them(folder, columns, numbers, at_a_time):
    rows = np.array(numbers[: len(numbers) // columns * columns], dtype=np.int32).reshape(-1, columns)
    path = folder / "rows"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("divea.formats.delimited._NUMBER_ROWS", at_a_time)
        write_numbers(path, rows)
    assert path.read_text() == "".join("\t".join(map(str, row)) + "\n" for row in rows.tolist())


def test_columns_of_a_parquet_file_are_found_whatever_their_case(tmp_path):
    table = pa.table({"Source": ["a"], "TARGET": ["b"], "Confidence": [0.5], "Rank": [1], "note": ["x"]})
    pq.write_table(table, tmp_path / "mappings.parquet")
    found = read_mappings(tmp_path / "mappings.parquet")
    assert found.to_pylist() == [{"source": "a", "target": "b", "score": None, "confidence": 0.5, "rank": 1}]
    assert unread_columns(tmp_path / "mappings.parquet") == ["note"]
    pq.write_table(table.append_column("confidence", [[0.1]]), tmp_path / "twice.parquet")
    with pytest.raises(InputError, match="the column 'confidence' appears twice"):
        read_mappings(tmp_path / "twice.parquet")
