"""Memory budgets: what a limit leaves for a job, and how pieces of work are packed."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.errors import InputError
from divea.graphs.planted import planted_pair
from divea.resources.budget import job_memory, pack

GIB = 1 << 30


@pytest.fixture(scope="module")
def task():
    return planted_pair(entities=120, triples=500, seeds=30, random_seed=4).task


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_limit_that_leaves_nothing_for_a_job_is_refused(task, device):
    with pytest.raises(InputError, match="before it solves anything, and the limit is 100 MiB"):
        job_memory(task, 100 << 20, device)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_job_gets_less_than_the_limit(task, device):
    assert 0 < job_memory(task, GIB, device) < GIB


needs_and_budget = {"needs": st.lists(st.integers(0, 12), max_size=12), "budget": st.integers(1, 20)}
"""A need of 0 is unknown."""


@given(**needs_and_budget)
def test_every_piece_is_in_exactly_one_batch_and_in_order(needs, budget):
    batches = pack(needs, budget)
    assert [piece for batch in batches for piece in batch] == list(range(len(needs)))
    assert all(len(batch) for batch in batches)


@given(**needs_and_budget)
def test_a_batch_of_several_pieces_fits_the_budget(needs, budget):
    for batch in pack(needs, budget):
        if len(batch) > 1:
            assert sum(needs[piece] for piece in batch) <= budget


@given(**needs_and_budget)
def test_a_piece_of_unknown_need_is_a_batch_of_its_own(needs, budget):
    for batch in pack(needs, budget):
        assert len(batch) == 1 or all(needs[piece] for piece in batch)


@given(**needs_and_budget)
def test_packing_is_greedy(needs, budget):
    """A batch ends only before a piece that would exceed the budget or has an unknown need."""
    for batch, following in pairwise(pack(needs, budget)):
        own = [needs[piece] for piece in batch]
        next_need = needs[following[0]]
        assert 0 in (*own, next_need) or sum(own) + next_need > budget
