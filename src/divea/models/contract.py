"""The promises of a model as executable checks, for ours and for anybody's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.models.interface import Model

if TYPE_CHECKING:
    from divea.matching import Embeddings

_ENTITIES, _TRIPLES, _RELATIONS, _SEEDS = 80, 400, 5, 24


def check_model(model: Model, *, device: str = "cpu") -> None:
    """Raise AssertionError with a plain sentence if the model breaks a promise.

    A model that passes can be named in a run, stacked, divided and resumed like the built-in
    ones: it is deterministic by seed, finite on anything that is a task, blind to the order of
    entities and statements, the same in company as alone, and it learns a planted alignment.
    """
    pair = _planted(seed=1)
    embeddings = model.embed(pair.task, seed=3, device=device)
    _check_shape(pair.task, embeddings, "a small task")
    _check_repeats(model, pair, embeddings, device)
    _check_learns(pair, embeddings)
    _check_order(model, pair, embeddings, device)
    _check_no_leak(model, device)
    _check_edge_cases(model, pair, device)
    _check_company(model, pair, embeddings, device)


@dataclass(frozen=True)
class _Pair:
    task: AlignmentTask
    gold: Links


def _planted(seed: int, labels: int = 0) -> _Pair:
    """Two copies of a random graph under unrelated labels; `labels` draws other labels for it."""
    rng = np.random.default_rng(seed)
    entity, relation = rng.integers(_ENTITIES, size=(2, _TRIPLES)), rng.integers(_RELATIONS, size=_TRIPLES)
    names = np.random.default_rng([seed, labels])
    sides = [[f"{side}{name}" for name in names.permutation(_ENTITIES)] for side in ("left", "right")]
    graphs = [
        KnowledgeGraph.from_triples(
            ((side[h], f"r{r}", side[t]) for h, r, t in zip(entity[0], relation, entity[1], strict=True)),
            extra_entities=side,
        )
        for side in sides
    ]
    seeds = Links.from_labels(sides[0][:_SEEDS], sides[1][:_SEEDS], *graphs)
    gold = Links.from_labels(sides[0][_SEEDS:], sides[1][_SEEDS:], *graphs)
    return _Pair(AlignmentTask(graphs[0], graphs[1], seeds), gold)


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


def _check_repeats(model: Model, pair: _Pair, embeddings: Embeddings, device: str) -> None:
    again = model.embed(pair.task, seed=3, device=device)
    same = embeddings.source.equal(again.source) and embeddings.target.equal(again.target)
    assert same, "the same task and seed gave other embeddings: draw from generators made of the seed"


def _hits(pair: _Pair, embeddings: Embeddings) -> float:
    best = _best(pair.task, embeddings)
    return float((best[pair.gold.source] == pair.gold.target).mean())


def _best(task: AlignmentTask, embeddings: Embeddings) -> np.ndarray:
    """The nearest unmatched target of every unmatched source, -1 for anchors."""
    from divea.matching import match

    sources = task.unmatched_source
    best = np.full(task.source.num_entities, -1)
    best[sources] = match(embeddings, sources, task.unmatched_target, method="cosine", top=1).best
    return best


def _check_learns(pair: _Pair, embeddings: Embeddings) -> None:
    hits, chance = _hits(pair, embeddings), 1 / len(pair.gold)
    assert hits >= 0.5, (
        f"of a planted alignment of two equal graphs only {hits:.0%} is found (chance is {chance:.0%})"
    )


def _check_order(model: Model, pair: _Pair, embeddings: Embeddings, device: str) -> None:
    """Statements in another order give the same bits; entities under other ids are still found."""
    source = pair.task.source
    labels, relations = source.label(np.arange(source.num_entities)), source.relations.to_pylist()
    backwards = KnowledgeGraph.from_triples(
        [(str(labels[h]), relations[r], str(labels[t])) for h, r, t in source.triples[::-1]],
        extra_entities=[str(label) for label in reversed(labels)],
    )
    again = model.embed(replace(pair.task, source=backwards), seed=3, device=device)
    assert embeddings.source.equal(again.source), "the order of statements changed the embeddings"
    renamed = _planted(seed=1, labels=1)
    hits = _hits(renamed, model.embed(renamed.task, seed=3, device=device))
    assert hits >= 0.5, f"with the entities under other ids only {hits:.0%} is found: order is used"


def _check_no_leak(model: Model, device: str) -> None:
    """Nothing ties these two graphs together, so equal ids must not find each other."""
    left, right = _planted(seed=11).task.source, _planted(seed=12).task.target
    task = AlignmentTask(left, right)
    best = _best(task, model.embed(task, seed=3, device=device))
    same = float((best == np.arange(len(best))).mean())
    assert same <= 0.2, f"unrelated graphs without seeds: {same:.0%} match the entity of the same id"


def _check_edge_cases(model: Model, pair: _Pair, device: str) -> None:
    source, target = pair.task.source, pair.task.target
    lonely = KnowledgeGraph.from_triples([("a", "r", "a"), ("a", "r", "b")], extra_entities=["c", "d"])
    bare = KnowledgeGraph.from_triples([], extra_entities=["x", "y", "z"])
    one = Links.from_pairs(pair.task.seeds.pairs[:1])
    every = Links.from_pairs([(i, i) for i in range(3)])
    cases = {
        "a task with one seed": AlignmentTask(source, target, one),
        "a task without seeds": AlignmentTask(source, target),
        "isolated entities and a self-loop": AlignmentTask(lonely, target, Links.from_pairs([(0, 0)])),
        "a graph without statements": AlignmentTask(bare, target, Links.from_pairs([(0, 0)])),
        "two graphs without statements": AlignmentTask(bare, bare, Links.from_pairs([(0, 0)])),
        "a task with nothing left to match": AlignmentTask(bare, bare, every),
    }
    for what, task in cases.items():
        try:
            embeddings = model.embed(task, seed=3, device=device)
        except Exception as error:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        _check_shape(task, embeddings, what)


def _check_company(model: Model, pair: _Pair, embeddings: Embeddings, device: str) -> None:
    """Many at once is a matter of speed: it must not change who is matched with whom."""
    other = _planted(seed=2)
    bare = AlignmentTask(pair.task.source, pair.task.target)
    together = model.embed_many([pair.task, other.task, bare], seeds=[3, 4, 5], device=device)
    assert len(together) == 3, f"embed_many of 3 tasks gave {len(together)} results"
    alone, stacked = _best(pair.task, embeddings), _best(pair.task, together[0])
    agree = float((alone == stacked).mean())
    assert agree >= 0.9, f"embedded together with other tasks, only {agree:.0%} of the matches are the same"
