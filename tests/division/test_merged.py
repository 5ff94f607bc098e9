"""Merged graphs, against the same sums entry by entry."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.division import blocks
from divea.division.merged import merged_adjacency, merged_nodes
from divea.graphs import AlignmentTask, KnowledgeGraph, Links

TRIPLES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 6)), max_size=30)
PAIRS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=7)


def graph(triples):
    labels = [(f"e{head}", f"r{relation}", f"e{tail}") for head, relation, tail in triples]
    return KnowledgeGraph.from_triples(labels, [f"e{number}" for number in range(7)])


def entry_by_entry(task, node, size):
    """The merged adjacency as a dense matrix."""
    dense = np.zeros((size, size), dtype=int)
    for side, number in ((task.source, np.arange(task.source.num_entities)), (task.target, node)):
        found = side.adjacency.tocoo()
        for row, column, triples in zip(found.row, found.col, found.data, strict=True):
            if number[row] != number[column]:
                dense[number[row], number[column]] += triples
    return dense


@pytest.mark.parametrize("rows", [1, 3, 1 << 15])
@given(source=TRIPLES, target=TRIPLES, pairs=PAIRS, is_one_to_one=st.booleans())
def test_triples_between_merged_nodes_are_added_up(rows, source, target, pairs, is_one_to_one):
    task = AlignmentTask(graph(source), graph(target))
    source_of = {target: source for source, target in pairs}
    if is_one_to_one:
        source_of = {target: source for source, target in {s: t for t, s in source_of.items()}.items()}
    # Otherwise a node may have two target entities, and a triple between them leads nowhere.
    ends = [(source, target) for target, source in source_of.items()]
    links = Links.from_pairs(np.array(ends, dtype=np.int32).reshape(-1, 2))
    node, size = merged_nodes(task, links)
    assert size == 14 - len(links)
    assert (node[links.target] == links.source).all()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "_ROWS", rows)
        merged = merged_adjacency(task, node, size)
    np.testing.assert_array_equal(merged.toarray(), entry_by_entry(task, node, size))
    assert merged.has_canonical_format
    assert (merged.data > 0).all()
