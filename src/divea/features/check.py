"""The contract of a feature as an executable check, for the built-in features and for plug-ins."""

from __future__ import annotations

import tracemalloc
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import cycle, islice

import numpy as np
from scipy.sparse import csr_array

from divea.features.base import Feature
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.builder import GraphBuilder
from divea.graphs.features import EntityVectors, FeatureRows, PairScores
from divea.graphs.labels import as_labels
from divea.io import checksum
from divea.types import Ids

LARGEST_SCORE = 10.0
"""The largest absolute score of a pair; the similarity of a model is at most 1."""

MOST_CHANGE = 0.3
"""How much the scores of an entity may change if entities have other ids, as a share of the largest score.
Random projections and samples of known pairs depend on ids, and change scores a little."""

_RANDOM_SEED = 3
_SMALL = 100, 120
_LARGE = 3000
_KNOWN = 40
_NO_PAIRS = Links.from_pairs([])

_SYLLABLES = ("ka", "lo", "mi", "ren", "sta", "vor", "dul", "ek", "pan", "tis", "gro", "wy")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_PROPERTIES = (
    ("http://www.w3.org/2000/01/rdf-schema#label", "code", "founded", "region"),
    ("http://schema.org/name", "identifier", "date", "area"),
)
"""The properties of the source and the target: name, unique code, date and category."""
_KINDS = ("@en", "", f"{_XSD}date", "")
_ODD_TEXTS = (
    "",
    " ",
    "\u200b",
    "東京",
    "Ωμέγα",
    "🙂",
    "-",
    "1",
    "e\u0301",
    "NaN",
    "1e999",
    "x" * 3000,
    "a\tb\nc",
)
_ODD_DATES = ("2020-13-45", "-0044-03-15", "0000", "20200101", "yesterday")


@dataclass(frozen=True)
class CheckedTask:
    """A task of `checked_tasks`."""

    task: AlignmentTask
    """It has no seeds."""
    known: Links
    """The known pairs that the feature is given."""
    source_ids: Ids
    """The id of each source entity, in an order that does not depend on labels."""
    target_ids: Ids
    """The same for target entities: the first ones are the counterparts of the source entities."""


def check_feature(feature: Feature, device: str = "cpu") -> None:
    """Raise AssertionError with a plain sentence if the feature breaks the contract of features.

    A feature that passes can be used in a run like the built-in ones:

    * For any task it returns finite scores or vectors for all entities, or None. That includes graphs
      without literals, without triples or of one entity, and tasks without known pairs.
    * The same task, known pairs and random seed give the same result, whatever was computed before.
    * It uses known pairs only if `uses_known_pairs` is True, and never the seeds of the task.
    * It depends neither on the order of the input nor on the ids of entities.
    * It changes neither its arguments nor earlier results.
    * It never keeps a number for every pair of entities. Only memory of Python and numpy is counted.

    Parameters
    ----------
    feature
        A feature that has not computed anything yet. Each task is computed with a copy of it, so it may keep
        what it has read from the graphs of one task. A feature that reads data of its own, such as vectors in
        a file, needs data for the entities of `checked_tasks`.

    Examples
    --------
    >>> from divea.features.names import Names
    >>> check_feature(Names())
    """
    name = getattr(feature, "name", "")
    assert name and "+" not in name, f"the name of a feature must not be empty or contain +, found {name!r}"
    tasks = checked_tasks()
    pair = tasks.pop("a pair")
    whole = _check_repeated_calls(feature, pair, device)
    _check_slices(whole)
    _check_seeds(feature, pair, whole, device)
    results = {
        what: _computed(feature, case, device, what)
        for what, case in tasks.items()
        if len(case.source_ids) <= _SMALL[0]
    }
    _check_order_of_input(whole, results["a pair from reversed input"])
    _check_other_ids(whole, pair, results["a pair under other labels"], tasks["a pair under other labels"])
    _check_unrelated_graphs(results["unrelated graphs"])
    _check_memory(feature, tasks["a pair half as large"], tasks["a large pair"], device)


