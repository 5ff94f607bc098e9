"""Compares the literals of two entities: which of them agree, and what weight the run gave to that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.features.values import ValueKind, tokens
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.labels import LABEL

Verdict = Literal["agree", "agree in part", "differ"]

_SIDES = ("source", "target")

ALIKE = 0.9
"""The agreement above which values are said to agree."""

MOST_VALUES = 100_000
"""The most values of a property in which tokens are counted."""

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LiteralComparison:
    """The values of two properties that the run learned to compare."""

    source_property: str
    target_property: str
    source_values: tuple[str, ...]
    target_values: tuple[str, ...]
    verdict: Verdict
    log_odds: float
    """What this is worth by what the run learned, before the weight of the feature. It is an estimate: how
    rare values are is counted in these two properties, and the run counts it in all."""


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


class TokenRarity:
    """How rare the tokens of values are, which decides what sharing them is worth."""

    def __init__(self, task: AlignmentTask):
        self._graphs = {"source": task.source, "target": task.target}
        self._entities = sum(graph.num_entities for graph in self._graphs.values())
        self._tokens: dict[tuple[str, str], tuple[pa.Array, float]] = {}

    def of(self, pair: LearnedPair, found: list[str]) -> Numbers:
        """The inverse document frequency of each token.

        A token is counted in the two properties of a pair, in a sample of their values if these are many. The
        run counts it in all properties of both graphs.
        """
        held = np.zeros(len(found))
        for side, label, kind in zip(_SIDES, (pair.source, pair.target), pair.kinds, strict=True):
            column, scale = self._of_property(side, label, kind)
            at = pc.index_in(column, pa.array(found, LABEL)).drop_null()
            held += scale * np.bincount(np.asarray(at), minlength=len(found))
        return np.asarray(np.log((self._entities + 1) / (np.maximum(held, 1) + 0.5)))

    def highest(self, side: str) -> float:
        """The rarity that counts as 1 in one of the graphs."""
        return max(float(np.log(2 * self._graphs[side].num_entities + 1)), 1.0)

    def _of_property(self, side: str, label: str, kind: ValueKind) -> tuple[pa.Array, float]:
        """The tokens of a property, and the number of tokens that each of them stands for."""
        if (side, label) not in self._tokens:
            attributes = self._graphs[side].attributes
            assert attributes is not None
            number = attributes.predicate_labels.index(pa.scalar(label, LABEL)).as_py()
            rows = np.flatnonzero(attributes.predicates == number)
            # Ids are the ranks of hashes, so the first entities are a random sample.
            values = attributes.values.take(pa.array(rows[:MOST_VALUES]))
            scale = max(len(rows) / MOST_VALUES, 1.0)
            self._tokens[side, label] = tokens(values, kind)[1].cast(LABEL), scale
        return self._tokens[side, label]


def compared_literals(
    source: dict[str, tuple[str, ...]],
    target: dict[str, tuple[str, ...]],
    learned: list[LearnedPair],
    rarity: TokenRarity,
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
            agreement, rare = _agreement(pair, ours, theirs, rarity)
            verdict: Verdict = "agree" if agreement > ALIKE else "agree in part" if agreement else "differ"
            log_odds = pair.presence + agreement * (pair.agreement + rare * pair.rare_agreement)
            found.append(LiteralComparison(pair.source, pair.target, ours, theirs, verdict, log_odds))
    return sorted(found, key=lambda comparison: -abs(comparison.log_odds))


def _agreement(
    pair: LearnedPair, ours: tuple[str, ...], theirs: tuple[str, ...], rarity: TokenRarity
) -> tuple[float, float]:
    """The cosine of the tokens of both ends, and how rare they are, as in `divea.features.attributes`."""
    here, there = _tokens(ours, pair.kinds[0]), _tokens(theirs, pair.kinds[1])
    if not here & there:
        return 0.0, 0.0
    every = sorted(here | there)
    idf = rarity.of(pair, every)
    is_shared = np.array([token in here and token in there for token in every])
    lengths, rarest = [], []
    for side, own in zip(_SIDES, (here, there), strict=True):
        own_idf = idf[[token in own for token in every]]
        lengths.append(float(np.sqrt((own_idf**2).sum())))
        rarest.append(float(own_idf.max()) / rarity.highest(side))
    return float((idf[is_shared] ** 2).sum()) / (lengths[0] * lengths[1]), min(rarest)


def _tokens(values: tuple[str, ...], kind: ValueKind) -> set[str]:
    return set(tokens(pa.array(values, pa.large_string()), kind)[1].to_pylist())
