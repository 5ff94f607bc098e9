"""Tasks from objects: the same content gives the same task, whatever holds it."""

import datetime
from decimal import Decimal

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import rdflib
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import divea
from divea import InputError, KnowledgeGraph, Links, make_task
from divea.formats import read_task_files, write_graph
from divea.graphs.names import GIVEN_NAME
from divea.runs.checksums import task_checksums
from tests.command_line import python

TRIPLES = [("Rome", "capital of", "Italy"), ("Milan", "city in", "Italy"), ("Oslo", "capital of", "Norway")]
GRAPH = KnowledgeGraph.from_triples(TRIPLES)
FRAME = pd.DataFrame(TRIPLES, columns=["head", "relation", "tail"])
XSD = "http://www.w3.org/2001/XMLSchema#"

LABELS = st.text(
    st.characters(exclude_characters="\t\r\n\0\ufeff", exclude_categories=["Cs"]), min_size=1, max_size=6
)
ROWS = st.lists(st.tuples(LABELS, LABELS, LABELS), min_size=1, max_size=12)


def literals(graph):
    """Every literal of a graph: its entity, property, value and kind."""
    found = graph.attributes
    if found is None:
        return set()
    rows = zip(graph.label(found.entities), found.predicates, found.values, found.kinds, strict=True)
    properties = found.predicate_labels.to_pylist()
    return {(entity, properties[at], value.as_py(), kind.as_py()) for entity, at, value, kind in rows}


# The same triples


