"""Compares the literals of two entities: which of them agree, and what weight the run gave to that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.features.values import ValueKind, tokens
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.labels import LABEL

Verdict = Literal["agree", "agree in part", "differ"]

ALIKE = 0.9
"""The agreement above which values are said to agree."""


@dataclass(frozen=True)
class LiteralComparison:
    """The values of two properties that the run learned to compare."""

    source_property: str
    target_property: str
    source_values: tuple[str, ...]
    target_values: tuple[str, ...]
    verdict: Verdict
    log_odds: float
    """What the run learned that this is worth, before the weight of the feature. It is an estimate, because
    how rare a value is is estimated."""


def literals_of(graph: KnowledgeGraph, entity: int) -> dict[str, tuple[str, ...]]:
    """The values of each property of an entity."""
    attributes = graph.attributes
    if attributes is None:
        return {}
    first, end = np.searchsorted(attributes.entities, [entity, entity + 1]).tolist()
    found: dict[str, list[str]] = {}
    for row in range(first, end):
        label = attributes.predicate_labels[int(attributes.predicates[row])].as_py()
        found.setdefault(label, []).append(attributes.values[row].as_py())
    return {label: tuple(values) for label, values in found.items()}


@dataclass(frozen=True)
class LearnedPair:
    """What the run learned about a pair of properties (`features.json`)."""

    source: str
    target: str
    kinds: tuple[ValueKind, ValueKind]
    agreement: float
    rare_agreement: float
    presence: float

    @classmethod
    def of(cls, item: dict[str, Any]) -> LearnedPair:
        """The pair that an item describes; raises KeyError, TypeError or ValueError if it describes none."""
        kinds = str(item["kind"]).split(" / ")
        weights = (float(item[name]) for name in ("agreement", "rare_agreement", "presence"))
        return cls(
            str(item["source"]), str(item["target"]), (ValueKind(kinds[0]), ValueKind(kinds[-1])), *weights
        )


class ValueCounts:
    """How many entities have the values of an entity, and so how rare these are."""

    def __init__(self, task: AlignmentTask):
        self._graphs = {"source": task.source, "target": task.target}
        self._values: dict[tuple[str, str], pa.Array] = {}

    def rarity(self, pair: LearnedPair, ours: tuple[str, ...], theirs: tuple[str, ...]) -> float:
        """How rare the rarest value of each end is, from 0 to 1, for the end whose values are less rare.

        A value is counted in both properties of the pair. The run counts it, and each word in it, in all
        properties of both graphs.
        """
        sides = (("source", pair.source), ("target", pair.target))
        entities = sum(graph.num_entities for graph in self._graphs.values())
        rarities = []
        for (side, _), values in zip(sides, (ours, theirs), strict=True):
            held = np.zeros(len(values))
            for other, label in sides:
                found = pc.index_in(self._of_property(other, label), pa.array(values, LABEL)).drop_null()
                held += np.bincount(np.asarray(found), minlength=len(values))
            rarest = np.log((entities + 1) / (held.min() + 0.5))
            rarities.append(rarest / max(np.log(2 * self._graphs[side].num_entities + 1), 1.0))
        return float(min(rarities))

    def _of_property(self, side: str, label: str) -> pa.Array:
        """All values of a property of a graph."""
        if (side, label) not in self._values:
            attributes = self._graphs[side].attributes
            assert attributes is not None
            number = attributes.predicate_labels.index(pa.scalar(label, LABEL)).as_py()
            rows = np.flatnonzero(attributes.predicates == number)
            self._values[side, label] = attributes.values.take(pa.array(rows))
        return self._values[side, label]


def compared_literals(
    source: dict[str, tuple[str, ...]],
    target: dict[str, tuple[str, ...]],
    learned: list[LearnedPair],
    counts: ValueCounts,
) -> list[LiteralComparison]:
    """Compare the literals of two entities; comparisons that count most for or against a pair come first.

    Parameters
    ----------
    source, target
        The values of each property of both entities.
    """
    found = []
    for pair in learned:
        ours, theirs = source.get(pair.source), target.get(pair.target)
        if ours and theirs:
            agreement = _agreement(_tokens(ours, pair.kinds[0]), _tokens(theirs, pair.kinds[1]))
            log_odds = pair.presence
            if agreement:
                rarity = counts.rarity(pair, ours, theirs)
                log_odds += agreement * (pair.agreement + rarity * pair.rare_agreement)
            verdict = _verdict(agreement)
            found.append(LiteralComparison(pair.source, pair.target, ours, theirs, verdict, log_odds))
    return sorted(found, key=lambda comparison: -abs(comparison.log_odds))


def _agreement(here: set[str], there: set[str]) -> float:
    """The cosine of two sets of tokens. The run gives rare tokens more weight."""
    return len(here & there) / math.sqrt(len(here) * len(there)) if here and there else 0.0


def _verdict(agreement: float) -> Verdict:
    if agreement > ALIKE:
        return "agree"
    return "agree in part" if agreement else "differ"


def _tokens(values: tuple[str, ...], kind: ValueKind) -> set[str]:
    return set(tokens(pa.array(values, pa.large_string()), kind)[1].to_pylist())
