"""The loop: what it asks to be solved, what it learns, and that it finds planted matches."""

import numpy as np
import pytest
import torch

from divea.alignment.loop import run_loop
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved, seed_of, solve, with_pseudo_seeds
from divea.division import Subtask, division_strategy
from divea.evaluation import RankMetrics, coverage, listed_ranks
from divea.graphs import AlignmentTask, Links
from divea.graphs.synth import SynthConfig, synthesise
from divea.matching import Embeddings, Matches
from divea.models import Model
from divea.models.resolver import resolve_model

SMALL = {"labels": 64, "heads": 32, "draft_heads": 16, "rounds": 2}


@pytest.fixture(scope="module")
def pair():
    return synthesise(SynthConfig(entities=900, seed=4))


def model_solver(settings):
    def solver(work):
        name, options = settings.model_at(work.iteration)
        seeds = [seed_of(settings.seed, work.iteration, subtask.index) for subtask in work.subtasks]
        return solve(
            resolve_model(name, **options),
            work.task,
            work.subtasks,
            work.pseudo_seeds,
            seeds=seeds,
            matching=settings.matching,
            top=settings.top,
            nearest=settings.nearest,
        )

    return solver


def align(task, settings, works=None, seen=None):
    solver = model_solver(settings)

    def watched(work):
        if works is not None:
            works.append(work)
        return solver(work)

    return run_loop(task, settings, watched, seen.append if seen is not None else None)


@pytest.mark.parametrize("division", ["joint", "divea", "cps", "isbp", "random"])
@pytest.mark.parametrize("supervised", [True, False])
def test_every_division_runs_supervised_and_semi_supervised(pair, division, supervised):
    settings = Settings(
        subtasks=3, division=division, iterations=3, supervised=supervised, model_options=SMALL, average=2
    )
    works, seen = [], []
    outcome = align(pair.task, settings, works, seen)
    assert len(works) == len(seen) == 3
    assert np.array_equal(outcome.matches.source, pair.task.unmatched_source)
    assert len(works[0].pseudo_seeds) == 0
    assert (len(works[2].pseudo_seeds) > 0) != supervised
    # Seeds are held back from all iterations but the last.
    assert [len(work.task.seeds) for work in works] == [round(0.9 * len(pair.task.seeds))] * 2 + [
        len(pair.task.seeds)
    ]
    given = outcome.assigned[outcome.assigned >= 0]
    assert len(np.unique(given)) == len(given)
    assert not np.isin(given, pair.task.seeds.target).any()
    assert ((outcome.confidence >= 0) & (outcome.confidence <= 1) | np.isnan(outcome.confidence)).all()
    found = RankMetrics.of(listed_ranks(outcome.matches, pair.gold)).h1
    assert found > (0.1 if division == "random" else 0.4)


def test_iterations_pay(pair):
    seen = []
    settings = Settings(subtasks=3, iterations=4, model_options=SMALL)
    align(pair.task, settings, seen=seen)
    h1 = [RankMetrics.of(listed_ranks(item.matches, pair.gold)).h1 for item in seen]
    covered = [coverage(item.division, pair.gold).share for item in seen]
    assert h1[-1] > h1[0] + 0.02
    assert covered[-1] > covered[0]


def test_the_same_run_gives_the_same_outcome(pair):
    settings = Settings(subtasks=3, iterations=2, model_options=SMALL)
    first, second = (align(pair.task, settings) for _ in range(2))
    for name in ("target", "score", "mutual"):
        assert np.array_equal(getattr(first.matches, name), getattr(second.matches, name))
    assert np.array_equal(first.confidence, second.confidence, equal_nan=True)
    assert np.array_equal(first.assigned, second.assigned)


def test_one_iteration_has_no_calibration_and_all_seeds(pair):
    works = []
    outcome = align(pair.task, Settings(iterations=1, model_options=SMALL), works)
    assert len(works[0].task.seeds) == len(pair.task.seeds)
    assert np.isnan(outcome.confidence).all()


def test_the_last_model_learns_from_the_first(pair):
    asked = []

    def solver(work):
        asked.append((settings.model_at(work.iteration)[0], len(work.pseudo_seeds)))
        return [_first_choice(subtask) for subtask in work.subtasks]

    settings = Settings(subtasks=2, iterations=4, last_model="rrea", last_iterations=2)
    run_loop(pair.task, settings, solver)
    assert [name for name, _ in asked] == ["label-propagation"] * 2 + ["rrea"] * 2
    assert [count > 0 for _, count in asked] == [False, True, True, True]


def _first_choice(subtask):
    """Matches the k-th unmatched entity with the k-th candidate, surely."""
    count = min(len(subtask.unmatched), len(subtask.candidates))
    target = np.full((len(subtask.unmatched), 1), -1, np.int32)
    target[:count, 0] = subtask.candidates[:count]
    matches = Matches(
        subtask.unmatched, target, np.where(target >= 0, 0.9, -np.inf).astype(np.float32), target[:, 0] >= 0
    )
    return Solved(matches, np.ones(len(subtask.candidates), np.float32))


def test_pseudo_seeds_inside_a_subtask_are_seeds_to_its_model(pair):
    task = pair.task
    subtask = division_strategy("divea", 3, 700).divide(task).subtasks[1]
    pseudo = [(subtask.unmatched[0], subtask.candidates[0]), (subtask.unmatched[1], task.seeds.target[0])]
    outside = np.setdiff1d(task.unmatched_target, subtask.target_entities)[0]
    pseudo.append((subtask.unmatched[2], outside))
    local = with_pseudo_seeds(subtask, task, Links.from_pairs(pseudo[:1] + pseudo[2:]))
    assert len(local.seeds) == len(subtask.seeds) + 1
    assert (
        np.searchsorted(subtask.source_entities, pseudo[0][0]),
        np.searchsorted(subtask.target_entities, pseudo[0][1]),
    ) in map(tuple, local.seeds.pairs)


def test_the_seed_of_a_subtask_depends_on_all_that_names_it():
    seeds = {seed_of(*names) for names in np.ndindex(4, 4, 4)}
    assert len(seeds) == 64


@pytest.mark.parametrize(("inside", "mutual"), [([1], True), ([0, 1], False)])
def test_context_entities_compete_for_candidates(pair, inside, mutual):
    """A member's best candidate is nearer to another source: no mutual match where that one is context."""
    task = AlignmentTask(pair.task.source, pair.task.source, Links.from_pairs([]))
    subtask = Subtask.of(
        0,
        task,
        source_entities=np.array(inside),
        target_entities=np.array([0]),
        unmatched=np.array([1]),
        candidates=np.array([0]),
    )

    class Fixed(Model):
        def embed(self, task, *, seed=0, device="cpu"):
            return Embeddings(torch.tensor([[1.0, 0.0], [0.9, 0.2]])[inside], torch.tensor([[1.0, 0.0]]))

    (solved,) = solve(Fixed(), task, [subtask], Links.from_pairs([]), seeds=[0], matching="cosine")
    assert solved.matches.source.tolist() == [1]
    assert solved.matches.best.tolist() == [0]
    assert solved.matches.mutual.tolist() == [mutual]