@given(ROWS, ROWS, st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_same_triples_give_the_same_task(tmp_path, left, right, data):
    ends = [sorted({end for head, _, tail in rows for end in (head, tail)}) for rows in (left, right)]
    pairs = list(zip(*(data.draw(st.permutations(labels)) for labels in ends), strict=False))[:3]
    names = ["head", "relation", "tail"]
    for name, rows in (("left", left), ("right", right)):
        lines = ["\t".join(names), *("\t".join(row) for row in rows)]
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", newline="\n")
    (tmp_path / "seeds.tsv").write_text(
        "source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in pairs), newline="\n"
    )

    def frames(rows):
        return pd.DataFrame(rows, columns=names)

    def seeds(rows):
        return pd.DataFrame(rows, columns=["source", "target"])

    files = make_task(tmp_path / "left.tsv", str(tmp_path / "right.tsv"), tmp_path / "seeds.tsv")
    tasks = [
        make_task(left, right, pairs),
        make_task(iter(left), {*right}, dict(pairs)),
        make_task(frames(left), frames(right), seeds(pairs)),
        make_task(frames(left).astype("category"), frames(right), pd.Series(dict(pairs), dtype=str)),
        make_task(pl.DataFrame(frames(left)), pl.DataFrame(frames(right)), pl.DataFrame(seeds(pairs))),
        make_task(pa.table(frames(left)), pa.table(frames(right)), pa.table(seeds(pairs))),
        make_task(files.source, files.target, files.seeds),
    ]
    for task in tasks:
        assert task_checksums(task) == task_checksums(files)
    for task in tasks[2:]:
        assert task.source.repeated_triples == files.source.repeated_triples


@pytest.mark.parametrize(
    "graph",
    [
        FRAME.rename(columns=str.upper),
        FRAME[["tail", "head", "relation"]],
        FRAME.assign(source="wikipedia", weight=0.5),
        FRAME.set_index(pd.Index([7, 8, 9], name="tail")),
        FRAME.rename(columns=dict(zip(FRAME, "abc", strict=True))),
        FRAME.rename(columns={"head": "subject", "relation": "predicate", "tail": "object"}),
        pd.DataFrame(TRIPLES),
        pd.concat([FRAME, FRAME]),
        pl.DataFrame(FRAME).with_columns(pl.all().cast(pl.Categorical)),
        pa.table(FRAME).to_batches()[0],
        pa.Table.from_batches([batch for _ in range(3) for batch in pa.table(FRAME).to_batches()]),
        np.array(TRIPLES),
        [list(triple) for triple in TRIPLES],
        (triple for triple in TRIPLES),
    ],
)
def test_columns_by_name_or_by_position(graph):
    assert make_task(graph, GRAPH).source == GRAPH


def test_integers_are_labels():
    numbers = [(1, 10, 2), (2, 11, 3)]
    expected = KnowledgeGraph.from_triples([tuple(map(str, triple)) for triple in numbers])
    for graph in (numbers, np.array(numbers), pd.DataFrame(numbers), pl.DataFrame(numbers, orient="row")):
        assert make_task(graph, GRAPH).source == expected
    assert len(make_task(numbers, numbers, {1: 2, 3: 3}).seeds) == 2
    assert len(make_task(numbers, numbers, pd.DataFrame([(1, 2)])).seeds) == 1


# Graphs of rdflib

IRIS = [rdflib.URIRef(f"http://x.example/{name}") for name in ("a", "b/c", "d%20é", "urn")]
SCHEMA = [rdflib.RDF.type, rdflib.RDFS.label, rdflib.RDFS.subClassOf, rdflib.OWL.Class, rdflib.RDFS.Class]
URN = rdflib.URIRef("urn:divea:New%20York")
SUBJECTS = st.sampled_from([*IRIS, URN, *SCHEMA[3:], rdflib.BNode("b0"), rdflib.BNode("n1f")])
OBJECTS = (
    SUBJECTS
    | st.builds(rdflib.Literal, st.text(max_size=5).filter(lambda text: "\0" not in text))
    | st.sampled_from(
        [
            rdflib.Literal("Rom", lang="de"),
            rdflib.Literal("colour", lang="en-GB"),
            rdflib.Literal(5),
            rdflib.Literal(1.5),
            rdflib.Literal(True),
            rdflib.Literal(datetime.date(1999, 12, 31)),
            rdflib.Literal("05", datatype=rdflib.XSD.integer, normalize=False),
            rdflib.Literal("plain", datatype=rdflib.XSD.string),
            rdflib.Literal("odd", datatype=URN),
            rdflib.Literal('quote " and \\ and \n', lang="fr"),
        ]
    )
)
STATEMENTS = st.lists(
    st.tuples(SUBJECTS, st.sampled_from([*IRIS, URN, *SCHEMA[:3]]), OBJECTS), min_size=1, max_size=15
)


@given(STATEMENTS, st.booleans())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_graph_of_rdflib_is_the_file_of_it(tmp_path, statements, keep_schema):
    graph = rdflib.Graph()
    for statement in statements:
        graph.add(statement)
    graph.serialize(tmp_path / "graph.nt", format="nt", encoding="utf-8")
    write_graph(GRAPH, tmp_path / "other.tsv")
    try:
        expected = read_task_files(tmp_path / "graph.nt", tmp_path / "other.tsv", keep_schema=keep_schema)
    except InputError as error:
        with pytest.raises(InputError) as refusal:
            make_task(graph, GRAPH, keep_schema=keep_schema)
        assert refusal.value.message == error.message
        return
    found = make_task(graph, GRAPH, keep_schema=keep_schema)
    assert found.source == expected.source and task_checksums(found) == task_checksums(expected)


def test_the_schema_of_an_rdflib_graph_is_left_out():
    graph = rdflib.Graph().parse(
        data="@prefix x: <http://x.example/> . @prefix owl: <http://www.w3.org/2002/07/owl#> . "
        "x:Rome x:in x:Italy ; a x:City . x:City a owl:Class ."
    )
    assert make_task(graph, GRAPH).source.num_entities == 2
    assert make_task(graph, GRAPH, keep_schema=True).source.num_entities == 4
    seeds = {rdflib.URIRef("http://x.example/Rome"): "Rome", "<http://x.example/Italy>": "Italy"}
    assert len(make_task(graph, GRAPH, seeds).seeds) == 2


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", [rdflib.Dataset, rdflib.ConjunctiveGraph])
def test_a_dataset_of_rdflib_is_all_of_its_graphs(kind):
    data = kind()
    for at, statement in enumerate([(IRIS[0], IRIS[1], IRIS[2]), (IRIS[2], IRIS[1], IRIS[0])]):
        data.get_context(rdflib.URIRef(f"http://graphs.example/{at}")).add(statement)
    assert make_task(data, GRAPH).source.num_triples == 2


def test_blank_nodes_as_labels():
    node = rdflib.BNode("b7")
    graph = rdflib.Graph()
    graph.add((node, IRIS[0], IRIS[1]))
    task = make_task(graph, graph, {node: node}, source_names={node: "seven"})
    assert task.source.label(task.seeds.source) == ["_:b7"]
    assert literals(task.source) == {("_:b7", GIVEN_NAME, "seven", "")}


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ((IRIS[0], IRIS[1], rdflib.URIRef("not an iri")), "source: not valid RDF: .*"),
        ((rdflib.Literal("x"), IRIS[1], IRIS[2]), "source: not valid RDF: .*"),
        ((IRIS[0], IRIS[1], rdflib.Variable("x")), "source: not valid RDF: Variable is no term of RDF"),
    ],
)
def test_what_is_no_rdf_is_refused(statement, message):
    graph = rdflib.Graph()
    graph.add(statement)
    with pytest.raises(InputError, match=message):
        make_task(graph, GRAPH)


