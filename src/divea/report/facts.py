"""The facts that a report shows: figures of a finished run, from what the run kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from divea.config import Settings
from divea.config.group import flattened
from divea.errors import InputError
from divea.explanations.kept import Kept
from divea.graphs import KnowledgeGraph
from divea.graphs.arrays import read_description
from divea.graphs.names import iri_ends, readable
from divea.report.charts import Bar
from divea.runs.eta import number
from divea.runs.expectation import figures_above, percent
from divea.runs.finished import FinishedRun
from divea.runs.layout import CALIBRATION
from divea.runs.log import read_log
from divea.types import Ids

THRESHOLDS = np.round(np.linspace(0, 1, 101), 2)
"""The thresholds that the slider can choose."""

_MOST_BARS = 40
_MOST_GROUPS = 12
_TYPES = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "rdf:type", "type", "instance of", "P31")
"""Relations that give the type of an entity. Classes of RDF graphs are schema, so a run has them only if the
schema was kept.
"""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Curve:
    """Figures of the pairs above each of `THRESHOLDS`."""

    pairs: list[int]
    precision: list[float | None]
    recall: list[float | None]


@dataclass(frozen=True)
class Shares:
    """The share of entities that were matched, grouped by something that they have."""

    by: str
    bars: list[Bar]


@dataclass(frozen=True)
class IterationFacts:
    """What the log says about an iteration."""

    number: int
    subtasks: int | None
    pseudo_seeds: int | None
    """The number of pairs chosen for the next iteration."""
    weights: dict[str, float]
    """The weights of the features."""


@dataclass(frozen=True)
class Stage:
    """What a stage of the run cost."""

    name: str
    seconds: float
    peak_memory: int
    peak_gpu_memory: int


def calibration_of(run: FinishedRun) -> dict[str, Any]:
    """What the run reported about precision and recall at its end: numbers, or None if it reported none."""
    path = run.path / CALIBRATION
    found = read_description(path)
    if not isinstance(found, dict) or not isinstance(found.get("interval"), list | None):
        raise InputError("is not the calibration of a run", path=path)
    low, high = found.get("interval") or (None, None)
    figures = {name: found.get(name) for name in ("pairs", "assigned_pairs", "seeds", "judged_pairs")}
    shares = {name: found.get(name) for name in ("expected_precision", "expected_recall", "threshold")}
    numbers = {**figures, **shares, "low": low, "high": high}
    if not all(value is None or isinstance(value, int | float) for value in numbers.values()):
        raise InputError("is not the calibration of a run", path=path)
    return {**numbers, "method": str(found.get("method"))}


def expected_curve(confidence: npt.NDArray[np.float64]) -> Curve | None:
    """What to expect of the pairs above each threshold; None if there is no confidence.

    >>> curve = expected_curve(np.array([1.0, 0.8, 0.2]))
    >>> curve.pairs[0], curve.pairs[50], curve.precision[50]
    (3, 2, 0.9)
    """
    known = confidence[np.isfinite(confidence)]
    if not len(known):
        return None
    found = [figures_above(float(threshold), known) for threshold in THRESHOLDS]
    return Curve(
        [item["pairs"] for item in found],
        [item["expected_precision"] for item in found],
        [item["expected_recall"] for item in found],
    )


def confidence_bars(confidence: npt.NDArray[np.float64]) -> list[Bar]:
    """A histogram of the confidence of the assigned pairs."""
    known = confidence[np.isfinite(confidence)]
    counts, edges = np.histogram(known, bins=20, range=(0, 1))
    names = [f"{low:.2f}–{high:.2f}" for low, high in pairwise(edges)]
    return [
        Bar(name[:4], float(count), f"{count:,} pairs with a confidence of {name}")
        for name, count in zip(names, counts.tolist(), strict=True)
    ]


def matched_shares(kept: Kept) -> list[Shares]:
    """The share of source entities without a seed that are in the mappings: by degree, by type or relation,
    and by subtask.
    """
    graph, known = kept.task.source, kept.counterparts
    is_free = ~known.is_seed
    # A pair without confidence is in the mappings.
    is_matched = is_free & (known.target >= 0) & ~(known.confidence < kept.threshold)
    found = [
        Shares("number of triples", _by_degree(graph, is_free, is_matched)),
        _by_type(graph, is_free, is_matched),
        Shares("subtask", _by_subtask(kept.run, is_matched)),
    ]
    return [one for one in found if len(one.bars) > 1]


def _share(name: str, matched: int, count: int) -> Bar:
    share = matched / count if count else 0.0
    return Bar(name, share, f"{percent(share)} of {count:,} entities")


def _by_degree(graph: KnowledgeGraph, is_free: Mask, is_matched: Mask) -> list[Bar]:
    """By number of triples, in steps that double: 0, 1, 2, 3-4, 5-8, ..."""
    bins = np.ceil(np.log2(np.maximum(graph.degrees, 0.5))).astype(np.int64) + 1
    counts, matched = np.bincount(bins[is_free]), np.bincount(bins[is_matched])
    matched = np.pad(matched, (0, len(counts) - len(matched)))
    names = ["0", "1", "2", *(f"{2**step + 1}–{2 ** (step + 1)}" for step in range(1, len(counts)))]
    rows = zip(names, matched.tolist(), counts.tolist(), strict=False)
    return [_share(name, hit, count) for name, hit, count in rows if count]


def _by_type(graph: KnowledgeGraph, is_free: Mask, is_matched: Mask) -> Shares:
    """By the commonest types or, if the graph has none, by the commonest relations of an entity."""
    triples = np.asarray(graph.triples)
    is_type = np.isin(graph.relations.to_pylist(), _TYPES)[triples[:, 1]]
    if is_type.any():
        labels, head, group = graph.entities, triples[is_type, 0], triples[is_type, 2]
        by = "type"
    else:
        labels, head, group = graph.relations, triples[:, 0], triples[:, 1]
        by = "relation that an entity has"
    size = len(labels)
    distinct = np.unique(head.astype(np.int64) * size + group)
    head, group = distinct // size, distinct % size
    counts = np.bincount(group[is_free[head]], minlength=size)
    matched = np.bincount(group[is_matched[head]], minlength=size)
    used = np.flatnonzero(counts)
    # Equal counts are ordered by label, never by id.
    order = np.lexsort((np.array(labels.take(used).to_pylist(), dtype=str), -counts[used]))
    commonest = used[order][:_MOST_GROUPS]
    names = readable(iri_ends(labels.take(commonest)).cast(labels.type)).to_pylist()
    rows = zip(names, matched[commonest].tolist(), counts[commonest].tolist(), strict=True)
    return Shares(by, [_share(name, hit, count) for name, hit, count in rows])


def _by_subtask(run: FinishedRun, is_matched: Mask) -> list[Bar]:
    """One bar for each subtask or, if there are many, for each group of subtasks with similar shares."""
    sources: list[Ids] = [subtask.unmatched for subtask in run.division.subtasks]
    counts = np.array([len(one) for one in sources])
    matched = np.array([is_matched[one].sum() for one in sources])
    if len(sources) <= _MOST_BARS:
        rows = zip(matched.tolist(), counts.tolist(), strict=True)
        return [_share(str(place), hit, count) for place, (hit, count) in enumerate(rows)]
    order = np.argsort(matched / np.maximum(counts, 1), kind="stable")
    groups = np.array_split(order, _MOST_BARS)
    return [
        _share(f"{place + 1}", int(matched[group].sum()), int(counts[group].sum()))
        for place, group in enumerate(groups)
    ]


def iterations_of(run: FinishedRun) -> list[IterationFacts]:
    """What the log says about each iteration; the latest start counts."""
    found: dict[int, dict[str, Any]] = {}
    for event in read_log(run.path):
        place = event.get("iteration")
        if isinstance(place, int) and not event.get("fold"):
            found.setdefault(place, {}).update({event["event"]: event})
    return [_iteration(place, found[place]) for place in sorted(found)]


def _iteration(place: int, events: dict[str, Any]) -> IterationFacts:
    weights = events.get("features", {}).get("weights")
    weights = weights if isinstance(weights, dict) else {}
    return IterationFacts(
        place + 1,
        _whole(events.get("iteration", {}).get("subtasks")),
        _whole(events.get("learned", {}).get("pseudo_seeds")),
        {str(name): number(weights, name) for name in weights},
    )


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def stages_of(run: FinishedRun) -> list[Stage]:
    """What the stages of the run cost, in order."""
    return [
        Stage(
            f"{item.get('stage')} {int(number(item, 'iteration')) + 1}",
            number(item, "seconds"),
            int(number(item, "peak_memory")),
            int(number(item, "peak_gpu_memory")),
        )
        for item in run.manifest.stages
    ]


def settings_of(settings: Settings) -> list[tuple[str, str, bool]]:
    """The path and the value of each setting, and whether it is the default."""
    defaults = flattened(Settings().plain())
    return [
        (path, "" if value is None else str(value), defaults.get(path) == value)
        for path, value in flattened(settings.plain()).items()
    ]


def bars_of_stages(stages: Sequence[Stage]) -> list[Bar]:
    """The seconds of each stage."""
    return [
        Bar(
            stage.name,
            stage.seconds,
            f"{stage.seconds:.1f} s, {stage.peak_memory / 2**20:,.0f} MiB of memory so far",
        )
        for stage in stages
    ]


def entity_counts(graph: KnowledgeGraph) -> dict[str, int]:
    """The size of a graph."""
    literals = 0 if graph.attributes is None else len(graph.attributes)
    return {
        "entities": graph.num_entities,
        "relations": graph.num_relations,
        "triples": graph.num_triples,
        "literals": literals,
    }