def checked_tasks() -> dict[str, CheckedTask]:
    """The tasks that `check_feature` uses, by what is special about them.

    Entities have names, codes, dates and categories as literals. The label of an entity is `left` or
    `right`, a letter and a number; equal numbers are counterparts.

    >>> sorted(checked_tasks())[:3]
    ['a graph of one entity', 'a graph without literals', 'a graph without triples']
    """
    pair = _pair()
    other = _pair(random_seed=2)
    bare, isolated = _pair(literals="none"), _pair(has_triples=False)
    one = _pair(sizes=(1, 1), known=0)
    everything = Links.from_pairs(np.stack([pair.source_ids, pair.target_ids[: _SMALL[0]]], axis=1))
    return {
        "a pair": pair,
        "a pair from reversed input": _pair(is_reversed=True),
        "a pair under other labels": _pair(labels="b"),
        "unrelated graphs": _pair_of(pair, other),
        "no known pairs": replace(pair, known=_NO_PAIRS),
        "one known pair": _pair(known=1),
        "a task in which all pairs are known": replace(pair, known=everything),
        "a graph without literals": _pair_of(bare, pair),
        "two graphs without literals": bare,
        "two graphs without literals and known pairs": replace(bare, known=_NO_PAIRS),
        "a graph without triples": _pair_of(pair, isolated),
        "two graphs without triples": isolated,
        "graphs of one entity": one,
        "graphs of one entity, which is known": _pair(sizes=(1, 1), known=1),
        "a graph of one entity": _pair(sizes=(1, _SMALL[1]), known=1),
        "odd literals": _pair(literals="odd"),
        "a large pair": _pair(sizes=(_LARGE, _LARGE), known=_LARGE // 6),
        "a pair half as large": _pair(sizes=(_LARGE // 2, _LARGE // 2), known=_LARGE // 12),
    }


def _pair(
    *,
    sizes: tuple[int, int] = _SMALL,
    random_seed: int = 1,
    labels: str = "a",
    known: int = _KNOWN,
    literals: str = "plain",
    has_triples: bool = True,
    is_reversed: bool = False,
) -> CheckedTask:
    """Two graphs about the same random world.

    Parameters
    ----------
    sizes
        The entities of the source and of the target; the first ones are counterparts.
    labels
        Part of every label: other labels mean other ids.
    known
        The number of known pairs.
    literals
        "plain", "odd" or "none".
    is_reversed
        Whether the graphs are built from their triples, literals and entities in reversed order.
    """
    rng = np.random.default_rng([random_seed, max(sizes)])
    heads, tails = rng.integers(max(sizes), size=(2, 5 * max(sizes)))
    relations = rng.integers(5, size=len(heads))
    columns = _odd_literals(max(sizes)) if literals == "odd" else _plain_literals(max(sizes), rng)
    graphs, ids = [], []
    for side, prefix in enumerate(("left", "right")):
        names = [f"{prefix}{labels}{number}" for number in range(sizes[side])]
        triples = [
            (names[h], f"{prefix} {r}", names[t])
            for h, r, t in zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
            if has_triples and h < len(names) and t < len(names)
        ]
        rows = [
            (name, predicate, column[number], kind)
            for column, predicate, kind in zip(columns, _PROPERTIES[side], _KINDS, strict=True)
            for number, name in enumerate(names)
            if literals != "none"
        ]
        step = -1 if is_reversed else 1
        graphs.append(_graph(names[::step], triples[::step], rows[::step]))
        ids.append(graphs[-1].find(names))
    pairs = Links.from_pairs(np.stack([ids[0][:known], ids[1][:known]], axis=1))
    return CheckedTask(AlignmentTask(graphs[0], graphs[1]), pairs, *ids)


def _graph(
    names: list[str], triples: list[tuple[str, str, str]], literals: list[tuple[str, str, str, str]]
) -> KnowledgeGraph:
    builder = GraphBuilder()
    builder.add_entities(as_labels(names))
    if triples:
        heads, relations, tails = map(as_labels, zip(*triples, strict=True))
        builder.add_triples(heads, relations, tails)
    if literals:
        subjects, predicates, values, kinds = map(as_labels, zip(*literals, strict=True))
        builder.add_attributes(subjects, predicates, values, kinds)
    return builder.build()


def _plain_literals(entities: int, rng: np.random.Generator) -> list[list[str]]:
    """Names, codes, dates and categories of this many entities."""
    syllables = np.array(_SYLLABLES)[rng.integers(len(_SYLLABLES), size=(entities, 6))].tolist()
    names = [f"{''.join(some[:3])} {''.join(some[3:])}".title() for some in syllables]
    codes = [f"{number:07d}" for number in rng.integers(10**7, size=entities).tolist()]
    days = np.datetime64("1900-01-01") + rng.integers(40_000, size=entities)
    categories = rng.integers(8, size=entities)
    return [names, codes, days.astype(str).tolist(), [_SYLLABLES[number] for number in categories.tolist()]]


def _odd_literals(entities: int) -> list[list[str]]:
    texts = list(islice(cycle(_ODD_TEXTS), entities + 3))
    dates = list(islice(cycle(_ODD_DATES), entities))
    return [texts[:entities], texts[1 : entities + 1], dates, texts[3:]]


def _pair_of(first: CheckedTask, second: CheckedTask) -> CheckedTask:
    """The source of one pair and the target of another one, with the known pairs of the first."""
    task = AlignmentTask(first.task.source, second.task.target)
    return CheckedTask(task, first.known, first.source_ids, second.target_ids)


def _computed(feature: Feature, case: CheckedTask, device: str, what: str) -> FeatureRows | None:
    """The result of a fresh copy of the feature, checked for its form."""
    return _call(deepcopy(feature), case, device, what)


def _call(feature: Feature, case: CheckedTask, device: str, what: str) -> FeatureRows | None:
    try:
        rows = feature.compute(case.task, case.known, random_seed=_RANDOM_SEED, device=device)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    if rows is not None:
        _check_form(rows, feature, case.task, what)
    return rows


def _check_form(rows: FeatureRows, feature: Feature, task: AlignmentTask, what: str) -> None:
    """The result is of one of the two types, has a row for each entity in order, and finite numbers."""
    assert isinstance(rows, PairScores | EntityVectors), (
        f"{what}: the result is of type {type(rows).__name__}, not PairScores, EntityVectors or None"
    )
    assert rows.name == feature.name, (
        f"{what}: the result is named {rows.name!r}, the feature {feature.name!r}"
    )
    for side, ids, graph in (
        ("source", rows.source_ids, task.source),
        ("target", rows.target_ids, task.target),
    ):
        assert isinstance(ids, np.ndarray) and ids.dtype == np.int32, f"{what}: {side} ids are not int32"
        assert (np.diff(ids) > 0).all(), f"{what}: {side} ids are not in ascending order"
        assert np.array_equal(ids, np.arange(graph.num_entities)), (
            f"{what}: the {side} has {graph.num_entities} entities, the result has {len(ids)} of them"
        )
    if isinstance(rows, PairScores):
        _check_scores(rows.scores, (task.source.num_entities, task.target.num_entities), what)
    else:
        _check_vectors(rows, what)


def _check_scores(scores: csr_array, shape: tuple[int, int], what: str) -> None:
    assert isinstance(scores, csr_array), f"{what}: scores are of type {type(scores).__name__}, not csr_array"
    assert scores.shape == shape, f"{what}: the graphs have {shape} entities, scores are {scores.shape}"
    assert scores.dtype == np.float32, f"{what}: scores are {scores.dtype}, not float32"
    assert _has_sorted_columns(scores), (
        f"{what}: the columns of a row are not in ascending order and distinct"
    )
    assert np.isfinite(scores.data).all(), f"{what}: scores are not all finite"
    largest = float(np.abs(scores.data).max(initial=0))
    assert largest <= LARGEST_SCORE, (
        f"{what}: a score is {largest:g}; scores are from {-LARGEST_SCORE:g} to {LARGEST_SCORE:g}"
    )


def _has_sorted_columns(scores: csr_array) -> bool:
    """Like `has_canonical_format`, which is only a flag that whoever makes a matrix can set."""
    ascends = np.diff(scores.indices) > 0
    starts = scores.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < scores.nnz)] - 1] = True
    return bool(ascends.all())