# Graphs of networkx


@pytest.mark.parametrize("name", ["relation", "predicate", "label", "type"])
@pytest.mark.parametrize("kind", [nx.DiGraph, nx.MultiDiGraph])
def test_an_edge_attribute_names_the_relation(name, kind):
    graph = kind()
    for head, relation, tail in TRIPLES:
        graph.add_edge(head, tail, **{name: relation}, weight=0.5)
    assert make_task(graph, GRAPH).source == GRAPH


def test_the_key_of_an_edge_names_the_relation():
    graph = nx.MultiDiGraph((head, tail, relation) for head, relation, tail in TRIPLES)
    graph.add_edge("Rome", "Italy", key="city in")
    expected = KnowledgeGraph.from_triples([*TRIPLES, ("Rome", "city in", "Italy")])
    assert make_task(graph, GRAPH).source == expected


@given(st.permutations(TRIPLES), st.booleans())
@settings(max_examples=20, deadline=None)
def test_an_undirected_edge_is_two_triples(triples, is_swapped):
    graph = nx.Graph()
    for head, relation, tail in triples:
        graph.add_edge(*((tail, head) if is_swapped else (head, tail)), relation=relation)
    graph.add_edge("Rome", "Rome", relation="same as")
    both = [*TRIPLES, *(triple[::-1] for triple in TRIPLES), ("Rome", "same as", "Rome")]
    found = make_task(graph, GRAPH).source
    assert found == KnowledgeGraph.from_triples(both) and found.repeated_triples == 0


def test_nodes_of_networkx_are_entities_with_literals():
    graph = nx.DiGraph()
    graph.add_node("Rome", name="Roma", founded=-753, rivers=["Tiber", "Aniene"], mayor=None, area=1285.5)
    graph.add_node(5, capital=True)
    task = make_task(graph, GRAPH)
    assert sorted(task.source.entities.to_pylist()) == ["5", "Rome"]
    assert literals(task.source) == {
        ("Rome", "name", "Roma", ""),
        ("Rome", "founded", "-753", f"{XSD}integer"),
        ("Rome", "rivers", "Tiber", ""),
        ("Rome", "rivers", "Aniene", ""),
        ("Rome", "area", "1285.5", f"{XSD}double"),
        ("5", "capital", "true", f"{XSD}boolean"),
    }


def some_edges_without():
    graph = nx.DiGraph([("a", "b"), ("b", "c")])
    graph.edges["a", "b"]["relation"] = "r"
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.path_graph(3), "source: the edges have no relation: name it in the edge attribute 'relation'"),
        (nx.MultiGraph([(1, 2)]), "source: the edges have no relation"),
        (some_edges_without(), "source: 1 of 2 edges have no attribute 'relation'"),
        (nx.grid_2d_graph(2, 2), r"source: expected text or an integer as a label; found \(0, 0\)"),
        (nx.Graph(), "source: contains no triples"),
        (nx.DiGraph([(1, "1", {"relation": "r"})]), "two nodes have the same label: an integer and its text"),
    ],
)
def test_graphs_of_networkx_that_cannot_be_used(graph, message):
    with pytest.raises(InputError, match=message):
        make_task(graph, GRAPH)


# Attributes


WIDE = pd.DataFrame(
    {
        "city": ["Rome", "Oslo", "Turin"],
        "name": ["Roma", None, ""],
        "founded": [-753, 1040, np.nan],
        "seen": pd.Series([True, None, None], dtype="boolean"),
        "on": pd.to_datetime(["2020-01-02 03:04:05.500", None, "2021-01-01"], format="ISO8601"),
    }
)
EXPECTED = {
    ("Rome", "name", "Roma", ""),
    ("Rome", "founded", "-753", f"{XSD}double"),
    ("Oslo", "founded", "1040", f"{XSD}double"),
    ("Rome", "seen", "true", f"{XSD}boolean"),
    ("Rome", "on", "2020-01-02T03:04:05.5", f"{XSD}dateTime"),
    ("Turin", "on", "2021-01-01T00:00:00", f"{XSD}dateTime"),
}


