"""The contract of a model as an executable check, for the built-in ones and for plug-ins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.planted import PlantedPair, planted_pair
from divea.matching import match
from divea.models.base import Model
from divea.types import Embeddings


def check_model(model: Model, *, device: str = "cpu") -> None:
    """Raise AssertionError with a plain sentence if the model breaks its contract.

    A model that passes can be used in a run like the built-in ones. It is deterministic given a random seed
    and returns finite embeddings for every task. It does not depend on the order of entities or triples,
    nor on the tasks that it is stacked with. And it learns a planted alignment.

    >>> from divea.config import ModelSettings
    >>> from divea.models import make_model
    >>> check_model(make_model(ModelSettings(name="label-propagation")))
    """
    pair = planted_pair(random_seed=1)
    embeddings = model.embed(pair.task, random_seed=3, device=device)
    _check_shape(pair.task, embeddings, "a small task")
    _check_repeats(model, pair, embeddings, device)
    _check_learns(pair, embeddings)
    _check_order(model, pair, embeddings, device)
    _check_no_leak(model, device)
    _check_edge_cases(model, pair, device)
    _check_stacking(model, pair, embeddings, device)


def _check_shape(task: AlignmentTask, embeddings: Embeddings, what: str) -> None:
    for side, rows, graph in (
        ("source", embeddings.source, task.source),
        ("target", embeddings.target, task.target),
    ):
        assert rows.ndim == 2 and len(rows) == graph.num_entities, (
            f"{what}: the {side} has {graph.num_entities} entities, its embeddings are {tuple(rows.shape)}"
        )
        assert rows.is_floating_point(), f"{what}: {side} embeddings are {rows.dtype}, not floating point"
        assert bool(rows.isfinite().all()), f"{what}: {side} embeddings are not all finite"
        assert not rows.requires_grad, f"{what}: {side} embeddings still carry a gradient"
    assert embeddings.source.shape[1] == embeddings.target.shape[1], f"{what}: sides differ in dimensions"
    assert embeddings.source.device == embeddings.target.device, f"{what}: sides are on different devices"


def _check_repeats(model: Model, pair: PlantedPair, embeddings: Embeddings, device: str) -> None:
    again = model.embed(pair.task, random_seed=3, device=device)
    same = embeddings.source.equal(again.source) and embeddings.target.equal(again.target)
    assert same, (
        "the same task and random seed gave different embeddings: make all generators from the random seed"
    )


def _hits(pair: PlantedPair, embeddings: Embeddings) -> float:
    best = _best(pair.task, embeddings)
    return float((best[pair.gold.source] == pair.gold.target).mean())


def _best(task: AlignmentTask, embeddings: Embeddings) -> np.ndarray:
    """The nearest unmatched target of every unmatched source, -1 for anchors."""
    sources = task.unmatched_source
    best = np.full(task.source.num_entities, -1)
    best[sources] = match(embeddings, sources, task.unmatched_target, method="cosine", top=1).best
    return best


def _check_learns(pair: PlantedPair, embeddings: Embeddings) -> None:
    hits, chance = _hits(pair, embeddings), 1 / len(pair.gold)
    assert hits >= 0.5, (
        f"only {hits:.0%} of the planted alignment of two equal graphs is found (chance is {chance:.0%})"
    )


def _check_order(model: Model, pair: PlantedPair, embeddings: Embeddings, device: str) -> None:
    """Triples in another order give the same bits; entities under other ids are still found."""
    source = pair.task.source
    labels, relations = source.label(np.arange(source.num_entities)), source.relations.to_pylist()
    backwards = KnowledgeGraph.from_triples(
        [(str(labels[h]), relations[r], str(labels[t])) for h, r, t in source.triples[::-1]],
        extra_entities=[str(label) for label in reversed(labels)],
    )
    again = model.embed(replace(pair.task, source=backwards), random_seed=3, device=device)
    assert embeddings.source.equal(again.source), "the order of triples changed the embeddings"
    renamed = planted_pair(random_seed=1, labels=1)
    hits = _hits(renamed, model.embed(renamed.task, random_seed=3, device=device))
    assert hits >= 0.5, (
        f"with the entities under other ids only {hits:.0%} is found: the model uses the order of ids"
    )


def _check_no_leak(model: Model, device: str) -> None:
    """Nothing connects these two graphs, so entities of equal id must not be matched."""
    left, right = planted_pair(random_seed=11).task.source, planted_pair(random_seed=12).task.target
    task = AlignmentTask(left, right)
    best = _best(task, model.embed(task, random_seed=3, device=device))
    same = float((best == np.arange(len(best))).mean())
    assert same <= 0.2, f"unrelated graphs without seeds: {same:.0%} match the entity of the same id"


def _check_edge_cases(model: Model, pair: PlantedPair, device: str) -> None:
    source, target = pair.task.source, pair.task.target
    lonely = KnowledgeGraph.from_triples([("a", "r", "a"), ("a", "r", "b")], extra_entities=["c", "d"])
    bare = KnowledgeGraph.from_triples([], extra_entities=["x", "y", "z"])
    one = Links.from_pairs(pair.task.seeds.pairs[:1])
    every = Links.from_pairs([(i, i) for i in range(3)])
    cases = {
        "a task with one seed": AlignmentTask(source, target, one),
        "a task without seeds": AlignmentTask(source, target),
        "isolated entities and a self-loop": AlignmentTask(lonely, target, Links.from_pairs([(0, 0)])),
        "a graph without triples": AlignmentTask(bare, target, Links.from_pairs([(0, 0)])),
        "two graphs without triples": AlignmentTask(bare, bare, Links.from_pairs([(0, 0)])),
        "a task with nothing left to match": AlignmentTask(bare, bare, every),
    }
    for what, task in cases.items():
        try:
            embeddings = model.embed(task, random_seed=3, device=device)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        _check_shape(task, embeddings, what)


def _check_stacking(model: Model, pair: PlantedPair, embeddings: Embeddings, device: str) -> None:
    """Stacking tasks is a matter of speed and must not change their matches."""
    other = planted_pair(random_seed=2)
    bare = AlignmentTask(pair.task.source, pair.task.target)
    together = model.embed_many([pair.task, other.task, bare], random_seeds=[3, 4, 5], device=device)
    assert len(together) == 3, f"embed_many of 3 tasks gave {len(together)} results"
    alone, stacked = _best(pair.task, embeddings), _best(pair.task, together[0])
    agree = float((alone == stacked).mean())
    assert agree >= 0.9, f"embedded together with other tasks, only {agree:.0%} of the matches are the same"
