"""Hypothesis generators of labels, graphs and tasks, shared by the tests."""

from __future__ import annotations

from hypothesis import strategies as st

from divea.graphs import AlignmentTask, GraphBuilder, KnowledgeGraph, Links
from divea.graphs.labels import as_labels

any_label = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.sampled_from(
        ["http://a.example/x", "http://a.example/x#y", "_:b0", "_:b 0", "urn:divea:x", "a:b", '"q"', "#"]
    ),
    st.integers(0, 50).map(lambda i: f"http://a.example/resource/E{i}"),
)
"""Any label: IRIs, blank nodes, names in any script, awkward characters."""

plain_label = any_label.filter(lambda label: not set(label) & set("\t\n\r\0") and label[0] != "\ufeff")
"""A label that a table can hold: no tab, line break or NUL, and no byte order mark at the start."""

small_label = st.integers(0, 20).map(lambda i: f"e{i}")
small_relation = st.integers(0, 3).map(lambda i: f"r{i}")
literal_kind = st.sampled_from(["", "@en", "@zh-hant", "http://www.w3.org/2001/XMLSchema#date", "odd kind"])


@st.composite
def graphs(draw, label=any_label, attributes=False, isolated=False, min_triples=1) -> KnowledgeGraph:
    """A small graph; `isolated` adds entities without triples."""
    triples = draw(st.lists(st.tuples(label, label, label), min_size=min_triples, max_size=15))
    builder = GraphBuilder()
    builder.add_triples(
        *(as_labels(column) for column in zip(*triples, strict=True)) if triples else [as_labels([])] * 3
    )
    if attributes:
        value = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
        rows = draw(st.lists(st.tuples(label, label, value, literal_kind), max_size=8))
        if rows:
            builder.add_attributes(*(as_labels(column) for column in zip(*rows, strict=True)))
    if isolated:
        builder.add_entities(as_labels(draw(st.lists(label, max_size=5))))
    return builder.build()


@st.composite
def tasks(draw, **options) -> AlignmentTask:
    """A small task with at least one seed; the options are those of `graphs`."""
    source, target = draw(graphs(**options)), draw(graphs(**options))
    most = min(source.num_entities, target.num_entities)
    count = draw(st.integers(1, most))
    left = draw(st.permutations(range(source.num_entities)))[:count]
    right = draw(st.permutations(range(target.num_entities)))[:count]
    return AlignmentTask(source, target, Links.from_pairs(list(zip(left, right, strict=True))))
