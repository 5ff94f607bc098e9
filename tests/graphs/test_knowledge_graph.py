import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea import InputError, KnowledgeGraph, read_graph
from divea.graphs import builder
from divea.graphs.labels import as_labels
from tests.generators import graphs, literal_kind, small_label, small_relation

small_triples = st.lists(st.tuples(small_label, small_relation, small_label), max_size=40)


def labelled_triples(graph):
    """The triples of a graph as labels, in the order of the graph."""
    entities, relations = graph.entities.to_pylist(), graph.relations.to_pylist()
    return [(entities[h], relations[r], entities[t]) for h, r, t in graph.triples.tolist()]


@given(small_triples, st.lists(small_label, max_size=5), st.randoms())
def test_a_graph_is_the_set_of_its_triples_in_any_order(triples, extra, random):
    graph = KnowledgeGraph.from_triples(triples, extra)
    shuffled, twice = list(triples), [*triples, *triples]
    random.shuffle(shuffled)
    assert graph == KnowledgeGraph.from_triples(shuffled, extra) == KnowledgeGraph.from_triples(twice, extra)
    assert sorted(labelled_triples(graph)) == sorted(set(triples))
    assert graph.repeated_triples == len(triples) - len(set(triples))
    assert set(graph.entities.to_pylist()) == {e for h, _, t in triples for e in (h, t)} | set(extra)


@given(small_triples)
def test_the_adjacency_counts_the_triples_between_two_entities(triples):
    graph = KnowledgeGraph.from_triples(triples)
    expected = np.zeros((graph.num_entities, graph.num_entities), dtype=int)
    for head, _, tail in graph.triples:
        if head != tail:
            expected[head, tail] += 1
            expected[tail, head] += 1
    adjacency = graph.adjacency
    assert adjacency.indices.dtype == np.int32
    assert (adjacency.toarray() == expected).all()
    loops = [sum(h == t == e for h, _, t in graph.triples.tolist()) for e in range(graph.num_entities)]
    assert graph.degrees.tolist() == (expected.sum(axis=1) + loops).tolist()


def test_more_triples_than_the_adjacency_can_count_are_refused(monkeypatch):
    monkeypatch.setattr("divea.graphs.knowledge_graph.MOST_TRIPLES", 1)
    assert KnowledgeGraph.from_triples([("a", "r", "b")]).adjacency.nnz == 2
    with pytest.raises(InputError, match=r"2 triples; .* at most 1"):
        _ = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")]).adjacency


@given(small_triples.filter(bool), st.data())
def test_a_subgraph_has_the_triples_between_its_entities(triples, data):
    graph = KnowledgeGraph.from_triples(triples)
    kept = data.draw(st.lists(st.integers(0, graph.num_entities - 1)))
    part = graph.subgraph(kept)
    labels = set(graph.label(kept))
    assert part.entities.to_pylist() == graph.label(sorted(set(kept)))
    assert part.relations.equals(graph.relations)
    assert part.triples.dtype == np.int32
    # Triples that are in the order of the graph are sorted, as the class promises.
    assert labelled_triples(part) == [t for t in labelled_triples(graph) if {t[0], t[2]} <= labels]
    assert sorted(labelled_triples(part)) == sorted(t for t in set(triples) if {t[0], t[2]} <= labels)


def test_a_subgraph_leaves_the_graph_as_it_was():
    triples = [(f"e{i}", "r", f"e{i * 7 % 20}") for i in range(20)]
    graph, untouched = KnowledgeGraph.from_triples(triples), KnowledgeGraph.from_triples(triples)
    assert graph.subgraph(range(20)) == graph == untouched
    assert graph.subgraph([3, 1]) == graph.subgraph([1, 3, 3])
    assert graph == untouched


def test_find_and_label_are_inverse():
    graph = KnowledgeGraph.from_triples([("a", "r", "b"), ("b", "r", "c")])
    assert graph.label(graph.find(["c", "unknown", "a"])) == ["c", None, "a"]


