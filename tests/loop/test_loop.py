"""The loop: which subtasks it wants solved, what it learns, and that it finds planted matches."""

import numpy as np
import pytest
import torch

from divea.config import Settings
from divea.division import DivEA, Subtask
from divea.evaluation import RankMetrics, coverage, listed_ranks
from divea.graphs import AlignmentTask, Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.loop.loop import Runtime, run_loop
from divea.loop.solve import solve, subtask_random_seed, with_pseudo_seeds
from divea.models import Model, make_model
from divea.types import Embeddings, Matches, Solved

SMALL = {"label-propagation": {"labels": 64, "heads": 32, "draft_heads": 16, "rounds": 2}}


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=900, random_seed=4))


def model_solver(settings):
    """A solver that runs the model of each iteration in this process."""

    def solver(work):
        return solve(
            make_model(settings.model_at(work.iteration)),
            work.task,
            work.subtasks,
            work.pseudo_seeds,
            random_seeds=[
                subtask_random_seed(settings.random_seed, work.iteration, subtask.index)
                for subtask in work.subtasks
            ],
            matching=settings.matching.method,
            top=settings.output.top,
            nearest=settings.division.nearest,
        )

    return solver


def align(task, settings, works=None, seen=None):
    """The outcome of the loop; `works` and `seen` collect what it wants solved and what it found."""
    solver = model_solver(settings)

    def watched(work):
        if works is not None:
            works.append(work)
        return solver(work)

    return run_loop(task, settings, Runtime(watched), seen.append if seen is not None else None)


@pytest.mark.parametrize("division", ["joint", "divea", "cps", "isbp", "random"])
def test_the_loop_aligns_with_every_division(pair, division):
    settings = Settings(
        subtasks=3, division={"name": division}, iterations=3, model=SMALL, matching={"average": 2}
    )
    works, seen = [], []
    outcome = align(pair.task, settings, works, seen)
    assert len(works) == len(seen) == 3
    assert np.array_equal(outcome.matches.source, pair.task.unmatched_source)
    assert len(works[0].pseudo_seeds) == 0
    assert len(works[2].pseudo_seeds) > 0
    # Seeds are held back from all iterations but the last.
    seeds = len(pair.task.seeds)
    assert [len(work.task.seeds) for work in works] == [round(0.9 * seeds), round(0.9 * seeds), seeds]
    assigned = outcome.assignment.target
    assert len(np.unique(assigned)) == len(assigned)
    assert not np.isin(assigned, pair.task.seeds.target).any()
    assert ((outcome.confidence >= 0) & (outcome.confidence <= 1) | np.isnan(outcome.confidence)).all()
    found = RankMetrics.of(listed_ranks(outcome.matches, pair.gold)).h1
    assert found > (0.1 if division == "random" else 0.4)


def test_later_iterations_improve_h1_and_coverage(pair):
    seen = []
    align(pair.task, Settings(subtasks=3, iterations=4, model=SMALL), seen=seen)
    h1 = [RankMetrics.of(listed_ranks(item.matches, pair.gold)).h1 for item in seen]
    covered = [coverage(item.division, pair.gold).share for item in seen]
    assert h1[-1] > h1[0] + 0.02
    assert covered[-1] > covered[0]


def test_the_same_settings_give_the_same_outcome(pair):
    settings = Settings(subtasks=3, iterations=2, model=SMALL)
    first, second = (align(pair.task, settings) for _ in range(2))
    for name in ("target", "score", "mutual"):
        assert np.array_equal(getattr(first.matches, name), getattr(second.matches, name))
    assert np.array_equal(first.confidence, second.confidence, equal_nan=True)
    assert np.array_equal(first.assignment.target, second.assignment.target)


def test_one_iteration_uses_all_seeds_and_calibrates_no_confidence(pair):
    works = []
    outcome = align(pair.task, Settings(subtasks=1, iterations=1, model=SMALL), works)
    assert len(works[0].task.seeds) == len(pair.task.seeds)
    assert np.isnan(outcome.confidence).all()


def test_the_last_model_starts_from_the_pseudo_seeds_of_the_first(pair):
    solved = []

    def solver(work):
        solved.append((settings.model_at(work.iteration).name, len(work.pseudo_seeds)))
        return [first_candidates(subtask) for subtask in work.subtasks]

    settings = Settings(subtasks=2, iterations=4, last_model={"name": "rrea", "iterations": 2})
    run_loop(pair.task, settings, Runtime(solver))
    assert [name for name, _ in solved] == ["label-propagation"] * 2 + ["rrea"] * 2
    assert [count > 0 for _, count in solved] == [False, True, True, True]


def first_candidates(subtask):
    """A result that matches the k-th unmatched entity with the k-th candidate, at a high score."""
    count = min(len(subtask.unmatched), len(subtask.candidates))
    target = np.full((len(subtask.unmatched), 1), -1, np.int32)
    target[:count, 0] = subtask.candidates[:count]
    matches = Matches(
        subtask.unmatched, target, np.where(target >= 0, 0.9, -np.inf).astype(np.float32), target[:, 0] >= 0
    )
    return Solved(matches, np.ones(len(subtask.candidates), np.float32))


def test_pseudo_seeds_inside_a_subtask_are_seeds_for_its_model(pair):
    task = pair.task
    subtask = DivEA(3, 700).divide(task).subtasks[1]
    inside = (subtask.unmatched[0], subtask.candidates[0])
    target_outside = np.setdiff1d(task.unmatched_target, subtask.target_entities)[0]
    pseudo_seeds = Links.from_pairs([inside, (subtask.unmatched[2], target_outside)])
    local = with_pseudo_seeds(subtask, task, pseudo_seeds)
    assert len(local.seeds) == len(subtask.seeds) + 1
    assert (
        np.searchsorted(subtask.source_entities, inside[0]),
        np.searchsorted(subtask.target_entities, inside[1]),
    ) in map(tuple, local.seeds.pairs)


def test_the_random_seed_of_a_subtask_depends_on_run_iteration_and_index():
    random_seeds = {subtask_random_seed(*numbers) for numbers in np.ndindex(4, 4, 4)}
    assert len(random_seeds) == 64


@pytest.mark.parametrize(("source_entities", "mutual"), [([1], True), ([0, 1], False)])
def test_context_entities_compete_for_candidates(pair, source_entities, mutual):
    """Entity 0 is nearer to the only candidate: as context it prevents a mutual match of entity 1."""
    task = AlignmentTask(pair.task.source, pair.task.source, Links.from_pairs([]))
    subtask = Subtask.of(
        0,
        task,
        source_entities=np.array(source_entities),
        target_entities=np.array([0]),
        unmatched=np.array([1]),
        candidates=np.array([0]),
    )

    class Fixed(Model):
        def embed(self, task, *, random_seed=0, device="cpu"):
            source = torch.tensor([[1.0, 0.0], [0.9, 0.2]])[source_entities]
            return Embeddings(source, torch.tensor([[1.0, 0.0]]))

    (solved,) = solve(Fixed(), task, [subtask], Links.from_pairs([]), random_seeds=[0], matching="cosine")
    assert solved.matches.source.tolist() == [1]
    assert solved.matches.best.tolist() == [0]
    assert solved.matches.mutual.tolist() == [mutual]
