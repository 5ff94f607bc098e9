"""Partitions and groups: balanced, repeatable, and within their limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from divea.division.groups import group_source, members_of
from divea.division.partition import PARTITIONERS, edge_cut, partition
from divea.errors import InputError
from divea.graphs.synth import SynthConfig, synthesise
from tests.generators import small_label, tasks


@pytest.fixture(scope="module")
def task():
    return synthesise(SynthConfig(entities=2000, random_seed=4)).task


def weight_of_unmatched(task):
    weights = np.ones(task.source.num_entities, dtype=np.int64)
    weights[task.seeds.source] = 0
    return weights


@pytest.mark.parametrize("method", PARTITIONERS)
def test_parts_are_repeatable_and_hold_equally_many_unmatched_entities(task, method):
    if method == "kaminpar":
        pytest.importorskip("kaminpar")
    weights = weight_of_unmatched(task)
    part = partition(task.source.adjacency, 7, weights, method=method, random_seed=3)
    loads = np.bincount(part, weights, minlength=7)
    assert loads.max() <= 1.01 * weights.sum() / 7 + 1
    assert loads.min() >= 0.97 * weights.sum() / 7
    again = partition(task.source.adjacency, 7, weights, method=method, random_seed=3)
    np.testing.assert_array_equal(part, again)


def test_k_way_partition_of_a_large_graph_cuts_nearly_as_few_edges_as_bisection(task, monkeypatch):
    weights = weight_of_unmatched(task)
    bisected = partition(task.source.adjacency, 7, weights)
    monkeypatch.setattr("divea.division.partition.LARGE_GRAPH", 1)
    monkeypatch.setattr("divea.division.partition.LARGE_PART", 1)
    k_way = partition(task.source.adjacency, 7, weights)
    loads = np.bincount(k_way, weights, minlength=7)
    assert loads.max() <= 1.03 * loads.mean() + 1
    assert not np.array_equal(k_way, bisected)
    assert edge_cut(task.source.adjacency, k_way) < 1.2 * edge_cut(task.source.adjacency, bisected)
    np.testing.assert_array_equal(k_way, partition(task.source.adjacency, 7, weights))


def test_coherent_parts_cut_far_fewer_edges_than_random_ones(task):
    weights = weight_of_unmatched(task)
    cuts = {
        name: edge_cut(task.source.adjacency, partition(task.source.adjacency, 5, weights, method=name))
        for name in ("metis", "random")
    }
    assert cuts["metis"] < 0.5 * cuts["random"]


def test_isolated_entities_are_spread_over_all_parts():
    part = partition(csr_array((10, 10), dtype=np.int32), 3, np.ones(10, dtype=np.int64))
    assert sorted(set(part)) == [0, 1, 2]


def test_an_unknown_partitioner_and_zero_parts_are_refused():
    with pytest.raises(InputError, match="unknown partitioner"):
        partition(csr_array((2, 2)), 2, np.ones(2, dtype=np.int64), method="scissors")
    with pytest.raises(InputError, match="0 parts"):
        partition(csr_array((2, 2)), 0, np.ones(2, dtype=np.int64))


@settings(max_examples=150)
@given(
    tasks(label=small_label, isolated=True),
    st.integers(1, 6),
    st.integers(1, 8),
    st.sampled_from(["metis", "random"]),
)
def test_no_group_holds_more_unmatched_entities_than_allowed(task, parts, largest, partitioner):
    groups, notes = group_source(task, parts, largest=largest, partitioner=partitioner)
    members = members_of(groups, task.unmatched_source)
    assert sum(map(len, members)) == len(task.unmatched_source)
    assert all(0 < len(own) <= largest for own in members)
    # A note says that groups were divided further, which happens only if one group cannot hold them all.
    assert (len(notes) > 0) <= (len(task.unmatched_source) > largest)