def _check_vectors(rows: EntityVectors, what: str) -> None:
    for side, vectors, ids in (
        ("source", rows.source, rows.source_ids),
        ("target", rows.target, rows.target_ids),
    ):
        assert vectors.ndim == 2 and len(vectors) == len(ids), (
            f"{what}: the {side} has {len(ids)} entities, its vectors are {vectors.shape}"
        )
        assert vectors.dtype in (np.float16, np.float32), (
            f"{what}: {side} vectors are {vectors.dtype}, not float16 or float32"
        )
        assert np.isfinite(vectors).all(), f"{what}: {side} vectors are not all finite"
    assert rows.source.shape[1] == rows.target.shape[1], f"{what}: sides differ in dimensions"


def _check_repeated_calls(feature: Feature, pair: CheckedTask, device: str) -> FeatureRows:
    """The result of a pair, after calls that must not change it."""
    without = replace(pair, known=_NO_PAIRS)
    used = deepcopy(feature)
    before = _fingerprint(pair)
    whole = _call(used, pair, device, "a pair")
    assert whole is not None, (
        "the result is None for two graphs with triples, names and attribute values, and known pairs"
    )
    assert _fingerprint(pair) == before, "the feature changed the graphs or the known pairs that it was given"
    assert _is_same(whole, _computed(feature, pair, device, "a pair")), (
        "the same task, known pairs and random seed gave different results: make all generators from the "
        "random seed"
    )
    content = checksum(*whole.arrays)
    result_without = _call(used, without, device, "no known pairs")
    assert checksum(*whole.arrays) == content, "a later call changed an earlier result"
    depends_on_calls = "the result depends on what was computed before: known pairs must not be remembered"
    assert _is_same(result_without, _computed(feature, without, device, "no known pairs")), depends_on_calls
    assert _is_same(whole, _call(used, pair, device, "a pair")), depends_on_calls
    assert feature.uses_known_pairs or _is_same(whole, result_without), (
        "the feature uses the known pairs, but `uses_known_pairs` is False"
    )
    return whole


