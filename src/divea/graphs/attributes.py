"""Attribute triples: statements whose object is a literal and not an entity."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from divea.graphs.labels import Ids


@dataclass(frozen=True, eq=False)
class Attributes:
    """Literals of a graph, one row per statement, sorted by entity and predicate.

    `kinds` says how to read a value: empty for a plain string, `@en` for a language, otherwise
    the IRI of a datatype.
    """

    entities: Ids
    predicates: Ids
    predicate_labels: pa.Array
    values: pa.Array
    kinds: pa.Array

    def __len__(self) -> int:
        return len(self.entities)

    def table(self) -> pa.Table:
        """The rows as an Arrow table, without the labels."""
        return pa.table(
            {
                "entity": pa.array(self.entities),
                "predicate": pa.array(self.predicates),
                "value": self.values,
                "kind": self.kinds,
            }
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attributes):
            return NotImplemented
        return self.predicate_labels.equals(other.predicate_labels) and self.table().equals(other.table())

    __hash__ = None  # type: ignore[assignment]
