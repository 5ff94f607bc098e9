"""Rejected pairs never come back: neither in ranked lists, nor assigned, nor as pseudo-seeds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from divea.config import Settings
from divea.errors import InputError
from divea.graphs import AlignmentTask, Links, load_task, save_task
from divea.graphs.planted import planted_pair
from divea.loop.confidence import folds, hold_back
from divea.loop.features import starting_pairs
from divea.loop.loop import Runtime, run_loop
from divea.matching import METHODS, match
from divea.models.losses import HardLoss, MarginLoss
from divea.models.stacking import StackedGraph
from divea.models.training import Draws
from divea.types import Embeddings
from tests.loop.small_loops import solver_of
from tests.runs.tiny import NAMED_PAIR, SETTINGS

PAIR = planted_pair(entities=60, seeds=15)
FREE = PAIR.gold.without(PAIR.task.seeds)
MODELS = {
    "label-propagation": {"labels": 32, "heads": 16, "draft_heads": 8, "rounds": 2},
    "rrea": {"steps": 4, "dimensions": 8},
    "dual-amn": {"steps": 3, "dimensions": 8},
    "gcn-align": {"steps": 3, "dimensions": 8},
}


@st.composite
def rejected_pairs(draw):
    """Some of the true pairs, which a run would find, and any others that are no seeds."""
    true = draw(st.lists(st.sampled_from(FREE.pairs.tolist()), max_size=20))
    ids = st.integers(0, 59)
    others = draw(st.lists(st.tuples(ids, ids), max_size=200))
    return Links.from_pairs([*map(tuple, true), *others]).without(PAIR.task.seeds)


def found(task, chosen):
    """The outcome of a loop, and the pseudo-seeds of all its iterations."""
    seen = []
    outcome = run_loop(task, chosen, Runtime(solver_of(chosen)), seen.append)
    return outcome, Links.from_pairs(np.concatenate([item.pseudo_seeds.pairs for item in seen]))


def listed(matches):
    row, place = np.nonzero(matches.target >= 0)
    return Links.from_pairs(np.stack([matches.source[row], matches.target[row, place]], axis=1))


@settings(max_examples=25, deadline=None)
@given(
    rejected=rejected_pairs(),
    model=st.sampled_from([*MODELS, "label-propagation+rrea"]),
    division=st.sampled_from(["joint", "divea", "cps", "whole"]),
    method=st.sampled_from(["sinkhorn", "csls", "cosine"]),
    one_to_one=st.booleans(),
)
def test_a_rejected_pair_is_never_found(rejected, model, division, method, one_to_one):
    options = {name: MODELS[name] for name in model.split("+")}
    chosen = Settings.checked(
        {
            "subtasks": 1 if division == "whole" else 2,
            "iterations": 2,
            "features": "none",
            "division": {"name": "joint" if division == "whole" else division},
            "model": {"name": model, **options},
            "matching": {"method": method, "threshold": -10},
            "output": {"top": 70, "one_to_one": one_to_one},
        },
        allow_unused=True,
    )
    outcome, pseudo_seeds = found(replace(PAIR.task, rejected=rejected), chosen)
    assert not len(listed(outcome.matches).intersection(rejected))
    assert not len(pseudo_seeds.intersection(rejected))
    given_out = Links(outcome.assignment.source, outcome.assignment.target)
    assert not len(given_out.intersection(rejected))
    # All other candidates are still there: nothing else is lost.
    if division == "whole":
        free = set(PAIR.task.unmatched_target.tolist())
        for row, source in enumerate(outcome.matches.source.tolist()):
            gone = set(rejected.target[rejected.source == source].tolist())
            assert set(outcome.matches.target[row][outcome.matches.target[row] >= 0].tolist()) == free - gone


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("memory", [1 << 30, 4 * 10 * 12], ids=["all at once", "a few rows at a time"])
def test_a_rejected_pair_has_no_score_and_others_keep_theirs(method, memory):
    """The oracle: a matrix in which the rejected pairs are minus infinity."""
    draw = torch.Generator().manual_seed(1)
    embeddings = Embeddings(*(torch.randn(12, 6, generator=draw) for _ in range(2)))
    rejected = Links.from_pairs([(2, 3), (2, 4), (9, 0), *((5, target) for target in range(12))])
    sources, candidates = [2, 5, 7, 9, 11], [0, 1, 3, 4, 6, 8, 9]
    kept = match(embeddings, sources, candidates, (), rejected, method=method, top=7, memory=memory)
    plain = match(embeddings, sources, candidates, method=method, top=7, memory=memory)
    for row, source in enumerate(sources):
        gone = set(rejected.target[rejected.source == source].tolist())
        expected = [target for target in plain.target[row].tolist() if target >= 0 and target not in gone]
        shown = kept.target[row][kept.target[row] >= 0].tolist()
        if method == "sinkhorn":
            assert sorted(shown) == sorted(expected)
        else:
            assert shown == expected
    assert np.isfinite(kept.score[kept.target >= 0]).all()
    assert np.isneginf(kept.score[kept.target < 0]).all()
    assert (kept.target[1] < 0).all() and not kept.mutual[1]


def test_sinkhorn_gives_the_share_of_a_rejected_pair_to_others():
    same = torch.eye(3)
    near = Embeddings(same, torch.nn.functional.normalize(same + 0.3, dim=1))
    before = match(near, [0, 1, 2], [0, 1, 2], method="sinkhorn", top=3)
    after = match(near, [0, 1, 2], [0, 1, 2], (), Links.from_pairs([(0, 0)]), method="sinkhorn", top=3)
    assert before.best.tolist() == [0, 1, 2]
    assert after.best[0] != 0
    assert after.score[0, 0] > 0.4


@pytest.mark.parametrize("method", METHODS)
def test_without_rejected_pairs_the_bytes_are_the_same(method):
    draw = torch.Generator().manual_seed(1)
    embeddings = Embeddings(*(torch.randn(40, 6, generator=draw) for _ in range(2)))
    ids = np.arange(40)
    one = match(embeddings, ids, ids, method=method)
    other = match(embeddings, ids, ids, (), Links.from_pairs([]), method=method)
    assert one.score.tobytes() == other.score.tobytes() and one.target.tobytes() == other.target.tobytes()


def test_features_do_not_start_from_a_rejected_pair():
    from divea.loop.features import HERE, LoopFeatures

    chosen = Settings.checked({**SETTINGS, "subtasks": 2})
    task, none = NAMED_PAIR.task, Links.from_pairs([])
    sure = starting_pairs(task, LoopFeatures(task, chosen, HERE).at(task, none, none))
    rejected = Links.from_pairs(sure.pairs[::2])
    task = replace(task, rejected=rejected)
    again = starting_pairs(task, LoopFeatures(task, chosen, HERE).at(task, none, none))
    assert len(rejected) > 20
    assert not len(again.intersection(rejected))
    assert len(again.intersection(sure)) >= len(sure) - len(rejected)
    outcome, pseudo_seeds = found(task, chosen)
    assert not len(listed(outcome.matches).intersection(rejected))
    assert not len(pseudo_seeds.intersection(rejected))


@pytest.mark.parametrize("loss", ["margin", "hard"])
def test_a_loss_pushes_the_ends_of_a_rejected_pair_apart(loss):
    rejected = Links.from_pairs(FREE.pairs[:3])
    tasks = [PAIR.task, replace(PAIR.task, rejected=rejected)]
    rows = torch.randn(120, 4, generator=torch.Generator().manual_seed(2)) / 100
    values, gradients = [], []
    for task in tasks:
        graph = StackedGraph([task])
        draws = Draws(graph, [0])
        own = rows.clone().requires_grad_()
        if loss == "hard":
            value = HardLoss(graph, 10, 3.0, 20.0, 1.0)(own, draws)
        else:
            margin = MarginLoss(graph, [30], 3.0)
            value = margin(own, *margin.draw(draws))
        value.backward()
        values.append(float(value.detach()))
        gradients.append(own.grad)
    assert values[1] > values[0] + 2
    source, target = rejected.source, rejected.target + 60
    changed = set(torch.nonzero((gradients[1] - gradients[0]).abs().sum(dim=1)).ravel().tolist())
    assert changed == {*source.tolist(), *target.tolist()}
    # A step against the gradient moves the ends apart.
    step = rows - 0.1 * (gradients[1] - gradients[0])
    assert ((step[source] - step[target]).norm(dim=1) > (rows[source] - rows[target]).norm(dim=1)).all()


def test_hidden_seeds_and_folders_keep_the_rejected_pairs(tmp_path):
    rejected = Links.from_pairs([(0, 1), (0, 2), (5, 2)]).without(PAIR.task.seeds)
    task = replace(PAIR.task, rejected=rejected)
    assert hold_back(task, 0.2)[0].rejected == rejected
    assert all(visible.rejected == rejected for visible, _ in folds(task, 3))
    save_task(task, tmp_path / "with")
    assert load_task(tmp_path / "with").rejected == rejected
    save_task(PAIR.task, tmp_path / "without")
    assert not (tmp_path / "without" / "rejected.npy").exists()
    assert len(load_task(tmp_path / "without").rejected) == 0


def test_a_task_refuses_rejected_seeds_and_unknown_ids(tmp_path):
    task = PAIR.task
    with pytest.raises(InputError, match="15 seeds are rejected pairs as well"):
        replace(task, rejected=task.seeds)
    with pytest.raises(InputError, match=r"a rejected pair's target id is outside 0\.\.59"):
        AlignmentTask(task.source, task.target, rejected=Links.from_pairs([(0, 60)]))
    save_task(replace(task, rejected=Links.from_pairs(FREE.pairs[:1])), tmp_path / "t")
    for pairs, message in (
        (np.array([[0, 60]], np.int32), r"rejected\.npy.*target entity"),
        (np.array([[0, -1]], np.int32), r"rejected\.npy.*target entity"),
        (np.array([[0, 1, 2]], np.int32), r"rejected\.npy"),
        (np.array([[0, 1]], np.int64), r"rejected\.npy"),
        (task.seeds.pairs, "seeds are rejected pairs"),
    ):
        np.save(tmp_path / "t" / "rejected.npy", pairs)
        with pytest.raises(InputError, match=message):
            load_task(tmp_path / "t")