@pytest.mark.parametrize(
    "attributes",
    [
        WIDE,
        pl.DataFrame(WIDE),
        pa.table(WIDE),
        WIDE.set_index("city", drop=False),
        {row["city"]: {name: row[name] for name in list(WIDE)[1:]} for row in WIDE.to_dict("records")},
        [(row["city"], name, row[name]) for row in WIDE.to_dict("records") for name in list(WIDE)[1:]],
    ],
)
def test_attributes_of_records(attributes):
    task = make_task(TRIPLES, FRAME, source_attributes=attributes)
    assert literals(task.source) == EXPECTED and task.target.attributes is None
    # An entity may have nothing but attributes, or a row of missing values.
    assert task.source.find(["Turin"])[0] >= 0
    assert task.source.num_triples == len(TRIPLES)


@pytest.mark.parametrize("header", [("entity", "property", "value"), ("Head", "Relation", "Tail")])
@pytest.mark.parametrize("as_table", [pd.DataFrame, pl.DataFrame, pa.table])
def test_attributes_of_triples(header, as_table):
    rows = {
        "note": ["x"] * 3,
        **dict(zip(header, (["Rome", "Rome", "Oslo"], ["k"] * 3, [1, 2, None]), strict=True)),
    }
    frame = pa.table(rows)
    given_table = frame.to_pandas(types_mapper=pd.ArrowDtype) if as_table is pd.DataFrame else as_table(frame)
    task = make_task(TRIPLES, TRIPLES, target_attributes=given_table)
    assert literals(task.target) == {("Rome", "k", "1", f"{XSD}integer"), ("Rome", "k", "2", f"{XSD}integer")}


def test_attributes_are_added_to_those_of_a_graph(tmp_path):
    write_graph(make_task(TRIPLES, TRIPLES, source_attributes={"Rome": {"k": "v"}}).source, tmp_path / "g.nt")
    graph = divea.read_graph(tmp_path / "g.nt")
    for given_graph in (graph, tmp_path / "g.nt"):
        found = make_task(
            given_graph, GRAPH, source_attributes=[("Rome", "k", 2**70), ("Rome", "k", Decimal("1.50"))]
        )
        assert literals(found.source) == {
            ("Rome", "k", "v", ""),
            ("Rome", "k", str(2**70), f"{XSD}integer"),
            ("Rome", "k", "1.50", f"{XSD}decimal"),
        }
        assert np.array_equal(found.source.triples, graph.triples)
        assert found.source.entities == graph.entities


def test_a_graph_may_have_attributes_alone():
    task = make_task(FRAME.iloc[:0], [], source_attributes=WIDE, target_attributes={"Roma": {"k": "v"}})
    assert (task.source.num_entities, task.target.num_entities) == (3, 1)


# Names


@pytest.mark.parametrize(
    "names",
    [
        {"Rome": ["Roma", "Rom"], "Oslo": "Oslo", "Milan": None},
        [("Rome", "Roma"), ("Rome", "Rom"), ("Oslo", "Oslo")],
        pd.Series(["Roma", "Rom", "Oslo", None], index=["Rome", "Rome", "Oslo", "Milan"]),
        pd.DataFrame({"name": ["Roma", "Rom", "Oslo"], "n": 1, "entity": ["Rome", "Rome", "Oslo"]}),
        pl.DataFrame({"id": ["Rome", "Rome", "Oslo", "Bern"], "what": ["Roma", "Rom", "Oslo", None]}),
    ],
)
def test_names_of_entities(names):
    expected = {
        ("Rome", GIVEN_NAME, "Roma", ""),
        ("Rome", GIVEN_NAME, "Rom", ""),
        ("Oslo", GIVEN_NAME, "Oslo", ""),
    }
    assert literals(make_task(TRIPLES, TRIPLES, source_names=names).source) == expected
    assert literals(make_task(TRIPLES, TRIPLES, target_names=names).target) == expected


def test_names_of_a_file(tmp_path):
    (tmp_path / "names.tsv").write_text("Rome\tRoma\n")
    task = make_task(TRIPLES, TRIPLES, source_names=str(tmp_path / "names.tsv"))
    assert literals(task.source) == {("Rome", GIVEN_NAME, "Roma", "")}


# What cannot be used


class Odd:
    def __repr__(self):
        return "Odd()"


