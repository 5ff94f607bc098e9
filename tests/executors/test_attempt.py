"""One try at a job within its memory: smaller batches, then smaller subtasks, and a note that says so."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.config import DivisionSettings
from divea.division import DivEA, Whole
from divea.executors import Done, Failed, FailureKind
from divea.executors import attempt as attempt_module
from divea.executors.attempt import SMALLEST, Changes, attempt, divide_further, solve_within_memory
from divea.executors.job import solve_job
from divea.graphs.planted import planted_pair
from divea.resources.limits import enforced, is_out_of_memory
from tests.executors.small import TASK, result_bytes

LIMIT = 1 << 28


def test_a_limit_on_host_memory_holds():
    with enforced("cpu", LIMIT):
        torch.ones(LIMIT // 16)  # a quarter of it
        np.ones(LIMIT // 32)
        for allocate in (lambda: torch.ones(LIMIT // 2), lambda: np.ones(LIMIT // 2)):
            with pytest.raises((RuntimeError, MemoryError)) as refused:
                allocate()
            assert is_out_of_memory(refused.value)
    np.empty(LIMIT // 2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_limit_on_gpu_memory_holds():
    with enforced("cuda", LIMIT):
        torch.ones(LIMIT // 8, device="cuda")
        with pytest.raises(torch.cuda.OutOfMemoryError):
            torch.ones(LIMIT, device="cuda")
    torch.ones(LIMIT // 2, device="cuda")


def test_other_errors_do_not_count_as_out_of_memory():
    assert not is_out_of_memory(RuntimeError("no such luck"))


class LimitedSolver:
    """Replaces `solve_job`: raises if a job has more than a number of entities."""

    def __init__(self, entities):
        self.entities = entities
        self.solved_together = []

    def __call__(self, task, job):
        if sum(subtask.size for subtask in job.subtasks) > self.entities:
            raise torch.cuda.OutOfMemoryError("no room")
        self.solved_together.append(len(job.subtasks))
        return solve_job(task, job)


@pytest.fixture
def limit_entities(monkeypatch):
    """Limits the number of entities that can be solved together."""

    def limit(entities):
        solver = LimitedSolver(entities)
        monkeypatch.setattr(attempt_module, "solve_job", solver)
        return solver

    return limit


def test_a_batch_is_halved_and_the_bytes_stay_the_same(jobs, limit_entities):
    together = replace(jobs[0], subtasks=tuple(job.subtasks[0] for job in jobs))
    solver = limit_entities(2 * max(subtask.size for subtask in together.subtasks))
    changes = Changes()
    solved = solve_within_memory(TASK, together, changes)
    assert solver.solved_together == [2, 2]
    assert len(changes.notes) == 1
    assert "memory ran out over 4 subtasks" in changes.notes[0]
    assert not changes.divided
    assert result_bytes(solved) == result_bytes(solve_job(TASK, together))


def test_a_subtask_that_is_too_large_is_divided_until_it_fits(jobs, limit_entities):
    whole = Whole().divide(TASK).subtasks[0]
    job = replace(jobs[0], subtasks=(whole,))
    limit_entities(whole.size // 3)
    changes = Changes()
    (solved,) = solve_within_memory(TASK, job, changes)
    assert solved.matches.source.tolist() == whole.unmatched.tolist()
    assert np.isin(solved.matches.target[solved.matches.target >= 0], whole.candidates).all()
    assert solved.top_sums.shape == whole.candidates.shape
    assert any("divided further" in note for note in changes.notes)
    assert changes.divided
    assert result_bytes(solve_within_memory(TASK, job, changes)) == result_bytes([solved])


def test_a_job_fails_if_its_smallest_pieces_do_not_fit(jobs, limit_entities):
    limit_entities(0)
    with pytest.raises(MemoryError, match="no room for a subtask of"):
        solve_within_memory(TASK, jobs[0], Changes())


def test_a_model_that_allocates_too_much_is_given_smaller_tasks(jobs, odd):
    """The model allocates 64 GiB for a task of more than 60 entities."""
    changes = Changes()
    job = replace(odd(jobs[0], "runs-out", times=60), memory=LIMIT)
    (solved,) = solve_within_memory(TASK, job, changes)
    assert solved.matches.source.tolist() == jobs[0].subtasks[0].unmatched.tolist()
    assert "can't allocate memory" in changes.notes[0]


def test_a_result_says_whether_memory_ran_out_over_it(jobs, limit_entities):
    done = attempt(TASK, 3, jobs[0])
    assert isinstance(done, Done)
    assert not done.divided
    limit_entities(jobs[0].subtasks[0].size - 1)
    divided = attempt(TASK, 3, jobs[0])
    assert isinstance(divided, Done)
    assert divided.divided


def fail_with(error):
    def solve(task, job):
        raise error

    return solve


TORCH = "[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: can't allocate memory: 64 bytes"


@pytest.mark.parametrize(
    ("error", "limits", "kind", "reason"),
    [
        (ValueError("odd\nvalue\x1b"), {}, FailureKind.ERROR, "ValueError: odd value\\x1b"),
        (MemoryError(), {}, FailureKind.HOST_MEMORY, "MemoryError: no room for a subtask of"),
        (RuntimeError(TORCH), {}, FailureKind.HOST_MEMORY, "MemoryError: no room for a subtask of"),
        (MemoryError(), {"memory": LIMIT}, FailureKind.MEMORY_LIMIT, "MemoryError: no room for a subtask of"),
        (
            torch.cuda.OutOfMemoryError("no room"),
            {"device": "cuda"},
            FailureKind.GPU_MEMORY,
            "MemoryError: no room for a subtask of",
        ),
    ],
    ids=str,
)
def test_a_failure_says_its_kind_and_its_reason_in_one_line(jobs, monkeypatch, error, limits, kind, reason):
    monkeypatch.setattr(attempt_module, "solve_job", fail_with(error))
    monkeypatch.setattr(attempt_module, "release_memory", lambda device: None)
    failed = attempt(TASK, 3, replace(jobs[0], **limits))
    assert isinstance(failed, Failed)
    assert (failed.position, failed.kind) == (3, kind)
    assert failed.reason.startswith(reason)
    assert "\n" not in failed.reason
    assert "Traceback" in failed.log


def check_pieces(random_seed, entities, parts):
    task = planted_pair(entities, 4 * entities, 5, entities // 4, random_seed=random_seed).task
    size = 2 * entities if parts == 1 else int(1.4 * entities)
    subtask = DivEA(parts, size, DivisionSettings(delta1=0.5)).divide(task).subtasks[0]
    if subtask.size <= SMALLEST:
        return
    pieces = divide_further(task, subtask, random_seed)
    together = np.concatenate([piece.unmatched for piece in pieces])
    assert sorted(together.tolist()) == subtask.unmatched.tolist()
    for piece in pieces:
        assert piece.size <= subtask.size // 2
        assert np.isin(piece.source_entities, subtask.source_entities).all()
        assert np.isin(piece.target_entities, subtask.target_entities).all()
        assert np.isin(piece.candidates, subtask.candidates).all()
        assert not np.isin(piece.candidates, task.seeds.target).any()
        assert {*map(tuple, piece.seeds.pairs.tolist())} <= {*map(tuple, subtask.seeds.pairs.tolist())}


any_subtask = given(random_seed=st.integers(0, 9), entities=st.integers(40, 90), parts=st.integers(1, 3))


@settings(max_examples=5)
@any_subtask
def test_pieces_share_the_unmatched_entities(random_seed, entities, parts):
    check_pieces(random_seed, entities, parts)


@pytest.mark.slow
@settings(max_examples=60)
@any_subtask
def test_pieces_of_many_subtasks_share_the_unmatched_entities(random_seed, entities, parts):
    check_pieces(random_seed, entities, parts)
