"""The contract of a model as an executable check, for the built-in models and for plug-ins."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.planted import PlantedPair, planted_pair
from divea.matching import match
from divea.models.base import Model
from divea.types import Embeddings

_RANDOM_SEED = 3


def check_model(model: Model, *, device: str = "cpu") -> None:
    """Raise AssertionError with a plain sentence if the model breaks the contract of models.

    A model that passes can be used in a run like the built-in ones:

    * It returns a finite vector for every entity of any task, even without seeds or without triples.
    * The same task and random seed give the same embeddings.
    * It finds a planted alignment.
    * It depends neither on the order of triples nor on the ids of entities.
    * It gives the same matches if tasks are embedded together.

    Examples
    --------
    >>> from divea.config import ModelSettings
    >>> from divea.models import make_model
    >>> check_model(make_model(ModelSettings(name="label-propagation")))
    """
    pair = planted_pair(random_seed=1)
    embeddings = model.embed(pair.task, random_seed=_RANDOM_SEED, device=device)
    _check_form(pair.task, embeddings, "a small task")
    _check_determinism(model, pair, embeddings, device)
    _check_learns(pair, embeddings)
    _check_order_of_triples(model, pair, embeddings, device)
    _check_other_ids(model, device)
    _check_unrelated_graphs(model, device)
    _check_edge_cases(model, pair, device)
    _check_stacking(model, pair, embeddings, device)


def _check_form(task: AlignmentTask, embeddings: Embeddings, what: str) -> None:
    """Both sides are finite floating-point matrices with a row per entity and equal columns."""
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


def _check_determinism(model: Model, pair: PlantedPair, embeddings: Embeddings, device: str) -> None:
    again = model.embed(pair.task, random_seed=_RANDOM_SEED, device=device)
    is_same = embeddings.source.equal(again.source) and embeddings.target.equal(again.target)
    assert is_same, (
        "the same task and random seed gave different embeddings: make all generators from the random seed"
    )


def _check_learns(pair: PlantedPair, embeddings: Embeddings) -> None:
    hits, chance = _hits_at_1(pair, embeddings), 1 / len(pair.gold)
    assert hits >= 0.5, (
        f"only {hits:.0%} of the planted alignment of two equal graphs is found (chance is {chance:.0%})"
    )


def _check_order_of_triples(model: Model, pair: PlantedPair, embeddings: Embeddings, device: str) -> None:
    """A source graph built from the same triples in reverse order gives the same embeddings."""
    source = pair.task.source
    labels, relations = source.label(np.arange(source.num_entities)), source.relations.to_pylist()
    reversed_source = KnowledgeGraph.from_triples(
        [(str(labels[h]), relations[r], str(labels[t])) for h, r, t in source.triples[::-1]],
        extra_entities=[str(label) for label in reversed(labels)],
    )
    task = replace(pair.task, source=reversed_source)
    again = model.embed(task, random_seed=_RANDOM_SEED, device=device)
    assert embeddings.source.equal(again.source), "the order of triples changed the embeddings"


def _check_other_ids(model: Model, device: str) -> None:
    """The same graphs under other labels, and so with other ids, are aligned as well."""
    renamed = planted_pair(random_seed=1, labels=1)
    hits = _hits_at_1(renamed, model.embed(renamed.task, random_seed=_RANDOM_SEED, device=device))
    assert hits >= 0.5, (
        f"with the entities under other ids only {hits:.0%} is found: the model uses the order of ids"
    )


def _check_unrelated_graphs(model: Model, device: str) -> None:
    """Entities with equal ids in two unrelated graphs are not matched."""
    source, target = planted_pair(random_seed=11).task.source, planted_pair(random_seed=12).task.target
    task = AlignmentTask(source, target)
    nearest = _nearest_targets(task, model.embed(task, random_seed=_RANDOM_SEED, device=device))
    same_id = float((nearest == np.arange(len(nearest))).mean())
    assert same_id <= 0.2, f"unrelated graphs without seeds: {same_id:.0%} match the entity of the same id"


def _check_edge_cases(model: Model, pair: PlantedPair, device: str) -> None:
    source, target = pair.task.source, pair.task.target
    isolated = KnowledgeGraph.from_triples([("a", "r", "a"), ("a", "r", "b")], extra_entities=["c", "d"])
    no_triples = KnowledgeGraph.from_triples([], extra_entities=["x", "y", "z"])
    one_seed = Links.from_pairs(pair.task.seeds.pairs[:1])
    first_entities = Links.from_pairs([(0, 0)])
    all_entities = Links.from_pairs([(i, i) for i in range(3)])
    cases = {
        "a task with one seed": AlignmentTask(source, target, one_seed),
        "a task without seeds": AlignmentTask(source, target),
        "isolated entities and a self-loop": AlignmentTask(isolated, target, first_entities),
        "a graph without triples": AlignmentTask(no_triples, target, first_entities),
        "two graphs without triples": AlignmentTask(no_triples, no_triples, first_entities),
        "a task with nothing left to match": AlignmentTask(no_triples, no_triples, all_entities),
    }
    for what, task in cases.items():
        try:
            embeddings = model.embed(task, random_seed=_RANDOM_SEED, device=device)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        _check_form(task, embeddings, what)


def _check_stacking(model: Model, pair: PlantedPair, embeddings: Embeddings, device: str) -> None:
    """Embedding tasks together is only a matter of speed and does not change their matches."""
    other = planted_pair(random_seed=2)
    without_seeds = AlignmentTask(pair.task.source, pair.task.target)
    together = model.embed_many(
        [pair.task, other.task, without_seeds], random_seeds=[_RANDOM_SEED, 4, 5], device=device
    )
    assert len(together) == 3, f"embed_many of 3 tasks gave {len(together)} results"
    alone, stacked = _nearest_targets(pair.task, embeddings), _nearest_targets(pair.task, together[0])
    agreement = float((alone == stacked).mean())
    assert agreement >= 0.9, (
        f"embedded together with other tasks, only {agreement:.0%} of the matches are the same"
    )


def _hits_at_1(pair: PlantedPair, embeddings: Embeddings) -> float:
    nearest = _nearest_targets(pair.task, embeddings)
    return float((nearest[pair.gold.source] == pair.gold.target).mean())


def _nearest_targets(task: AlignmentTask, embeddings: Embeddings) -> np.ndarray:
    """The nearest unmatched target of every unmatched source, -1 for anchors."""
    sources = task.unmatched_source
    nearest = np.full(task.source.num_entities, -1)
    nearest[sources] = match(embeddings, sources, task.unmatched_target, method="cosine", top=1).best
    return nearest