FOUR = FRAME.assign(a=1, b=2).iloc[:, 1:]
RECORDS = pd.DataFrame({"id": range(12), "title": [f"t{at}" for at in range(12)], "year": range(1990, 2002)})


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (5, "source: expected a file, a table, a graph of rdflib or networkx or tuples .*; found int"),
        (None, "found NoneType"),
        ({"Rome": "Italy"}, "found dict"),
        (pl.LazyFrame(FRAME), r"found polars\..*LazyFrame"),
        (pd.Series(["a"]), r"source: expected a table; found pandas\..*Series"),
        (pl.Series(["a"]), "source: expected a table; found polars"),
        ("no/such/file.tsv", "no/such/file.tsv: no such file"),
        ([], "source: contains no triples"),
        (FRAME.iloc[:0], "source: contains no triples"),
        (rdflib.Graph(), "source: contains no triples"),
        (["abc", "def"], r"source: item 1 is no tuple \(head, relation, tail\): 'abc'"),
        ([("a", "r", "b"), ("a", "b")], r"source: item 2 is no tuple .*: \('a', 'b'\)"),
        ([("a", "r", None)], "source: a label is missing"),
        ([("a", "r", float("nan"))], "source: a label is missing"),
        ([("a", "r", pd.NA)], "source: a label is missing"),
        ([("a", "r", "")], "source: a label is empty"),
        ([("a", "r", True)], "expected text or an integer as a label; found true"),
        ([("a", "r", 1.5)], "expected text or an integer as a label; found 1.5"),
        ([("a", "r", rdflib.Literal("x"))], "source: the literal .* is no entity or relation"),
        ([("a", "r", "\ud800")], "source: a text is not valid Unicode"),
        (FRAME.replace("Italy", None), "source: the column 'tail' has 2 missing values"),
        (FRAME.replace("Italy", ""), "source: the column 'tail' has an empty value"),
        (FRAME.assign(tail=0.5), "source: the column 'tail' is of type double, not text or integer"),
        (FRAME.assign(tail=["a", 1, "b"]), "source: the column 'tail' mixes types"),
        (FRAME.assign(tail=[Odd(), Odd(), Odd()]), "source: the column 'tail' mixes types, or holds what is"),
        (FRAME[["head"]], r"expected the columns head, relation, tail, or 3 columns .* found 1 \(head\)"),
        (FOUR, r"found 4 \(relation, tail, a, b\)"),
        (pd.concat([FRAME, FRAME], axis=1), "source: the column 'head' appears twice"),
        (
            RECORDS,
            "the columns id, title, year look like those of records, .* as source_attributes",
        ),
    ],
)
def test_graphs_that_cannot_be_used(graph, message):
    with pytest.raises(InputError, match=message) as refusal:
        make_task(graph, GRAPH)
    assert "\n" not in str(refusal.value)


def test_records_whose_columns_are_named_as_triples_are_triples():
    assert make_task(RECORDS.set_axis(["head", "relation", "tail"], axis=1), GRAPH).source.num_triples == 12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"seeds": {"Rome": "Atlantis"}},
            r"seeds: 1 of 1 links name .*'Atlantis'\); for seeds, skip_unknown_seeds=True leaves",
        ),
        ({"seeds": {"Rome": "Rome", "Oslo": "Rome"}}, "seeds: 1 target entities are in more than one seed"),
        ({"seeds": 5}, "seeds: expected a file, a table, a dict or tuples"),
        ({"seeds": [("Rome",)]}, r"seeds: item 1 is no tuple \(source, target\): \('Rome',\)"),
        ({"seeds": FRAME}, "seeds: expected the columns source, target, or 2 columns"),
        ({"seeds": Links.from_pairs([(0, 99)])}, "seeds: a seed's target id is outside"),
        ({"seeds": {"x": "y"}, "skip_unknown_seeds": True}, "seeds: no link names entities of both graphs"),
        (
            {"source_names": {"Atlantis": "x", "Rome": "y"}},
            "source_names: 1 of 2 names .*; skip_unknown_names=True",
        ),
        ({"target_names": 5}, "target_names: expected a file, a table, a dict or tuples"),
        ({"source_attributes": 5}, "source_attributes: expected a table, a dict of dicts or tuples"),
        (
            {"source_attributes": {"Rome": "x"}},
            "expected a mapping of properties to values for each entity; found str",
        ),
        ({"source_attributes": {"Rome": {"k": Odd()}}}, "source_attributes: 'k' is of type Odd, not text"),
        ({"source_attributes": {"Rome": {"k": {"a": 1}}}}, "source_attributes: 'k' is of type struct"),
        ({"source_attributes": {None: {"k": 1}}}, "source_attributes: a label is missing"),
        (
            {"source_attributes": WIDE[["city"]]},
            "source_attributes: expected the columns entity, property and value",
        ),
        (
            {"source_attributes": pd.concat([WIDE, WIDE], axis=1)},
            "source_attributes: the column 'name' appears twice",
        ),
        (
            {"source_attributes": WIDE.replace("Oslo", None)},
            "source_attributes: the column 'city' has 1 missing",
        ),
        ({"target_attributes": WIDE.assign(k=[[1], [2], [3]])}, "target_attributes: 'k' is of type list"),
    ],
)
def test_arguments_that_cannot_be_used(arguments, message):
    with pytest.raises(InputError, match=message) as refusal:
        make_task(GRAPH, GRAPH, **arguments)
    assert "\n" not in str(refusal.value)


