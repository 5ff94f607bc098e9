"""Out of memory: smaller batches, then smaller subtasks; no entity is lost, and it is said."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.division import division_strategy
from divea.run import shrinking
from divea.run.jobs import solve_job
from divea.run.limits import is_out_of_memory, limit
from divea.run.shrinking import divide_further, solve_within
from tests.models.planted import planted
from tests.run.conftest import bytes_of

LIMIT = 1 << 30


def test_a_limit_on_host_memory_holds():
    with limit("cpu", LIMIT):
        torch.ones(LIMIT // 16)  # a quarter of it
        np.ones(LIMIT // 32)
        for allocate in (lambda: torch.ones(LIMIT // 2), lambda: np.ones(LIMIT // 2)):
            with pytest.raises((RuntimeError, MemoryError)) as refused:
                allocate()
            assert is_out_of_memory(refused.value)
    np.empty(LIMIT // 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_limit_on_gpu_memory_holds():
    with limit("cuda", LIMIT):
        torch.ones(LIMIT // 8, device="cuda")
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.ones(LIMIT, device="cuda")
    torch.ones(LIMIT // 2, device="cuda")


def test_other_errors_are_not_taken_for_it():
    assert not is_out_of_memory(RuntimeError("no such luck"))


class Room:
    """Stands in for `solve_job`: raises where a job has more than a number of entities."""

    def __init__(self, entities):
        self.entities, self.done = entities, []

    def __call__(self, task, job):
        if sum(subtask.size for subtask in job.subtasks) > self.entities:
            raise torch.cuda.OutOfMemoryError("no room")
        self.done.append(len(job.subtasks))
        return solve_job(task, job)


def test_a_batch_is_halved_and_the_bytes_stay(task, jobs, monkeypatch):
    together = replace(jobs[0], subtasks=tuple(job.subtasks[0] for job in jobs))
    room = Room(2 * max(subtask.size for subtask in together.subtasks))
    monkeypatch.setattr(shrinking, "solve_job", room)
    notes = []
    found = solve_within(task, together, notes.append)
    assert room.done == [2, 2]
    assert len(notes) == 1
    assert "4 subtasks at once" in notes[0]
    assert bytes_of([found]) == bytes_of([solve_job(task, together)])


def test_a_subtask_too_large_is_divided_until_it_fits(task, jobs, monkeypatch):
    whole = division_strategy("whole", 1).divide(task).subtasks[0]
    job = replace(jobs[0], subtasks=(whole,))
    monkeypatch.setattr(shrinking, "solve_job", Room(whole.size // 3))
    notes = []
    (found,) = solve_within(task, job, notes.append)
    assert found.matches.source.tolist() == whole.unmatched.tolist()
    assert np.isin(found.matches.target[found.matches.target >= 0], whole.candidates).all()
    assert found.top_sums.shape == whole.candidates.shape
    assert any("divided further" in note for note in notes)
    assert bytes_of([solve_within(task, job, notes.append)]) == bytes_of([[found]])


def test_no_room_at_all_is_a_failure(task, jobs, monkeypatch):
    monkeypatch.setattr(shrinking, "solve_job", Room(0))
    with pytest.raises(MemoryError, match="no room for a subtask of"):
        solve_within(task, jobs[0], lambda note: None)


def test_the_real_thing(task, jobs, odd):
    """A model that asks for 64 GiB for tasks above 60 entities."""
    notes = []
    job = replace(odd(jobs[0], "runs-out", 60), memory=LIMIT)
    (found,) = solve_within(task, job, notes.append)
    assert found.matches.source.tolist() == jobs[0].subtasks[0].unmatched.tolist()
    assert "can't allocate memory" in notes[0]


@settings(max_examples=20)
@given(seed=st.integers(0, 9), entities=st.integers(40, 90), parts=st.integers(1, 3))
def test_pieces_share_the_unmatched_out(seed, entities, parts):
    task = planted(seed=seed, entities=entities, triples=4 * entities, seeds=entities // 4)[0]
    size = 2 * entities if parts == 1 else int(1.4 * entities)
    subtask = division_strategy("divea", parts, size).divide(task).subtasks[0]
    if subtask.size <= shrinking.SMALLEST:
        return
    pieces = divide_further(task, subtask, seed)
    together = np.concatenate([piece.unmatched for piece in pieces])
    assert sorted(together.tolist()) == subtask.unmatched.tolist()
    for piece in pieces:
        assert piece.size <= subtask.size // 2
        assert np.isin(piece.source_entities, subtask.source_entities).all()
        assert np.isin(piece.target_entities, subtask.target_entities).all()
        assert np.isin(piece.candidates, subtask.candidates).all()
        assert not np.isin(piece.candidates, task.seeds.target).any()
        assert {*map(tuple, piece.seeds.pairs.tolist())} <= {*map(tuple, subtask.seeds.pairs.tolist())}