def _fingerprint(case: CheckedTask) -> str:
    """A checksum of the arrays that a feature could change."""
    parts = [case.known.source, case.known.target]
    for graph in (case.task.source, case.task.target):
        parts.append(graph.triples)
        if graph.attributes is not None:
            parts += [graph.attributes.entities, graph.attributes.predicates]
    return checksum(*parts)


def _is_same(first: FeatureRows | None, second: FeatureRows | None) -> bool:
    if first is None or second is None:
        return first is second
    both = zip(first.arrays, second.arrays, strict=True)
    return type(first) is type(second) and all(
        one.dtype == other.dtype and np.array_equal(one, other) for one, other in both
    )


def _check_slices(whole: FeatureRows) -> None:
    """The features of some entities are cut from those of all."""
    source, target = whole.source_ids[::3].copy(), whole.target_ids[1::2].copy()
    part = whole.take(source, target)
    expected = _similarity(whole)[np.ix_(source, target)]
    is_cut = np.array_equal(part.source_ids, source) and np.array_equal(part.target_ids, target)
    assert is_cut and np.allclose(_similarity(part), expected, atol=1e-6), (
        "`take` of some entities gives other scores than the whole"
    )
    # The first two arrays are ids.
    shares = any(np.shares_memory(one, other) for one in part.arrays[2:] for other in whole.arrays[2:])
    assert not shares, "`take` returns views of the whole, which would be kept in memory with every part"


