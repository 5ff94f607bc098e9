"""Compares the literals of two entities: which of them agree, and what weight the run gave to that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from divea.features.values import kind_of, tokens
from divea.graphs import KnowledgeGraph

Verdict = Literal["agree", "agree in part", "differ"]


@dataclass(frozen=True)
class LiteralComparison:
    """The values of two properties that the run learned to compare."""

    source_property: str
    target_property: str
    source_values: tuple[str, ...]
    target_values: tuple[str, ...]
    verdict: Verdict
    log_odds: float
    """The weight that the run learned for this verdict, before the weight of the feature. For agreement in
    part it is estimated as halfway between agreement and difference."""


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


def compared_literals(
    source: dict[str, tuple[str, ...]], target: dict[str, tuple[str, ...]], learned: list[dict[str, Any]]
) -> list[LiteralComparison]:
    """Compare the literals of two entities; comparisons that count most for or against a pair come first.

    Parameters
    ----------
    source, target
        The values of each property of both entities.
    learned
        What the run learned about pairs of properties (`features.json`).
    """
    found = []
    for pair in learned:
        ours, theirs = source.get(pair["source"]), target.get(pair["target"])
        if ours and theirs:
            verdict = _verdict(ours, theirs)
            agreement = {"agree": 1.0, "agree in part": 0.5, "differ": 0.0}[verdict]
            log_odds = agreement * pair["agreement"] + pair["presence"]
            found.append(LiteralComparison(pair["source"], pair["target"], ours, theirs, verdict, log_odds))
    return sorted(found, key=lambda comparison: -abs(comparison.log_odds))


def _verdict(ours: tuple[str, ...], theirs: tuple[str, ...]) -> Verdict:
    here, there = (_tokens(values) for values in (ours, theirs))
    shared = here & there
    if any(token.startswith("=") for token in shared) or (shared and here == there):
        return "agree"
    return "agree in part" if shared else "differ"


def _tokens(values: tuple[str, ...]) -> set[str]:
    texts = pa.array(values, pa.large_string())
    kind = kind_of(texts, pa.array([""] * len(values)))
    return set(tokens(texts, kind)[1].to_pylist())
