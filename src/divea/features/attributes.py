"""Attribute values: which properties of the two graphs mean the same, and what their agreement is worth.

At first nothing is known about the properties: values are compared across all of them, and rare values that
both graphs have count most, so identifiers find each other. Once pairs are known, each pair of properties
is compared on them and on other candidates, as in the model of Fellegi and Sunter: how often do matches
agree (m), how often do others (u)? A ridge logistic regression weighs all of them together, because
properties depend on each other. Rare values count more than common ones, and disagreement counts too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_array

from divea.config import FeatureSettings
from divea.features.base import Feature
from divea.features.names import find_names
from divea.features.nearest import nearest_of_both
from divea.features.regression import fit_logistic
from divea.features.values import ValueKind, kind_of, tokens
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.features import PairScores, all_ids
from divea.graphs.labels import LABEL

FEWEST_KNOWN = 30
"""The fewest known pairs that properties are learned from."""

LEAST_SHARED = 0.02
"""Share of the known pairs that must have both properties."""

MOST_PAIRS_OF_PROPERTIES = 40
_MOST_KNOWN = 5000
_SALT = 0xA77


@dataclass(frozen=True)
class Property:
    """The values of one property of a graph as tokens."""

    label: str
    kind: ValueKind
    rows: csr_array
    """One row per entity of length one, or of zeros if it has no value; one column per token of all
    properties."""
    rarity: npt.NDArray[np.float32]
    """How rare the rarest token of each entity is, from 0 to 1."""


@dataclass(frozen=True)
class PropertyPair:
    """What two properties say about pairs of entities."""

    source: str
    target: str
    kind: str
    m: float
    """Mean agreement of known pairs that have both."""
    u: float
    """Mean agreement of other candidates that have both."""
    agreement: float
    """Weight of agreement, in units of log odds."""
    rare_agreement: float
    """Additional weight of agreement on a value that no other entity has."""
    presence: float
    """Weight of having both properties, whether they agree or not; disagreement is worth this alone."""


class AttributeValues(Feature):
    """The agreement of attribute values, weighted by what known pairs say about the properties."""

    name = "attributes"
    uses_known_pairs = True

    def __init__(self, settings: FeatureSettings | None = None):
        self.settings = settings or FeatureSettings()
        self._task: AlignmentTask | None = None
        self._properties: tuple[list[Property], list[Property]] = [], []
        self._candidates: csr_array | None = None
        self.learned: list[PropertyPair] = []
        """What was learned from the known pairs of the last call."""

    @classmethod
    def from_settings(cls, settings: FeatureSettings) -> Self:
        return cls(settings)

    def compute(
        self,
        task: AlignmentTask,
        known: Links,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> PairScores | None:
        if self._task is not task:
            self._task, self._candidates = task, None
            self._properties = read_properties(task, self.settings)
        self.learned = []
        source, target = self._properties
        if not source or not target:
            return None
        if self._candidates is None:
            self._candidates = nearest_of_both(_all_of(source), _all_of(target), self.settings.nearest)
        scores = self._candidates
        if len(known) >= FEWEST_KNOWN:
            scores = self._learned_scores(task, known, random_seed)
        return PairScores(self.name, *all_ids(task), scores)

    def is_available(self, task: AlignmentTask) -> bool:
        """Whether both graphs have literals beside names."""
        names = self.settings.names
        return has_values(task.source, names.source) and has_values(task.target, names.target)

    def describe(self) -> list[dict[str, Any]]:
        """What was learned, as plain JSON types."""
        return [
            {key: round(value, 4) if isinstance(value, float) else value for key, value in vars(pair).items()}
            for pair in self.learned
        ]

    def _learned_scores(self, task: AlignmentTask, known: Links, random_seed: int) -> csr_array:
        assert self._candidates is not None
        draw = np.random.default_rng([random_seed, _SALT])
        sample = known.pairs[np.sort(draw.permutation(len(known))[:_MOST_KNOWN])]
        pairs, is_match = _examples(sample, self._candidates, draw)
        chosen = _alike_properties(*self._properties, pairs, is_match)
        if not chosen:
            return self._candidates
        columns = np.concatenate([_comparison(*both, pairs) for both in chosen], axis=1)
        # Matches and others have the same total weight: finding out the prior odds is left to the loop.
        share = is_match.mean()
        counts = np.where(is_match, 0.5 / max(share, 1e-9), 0.5 / max(1 - share, 1e-9))
        weights, _ = fit_logistic(columns, is_match.astype(np.float64), counts)
        self.learned = [
            _described(both, pairs, is_match, weights[3 * number : 3 * number + 3])
            for number, both in enumerate(chosen)
        ]
        return self._scored(chosen, weights)

    def _scored(self, chosen: list[tuple[Property, Property]], weights: npt.NDArray[np.float64]) -> csr_array:
        """The log odds of every candidate pair, scaled to at most 1; pairs below 0 are left out."""
        candidates = self._candidates
        assert candidates is not None
        row = np.repeat(np.arange(candidates.shape[0]), np.diff(candidates.indptr))
        total = np.zeros(len(row))
        step = 1 << 20
        for first in range(0, len(row), step):
            some = np.stack([row[first : first + step], candidates.indices[first : first + step]], axis=1)
            for number, both in enumerate(chosen):
                total[first : first + step] += _comparison(*both, some) @ weights[3 * number : 3 * number + 3]
        highest = max(float(np.quantile(total, 0.999)) if len(total) else 1.0, 1e-6)
        scores = np.clip(total / highest, 0, 1).astype(np.float32)
        return csr_array((scores, candidates.indices, candidates.indptr), shape=candidates.shape)


def read_properties(task: AlignmentTask, settings: FeatureSettings) -> tuple[list[Property], list[Property]]:
    """The properties of both graphs, without those that name things."""
    raw = [
        _raw_properties(graph, wanted)
        for graph, wanted in (
            (task.source, settings.names.source),
            (task.target, settings.names.target),
        )
    ]
    if not all(raw):
        return [], []
    every = pa.chunked_array([token for side in raw for _, _, _, token in side]).combine_chunks()
    numbers = np.asarray(every.dictionary_encode().indices).astype(np.int32)
    sizes = task.source.num_entities, task.target.num_entities
    # How many entities of both graphs have a token, in any property.
    columns = int(numbers.max(initial=-1)) + 1
    entities = [
        row + (0 if number == 0 else sizes[0]) for number, side in enumerate(raw) for _, _, row, _ in side
    ]
    holders = csr_array(
        (np.ones(len(numbers), np.float32), (np.concatenate(entities), numbers)), shape=(sum(sizes), columns)
    )
    holders.sum_duplicates()
    held_by = np.bincount(holders.indices, minlength=columns)
    idf = np.log((sum(sizes) + 1) / (held_by + 0.5)).astype(np.float32)
    first, found = 0, []
    for side, size in zip(raw, sizes, strict=True):
        properties = []
        for label, kind, row, token in side:
            own = numbers[first : first + len(token)]
            first += len(token)
            properties.append(_property(label, kind, row, own, idf, (size, columns)))
        found.append(properties)
    return found[0], found[1]


def has_values(graph: KnowledgeGraph, name_property: str | None = None) -> bool:
    """Whether a graph has literals of other properties than those that name things."""
    if graph.attributes is None:
        return False
    naming = find_names(graph, name_property).properties
    return any(label not in naming for label in graph.attributes.predicate_labels.to_pylist())


def _raw_properties(
    graph: KnowledgeGraph, name_property: str | None
) -> list[tuple[str, ValueKind, npt.NDArray[np.int64], pa.Array]]:
    """Each property of a graph: label, kind, and the entity and token of each row."""
    attributes = graph.attributes
    if attributes is None:
        return []
    naming = find_names(graph, name_property).properties
    found = []
    labels = attributes.predicate_labels.to_pylist()
    for label, rows in zip(labels, attributes.rows_by_predicate(), strict=True):
        if label in naming or not len(rows):
            continue
        take = pa.array(rows)
        values = attributes.values.take(take)
        kind = kind_of(values, attributes.kinds.take(take))
        row, token = tokens(values, kind)
        if len(row):
            found.append((label, kind, attributes.entities[rows][row].astype(np.int64), token.cast(LABEL)))
    return found


def _property(
    label: str,
    kind: ValueKind,
    row: npt.NDArray[np.int64],
    token: npt.NDArray[np.int32],
    idf: npt.NDArray[np.float32],
    shape: tuple[int, int],
) -> Property:
    rows = csr_array((np.ones(len(row), np.float32), (row, token)), shape=shape)
    rows.sum_duplicates()
    rows.data = idf[rows.indices]
    rarity = np.zeros(shape[0], dtype=np.float32)
    np.maximum.at(rarity, np.repeat(np.arange(shape[0]), np.diff(rows.indptr)), rows.data)
    return Property(label, kind, _unit(rows), rarity / max(float(np.log(sum(shape[:1]) * 2 + 1)), 1.0))


def _unit(rows: csr_array) -> csr_array:
    counts = np.diff(rows.indptr)
    entity = np.repeat(np.arange(rows.shape[0]), counts)
    length = np.sqrt(np.bincount(entity, rows.data.astype(np.float64) ** 2, rows.shape[0]))
    data = (rows.data / np.maximum(length[entity], 1e-12)).astype(np.float32)
    return csr_array((data, rows.indices, rows.indptr), shape=rows.shape)


def _all_of(properties: list[Property]) -> csr_array:
    """The tokens of all properties together, as rows of length one."""
    return _unit(csr_array(sum(item.rows for item in properties)))


def _examples(
    known: npt.NDArray[np.int32], candidates: csr_array, draw: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Pairs to learn from: the known ones, other candidates of the same sources, and random pairs."""
    listed = candidates[known[:, 0]]
    row = np.repeat(np.arange(len(known)), np.diff(listed.indptr))
    others = np.stack([known[row, 0], listed.indices], axis=1)
    others = others[listed.indices != known[row, 1]]
    others = others[draw.permutation(len(others))[: 4 * len(known)]]
    random = np.stack([known[:, 0], draw.permutation(known[:, 1])], axis=1)
    random = random[random[:, 1] != known[:, 1]]
    pairs = np.concatenate([known, others, random]).astype(np.int64)
    is_match = np.zeros(len(pairs), dtype=bool)
    is_match[: len(known)] = True
    return pairs, is_match