def test_unknown_seeds_and_names_can_be_left_out():
    task = make_task(
        TRIPLES,
        TRIPLES,
        {"Rome": "Rome", "Atlantis": "Oslo"},
        source_names={"Rome": "Roma", "Atlantis": "x"},
        skip_unknown_seeds=True,
        skip_unknown_names=True,
    )
    assert len(task.seeds) == 1 and len(literals(task.source)) == 1
    assert (
        len(make_task(TRIPLES, TRIPLES, {}).seeds)
        == len(make_task(TRIPLES, TRIPLES, FRAME.iloc[:0, :2]).seeds)
        == 0
    )


def test_no_library_is_imported_to_recognise_its_objects():
    code = """
import sys
import divea
divea.make_task([("a", "r", "b")], [("a", "r", "b")], {"a": "a"}, source_attributes={"a": {"k": 1}})
print([name for name in ("polars", "rdflib", "networkx", "IPython") if name in sys.modules])
"""
    assert python(code) == "[]"


def test_times_do_not_depend_on_the_other_values():
    """One array of Arrow has one time zone and one number of digits."""
    evening = datetime.datetime(2020, 1, 1, 22, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    noon = datetime.datetime(2020, 1, 1, 12, 0, 0, 500000)
    values = [
        ("A", evening),
        ("B", noon),
        ("C", Decimal("2")),
        ("D", Decimal("1.55")),
        ("E", datetime.time(7, 5)),
    ]
    for rows in (values, values[::-1]):
        task = make_task(TRIPLES, FRAME, source_attributes=[(entity, "x", value) for entity, value in rows])
        assert {(entity, value) for entity, _, value, _ in literals(task.source)} == {
            ("A", "2020-01-01T22:30:00+01:00"),
            ("B", "2020-01-01T12:00:00.5"),
            ("C", "2"),
            ("D", "1.55"),
            ("E", "07:05:00"),
        }


def test_an_index_of_text_is_refused():
    """pandas calls it an index; most people call it the first column."""
    attributes = pd.DataFrame({"people": [3, 4], "area": [1, 2]}, index=["Rome", "Oslo"])
    with pytest.raises(InputError, match="source_attributes: the index holds text that would not be read"):
        make_task(FRAME, FRAME, source_attributes=attributes)
    assert make_task(FRAME, FRAME, source_attributes=attributes.reset_index()).source.find(["3"])[0] < 0


def test_names_may_all_be_missing():
    names = pd.DataFrame({"entity": ["Rome"], "name": [None]})
    assert make_task(FRAME, FRAME, source_names=names).source.attributes is None


def test_keys_of_a_multigraph_are_relations_unless_an_attribute_certainly_is():
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", key="r", type="x")
    graph.add_edge("a", "b", key="q", type="x")
    assert set(make_task(graph, FRAME).source.relations.to_pylist()) == {"r", "q"}
    for _, _, data in graph.edges(data=True):
        data["relation"] = "s"
    assert make_task(graph, FRAME).source.relations.to_pylist() == ["s"]


def test_an_index_that_would_be_lost_is_refused():
    """A table of entities often has them as its index."""
    attributes = WIDE.set_index("city")
    with pytest.raises(
        InputError, match=r"source_attributes: the index 'city' would not be read: reset_index"
    ):
        make_task(FRAME, FRAME, source_attributes=attributes)
    assert make_task(FRAME, FRAME, source_attributes=attributes.reset_index()).source.attributes is not None
