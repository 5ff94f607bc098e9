"""Files of names: what is read, which entities get the names, and what becomes of other literals."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from divea import KnowledgeGraph, read_task
from divea.errors import InputError
from divea.features.names import find_names
from divea.formats import write_task
from divea.formats.name_files import add_names, read_names
from divea.graphs import AlignmentTask
from divea.graphs.builder import add_literals
from divea.graphs.labels import as_labels
from divea.graphs.names import GIVEN_NAME

IRIS = ["http://a.example/1", "http://a.example/2", "http://a.example/3"]
GRAPH = KnowledgeGraph.from_triples([(IRIS[0], "r", IRIS[1])], extra_entities=[IRIS[2]])
ROWS = [(IRIS[0], "Rome"), (IRIS[0], "Roma"), (IRIS[1], "Oslo")]


def write(path, rows, header=("entity", "name")):
    """Write rows as the kind of file that the path names."""
    if path.suffix == ".parquet":
        columns = zip(*rows, strict=True)
        pq.write_table(pa.table(dict(zip(header, map(list, columns), strict=True))), path)
    else:
        separator = "," if path.suffix == ".csv" else "\t"
        lines = [header, *rows] if header else rows
        path.write_text("".join(separator.join(line) + "\n" for line in lines))
    return path


def names_of(graph):
    """The names of a graph as pairs of entity and name, without those of IRIs."""
    table = find_names(graph)
    return sorted(zip(graph.label(table.entities), table.texts.to_pylist(), strict=True))


@pytest.mark.parametrize("name", ["n.tsv", "n.csv", "n.parquet"])
@pytest.mark.parametrize("header", [("entity", "name"), None])
def test_names_are_read_from_every_format(tmp_path, name, header):
    if name == "n.parquet" and header is None:
        return
    path = write(tmp_path / name, ROWS, header)
    table = read_names(path)
    assert list(zip(*table.to_pydict().values(), strict=True)) == ROWS
    assert names_of(add_names(GRAPH, path)) == sorted(ROWS)


def test_a_header_may_name_columns_that_are_not_read(tmp_path):
    rows = [("1", name, "", entity) for entity, name in ROWS]
    path = write(tmp_path / "n.tsv", rows, ("id", "Name", "id", " Entity "))
    assert read_names(path)["name"].to_pylist() == [name for _, name in ROWS]
    assert names_of(add_names(GRAPH, path)) == sorted(ROWS)


def test_names_are_preferred_to_literals_which_are_kept(tmp_path):
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    graph = add_literals(GRAPH, GRAPH.find(IRIS), label, as_labels(["a", "b", "c"]))
    named = add_names(graph, write(tmp_path / "n.tsv", ROWS))
    assert len(named.attributes) == 6
    assert find_names(named).origins == [GIVEN_NAME]
    assert names_of(named) == sorted(ROWS)
    assert names_of(named) == names_of(add_names(named, tmp_path / "n.tsv")), "names twice count once"


def test_iris_may_be_in_brackets(tmp_path):
    path = write(tmp_path / "n.tsv", [(f"<{entity}>", name) for entity, name in ROWS])
    assert names_of(add_names(GRAPH, path)) == sorted(ROWS)


def test_names_of_unknown_entities_are_left_out_on_demand(tmp_path):
    path = write(tmp_path / "n.tsv", [*ROWS, ("http://a.example/4", "Bern")])
    with pytest.raises(InputError, match=r"1 of 4 names are of unknown entities \(1: 'http://a.example/4'\)"):
        add_names(GRAPH, path)
    assert names_of(add_names(GRAPH, path, skip_unknown=True)) == sorted(ROWS)


def test_of_many_unknown_entities_five_are_shown(tmp_path):
    path = write(tmp_path / "n.tsv", [*ROWS, *((f"x{number}", "x") for number in range(9))])
    with pytest.raises(
        InputError,
        match=r"9 of 12 names .* \(9: 'x0', 'x1', 'x2', 'x3', 'x4', \.\.\.\); skip_unknown_names=True",
    ):
        add_names(GRAPH, path)


def test_names_may_have_any_characters_but_those_that_end_a_row(tmp_path):
    odd = "a\x01b\x1b[31m\x7f ‮é \U0001f600"
    path = write(tmp_path / "n.tsv", [(IRIS[0], odd)])
    assert (IRIS[0], odd) in names_of(add_names(GRAPH, path))
    (tmp_path / "n.csv").write_text(f'{IRIS[0]},"two\nlines, ""quoted"""\n')
    assert (IRIS[0], 'two\nlines, "quoted"') in names_of(add_names(GRAPH, tmp_path / "n.csv"))


@pytest.mark.parametrize("layout", ["divea", "openea", "jape", "parquet"])
def test_a_task_is_read_with_names_in_every_layout(tmp_path, layout):
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    write_task(AlignmentTask(graph, graph), tmp_path / "task", layout)
    source = write(tmp_path / "n.tsv", [("a", "first"), ("b", "second")])
    target = write(tmp_path / "m.csv", [("a", "first"), ("x", "unknown")])
    with pytest.raises(InputError, match=r"m\.csv: 1 of 2 names"):
        read_task(tmp_path / "task", source_names=source, target_names=target)
    task = read_task(tmp_path / "task", source_names=source, target_names=target, skip_unknown_names=True)
    assert [len(side.attributes) for side in (task.source, task.target)] == [2, 1]
    assert set(names_of(task.source)) >= {("a", "first"), ("b", "second")}