def _alike_properties(
    source: list[Property],
    target: list[Property],
    pairs: npt.NDArray[np.int64],
    is_match: npt.NDArray[np.bool_],
) -> list[tuple[Property, Property]]:
    """The pairs of properties on which matches agree more than others."""
    found = []
    fewest = max(10, LEAST_SHARED * is_match.sum())
    for first in source:
        has_first = np.diff(first.rows.indptr)[pairs[:, 0]] > 0
        if has_first[is_match].sum() < fewest:
            continue
        for second in target:
            both = has_first & (np.diff(second.rows.indptr)[pairs[:, 1]] > 0)
            matches, others = both & is_match, both & ~is_match
            if matches.sum() < fewest:
                continue
            m = _agreement(first, second, pairs[matches]).mean()
            u = _agreement(first, second, pairs[others]).mean() if others.any() else 0.0
            if m > 1.5 * u + 0.02:
                found.append(((m - u) * matches.sum(), first, second))
    found.sort(key=lambda item: -item[0])
    return [(first, second) for _, first, second in found[:MOST_PAIRS_OF_PROPERTIES]]


def _agreement(first: Property, second: Property, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The cosine of the tokens of two properties, for pairs of entities."""
    products = first.rows[pairs[:, 0]].multiply(second.rows[pairs[:, 1]])
    return np.asarray(products.sum(axis=1), dtype=np.float64).ravel()


def _comparison(first: Property, second: Property, pairs: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Three columns: agreement, agreement on rare values, and whether both have the property."""
    agreement = _agreement(first, second, pairs)
    has_both = np.diff(first.rows.indptr)[pairs[:, 0]] > 0
    has_both &= np.diff(second.rows.indptr)[pairs[:, 1]] > 0
    rarity = np.minimum(first.rarity[pairs[:, 0]], second.rarity[pairs[:, 1]])
    return np.stack([agreement, agreement * rarity, has_both.astype(np.float64)], axis=1)


def _described(
    both: tuple[Property, Property],
    pairs: npt.NDArray[np.int64],
    is_match: npt.NDArray[np.bool_],
    weights: npt.NDArray[np.float64],
) -> PropertyPair:
    columns = _comparison(*both, pairs)
    present = columns[:, 2] > 0
    m, u = (
        float(columns[present & some, 0].mean()) if (present & some).any() else 0.0
        for some in (is_match, ~is_match)
    )
    first, second = both
    kind = first.kind if first.kind == second.kind else f"{first.kind} / {second.kind}"
    return PropertyPair(first.label, second.label, str(kind), m, u, *(float(value) for value in weights))
