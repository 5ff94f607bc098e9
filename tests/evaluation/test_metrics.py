"""Ranks, their metrics and the paired t-test, compared with cases worked out by hand and with matching."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from divea.errors import InputError
from divea.evaluation import RankMetrics, gold_ranks, listed_ranks, paired_t_test
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.matching import METHODS, match
from divea.types import Embeddings, Matches

# Ranks, and their coverage, H@1, H@5, H@10, MRR and mean rank, worked out by hand.
BY_HAND = [
    ([1], (1, 1, 1, 1, 1, 1)),
    ([2], (1, 0, 1, 1, 1 / 2, 2)),
    ([0], (0, 0, 0, 0, 0, math.nan)),
    ([1, 0], (1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 1)),
    ([5, 6], (1, 0, 1 / 2, 1, (1 / 5 + 1 / 6) / 2, 5.5)),
    ([10, 11], (1, 0, 0, 1 / 2, (1 / 10 + 1 / 11) / 2, 10.5)),
    ([1, 1, 1, 1], (1, 1, 1, 1, 1, 1)),
    ([0, 0, 0, 4], (1 / 4, 0, 1 / 4, 1 / 4, 1 / 16, 4)),
    ([1, 2, 3, 4], (1, 1 / 4, 1, 1, (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4, 2.5)),
    ([100], (1, 0, 0, 0, 1 / 100, 100)),
    ([1, 100, 0], (2 / 3, 1 / 3, 1 / 3, 1 / 3, (1 + 1 / 100) / 3, 50.5)),
    ([3, 3, 3], (1, 0, 1, 1, 1 / 3, 3)),
    ([], (math.nan,) * 6),
]


@pytest.mark.parametrize(("ranks", "expected"), BY_HAND)
def test_rank_metrics_by_hand(ranks, expected):
    found = RankMetrics.of(ranks)
    figures = (found.coverage, found.h1, found.h5, found.h10, found.mrr, found.mean_rank)
    assert figures == pytest.approx(expected, nan_ok=True)
    assert found.links == len(ranks)


def bare_graph(count, prefix):
    return KnowledgeGraph.from_triples([], extra_entities=[f"{prefix}{i}" for i in range(count)])


def task_of(sources=30, targets=40, seeds=((0, 1), (5, 5))):
    return AlignmentTask(bare_graph(sources, "s"), bare_graph(targets, "t"), Links.from_pairs(list(seeds)))


@given(st.integers(0, 500), st.sampled_from(sorted(METHODS)), st.sampled_from(["open", "closed"]))
def test_gold_ranks_are_the_ranks_in_complete_lists(random_seed, method, protocol):
    rng = np.random.default_rng(random_seed)
    task = task_of()
    # Few distinct values, so that there are ties, which must be broken as in matching.
    rows = [torch.from_numpy(rng.integers(-1, 2, (n, 3)).astype(np.float32)) for n in (30, 40)]
    embeddings = Embeddings(*rows)
    ends = rng.permutation(task.unmatched_source)[:12], rng.permutation(task.unmatched_target)[:12]
    gold = Links.from_pairs(np.stack(ends, axis=1))
    if protocol == "open":
        sources, candidates = task.unmatched_source, task.unmatched_target
    else:
        sources, candidates = gold.source, gold.target
    if method != "cosine":
        # Sums over sources are rounded differently in another order, so equal scores might become unequal.
        embeddings = Embeddings(
            *(side + 0.01 * torch.from_numpy(rng.random(side.shape)).float() for side in rows)
        )
    complete_lists = match(embeddings, sources, candidates, method=method, top=40)
    ranks = gold_ranks(embeddings, task, gold, method=method, protocol=protocol)
    assert np.array_equal(ranks, listed_ranks(complete_lists, gold))


def test_gold_links_with_an_anchor_are_not_ranked():
    task = task_of()
    embeddings = Embeddings(torch.ones(30, 2), torch.ones(40, 2))
    gold = Links.from_pairs([(0, 7), (3, 5), (4, 9)])
    # Source 0 and target 5 are anchors, which are not matched, so the first two links are misses.
    ranks = gold_ranks(embeddings, task, gold, method="cosine")
    assert ranks[:2].tolist() == [0, 0]
    assert 1 <= ranks[2] <= 38


def test_the_memory_budget_does_not_change_ranks():
    task = task_of()
    generator = torch.Generator().manual_seed(0)
    embeddings = Embeddings(*(torch.randn(n, 6, generator=generator) for n in (30, 40)))
    gold = Links.from_pairs(np.stack([task.unmatched_source[:20], task.unmatched_target[:20]], axis=1))
    in_one_block = gold_ranks(embeddings, task, gold)
    assert np.array_equal(gold_ranks(embeddings, task, gold, memory=1), in_one_block)


def test_listed_ranks_of_unknown_sources_and_targets_are_zero():
    score = np.array([[0.9, 0.5], [0.8, -np.inf]], np.float32)
    matches = Matches(np.array([9, 4]), np.array([[1, 2], [3, -1]]), score, np.zeros(2, bool))
    gold = Links.from_pairs([(4, 3), (9, 2), (9, 7), (11, 1)])
    assert listed_ranks(matches, gold).tolist() == [1, 2, 0, 0]
    no_lists = Matches(*(column[:0] for column in (matches.source, matches.target, score, matches.mutual)))
    assert listed_ranks(no_lists, gold).tolist() == [0, 0, 0, 0]


def test_listed_ranks_among_some_targets_skip_the_others():
    score = np.array([[0.9, 0.5, 0.4]], np.float32)
    matches = Matches(np.array([9]), np.array([[1, 2, 3]]), score, np.zeros(1, bool))
    gold = Links.from_pairs([(9, 3)])
    assert listed_ranks(matches, gold).tolist() == [3]
    assert listed_ranks(matches, gold, np.array([1, 3])).tolist() == [2]
    assert listed_ranks(matches, gold, np.array([1, 2])).tolist() == [0]


def test_paired_t_test_by_hand():
    # Differences 1, 2, 3: mean 2, standard error 1 / sqrt(3), so t = 2 sqrt(3) with 2 degrees of freedom.
    outcome = paired_t_test([2, 4, 6], [1, 2, 3])
    assert outcome.t == pytest.approx(2 * math.sqrt(3))
    # For 2 degrees of freedom the two-tailed p has the closed form 1 - t / sqrt(2 + t^2).
    assert outcome.p == pytest.approx(1 - outcome.t / math.sqrt(2 + outcome.t**2))
    assert paired_t_test([1, 2, 3], [2, 4, 6]).t == pytest.approx(-outcome.t)
    assert paired_t_test([1, 2], [1, 2]).p == 1
    assert paired_t_test([0.2, 0.3], [0.1, 0.2]).p == 0
    with pytest.raises(InputError, match="same length"):
        paired_t_test([1], [2])