def _similarity(rows: FeatureRows) -> np.ndarray:
    """The scores of all pairs."""
    if isinstance(rows, PairScores):
        return np.asarray(rows.scores.toarray(), dtype=np.float64)
    source, target = (side.astype(np.float64) for side in (rows.source, rows.target))
    source, target = (
        side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-12) for side in (source, target)
    )
    return np.asarray(source @ target.T)


def _check_seeds(feature: Feature, pair: CheckedTask, whole: FeatureRows, device: str) -> None:
    """Seeds that are not among the known pairs change nothing: the loop hides some to validate on."""
    count = len(pair.source_ids)
    hidden = np.stack([pair.source_ids[_KNOWN:], pair.target_ids[_KNOWN:count]], axis=1)
    task = AlignmentTask(pair.task.source, pair.task.target, Links.from_pairs(hidden))
    again = _computed(feature, replace(pair, task=task), device, "a task with seeds")
    assert _is_same(whole, again), (
        "the feature uses the seeds of the task: use the known pairs that it is given"
    )


def _check_order_of_input(whole: FeatureRows, reversed_whole: FeatureRows | None) -> None:
    assert _is_same(whole, reversed_whole), "the order of triples, literals and entities changed the result"


def _check_other_ids(
    whole: FeatureRows, pair: CheckedTask, renamed: FeatureRows | None, renamed_pair: CheckedTask
) -> None:
    """The same graphs under other labels, and so with other ids, have about the same scores."""
    assert renamed is not None, "a pair under other labels: the result is None"
    scores = _similarity(whole)[np.ix_(pair.source_ids, pair.target_ids)]
    others = _similarity(renamed)[np.ix_(renamed_pair.source_ids, renamed_pair.target_ids)]
    change = np.abs(scores - others).max(axis=1).mean() / max(np.abs(scores).max(), 1e-6)
    assert change <= MOST_CHANGE, (
        f"with the entities under other ids, scores change by {change:.0%} of the largest one: the feature "
        "uses the order of ids"
    )


def _check_unrelated_graphs(rows: FeatureRows | None) -> None:
    """Entities with equal ids in two unrelated graphs are not matched."""
    if rows is None:
        return
    scores = _similarity(rows)
    is_scored = scores.max(axis=1) > 0
    if not is_scored.any():
        return
    same_id = float((scores.argmax(axis=1) == np.arange(len(scores)))[is_scored].mean())
    assert same_id <= 0.2, f"unrelated graphs: {same_id:.0%} are most similar to the entity of the same id"


def _check_memory(feature: Feature, half: CheckedTask, large: CheckedTask, device: str) -> None:
    """Twice as many entities take twice the memory, and not four times, as a matrix of all pairs does."""
    less, more = (_peak_memory(feature, case, device) for case in (half, large))
    # Memory that grows linearly cancels out, and half of a matrix of all pairs remains.
    matrix = 2 * (more - 2 * less)
    assert matrix < 2 * len(large.source_ids) * len(large.target_ids), (
        f"{len(half.source_ids)} entities took {less / 1e6:.0f} MB and twice as many {more / 1e6:.0f} MB, as "
        "if there were a number for every pair: compare entities in blocks, or by an index"
    )


def _peak_memory(feature: Feature, case: CheckedTask, device: str) -> int:
    """The most bytes that Python and numpy allocate at a time."""
    was_tracing = tracemalloc.is_tracing()
    if not was_tracing:
        tracemalloc.start()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    try:
        _computed(feature, case, device, "a large pair")
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if not was_tracing:
            tracemalloc.stop()