@pytest.mark.parametrize("triple", [("", "r", "b"), ("a", "", "b"), ("a", "r", "")])
def test_an_empty_label_is_refused(triple):
    with pytest.raises(InputError, match="empty"):
        KnowledgeGraph.from_triples([triple])


def test_triples_that_do_not_fit_integer_keys_are_sorted_the_same_way(monkeypatch):
    """Keys do not fit if there are 2^63 or more combinations of head, relation and tail."""
    triples = [(f"e{i * 7 % 11}", f"r{i % 3}", f"e{i * 5 % 13}") for i in range(60)]
    with_keys = KnowledgeGraph.from_triples(triples)
    monkeypatch.setattr(builder, "_KEY_LIMIT", 0)
    assert KnowledgeGraph.from_triples(triples) == with_keys


any_literals = st.lists(
    st.tuples(small_label, st.sampled_from(["p", "q", "name"]), st.text("abé", max_size=3), literal_kind),
    max_size=12,
)


def with_literals(graph, rows):
    """The graph with literals, which a builder adds to its entities."""
    made = builder.GraphBuilder()
    made.add_entities(graph.entities)
    if rows:
        made.add_attributes(*(as_labels(column) for column in zip(*rows, strict=True)))
    return made.build()


@given(any_literals, any_literals)
def test_literals_that_are_added_to_a_graph_are_sorted_among_those_it_has(first, rest):
    rest = [(entity, "name", value, kind) for entity, _, value, kind in rest]
    plain = KnowledgeGraph.from_triples([], {entity for entity, *_ in first + rest})
    entities, _, values, kinds = zip(*rest, strict=True) if rest else ((),) * 4
    added = builder.add_literals(
        with_literals(plain, first), plain.find(entities), "name", as_labels(values), as_labels(kinds)
    )
    assert added == with_literals(plain, first + rest)


def test_the_other_parts_of_a_graph_that_gets_literals_are_kept(tmp_path):
    path = tmp_path / "g.tsv"
    path.write_text("a\tr\tb\na\tr\tb\n")
    graph = read_graph(path)
    named = builder.add_literals(graph, graph.find(["a"]), "name", as_labels(["A"]))
    assert named.attributes.kinds.to_pylist() == [""] and named.repeated_triples == 1
    assert (named.entities, named.relations) == (graph.entities, graph.relations)
    assert builder.add_literals(graph, graph.find([]), "name", as_labels([])) is graph


@given(graphs(attributes=True))
def test_attributes_are_sorted_and_unique(graph):
    if graph.attributes is not None:
        rows = [tuple(row.values()) for row in graph.attributes.table().to_pylist()]
        assert rows == sorted(set(rows), key=lambda r: (r[0], r[1], r[2].encode(), r[3].encode()))


def test_a_name_is_the_label_attribute_or_the_end_of_the_iri(tmp_path):
    path = tmp_path / "g.ttl"
    path.write_text(
        "@prefix e: <http://e.example/> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'e:New_York e:near e:Big%20Sur ; rdfs:label "The Big Apple" ; e:size "big" .\n'
    )
    graph = read_graph(path)
    assert sorted(graph.names.to_pylist()) == ["Big Sur", "The Big Apple"]


def test_a_name_is_the_first_value_of_the_preferred_property(tmp_path):
    path = tmp_path / "g.ttl"
    path.write_text(
        "@prefix e: <http://e.example/> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        "@prefix skos: <http://www.w3.org/2004/02/skos/core#> .\n"
        'e:a e:near e:b, e:c ; skos:altLabel "A" ; rdfs:label "Zebra", "Yak" ; skos:prefLabel "B" .\n'
        'e:b skos:altLabel "also" ; skos:prefLabel "mainly" .\n'
    )
    graph = read_graph(path)
    found = dict(zip(graph.entities.to_pylist(), graph.names.to_pylist(), strict=True))
    assert found == {"http://e.example/a": "Yak", "http://e.example/b": "mainly", "http://e.example/c": "c"}
