"""Readable names of entities, for people to read and for name features to compare."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.labels import LABEL

if TYPE_CHECKING:
    from divea.graphs.knowledge_graph import KnowledgeGraph

NAME_PREDICATES = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://xmlns.com/foaf/0.1/name",
    "http://schema.org/name",
    "https://schema.org/name",
)
"""Predicates of attributes that name an entity, the preferred ones first."""


def entity_names(graph: KnowledgeGraph) -> pa.Array:
    """A name for each entity: its first attribute of `NAME_PREDICATES`, else the end of its IRI.

    >>> from divea.graphs.knowledge_graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([], ["http://dbpedia.org/resource/New_York%2C_NY"])
    >>> entity_names(graph).to_pylist()
    ['New York, NY']
    """
    ends = pc.replace_substring_regex(graph.entities, r"^.*[/#]([^/#]+)[/#]?$", r"\1")
    names = [unquote(end).replace("_", " ") for end in ends.to_pylist()]
    if graph.attributes is not None:
        attributes = graph.attributes
        predicate_id = {label: number for number, label in enumerate(attributes.predicate_labels.to_pylist())}
        # The least preferred predicate comes first, so that preferred ones overwrite it; and an entity's
        # last value comes first, so that its first value in sort order remains.
        for predicate in reversed(NAME_PREDICATES):
            rows = np.flatnonzero(attributes.predicates == predicate_id.get(predicate, -1))
            for row in rows[::-1].tolist():
                names[attributes.entities[row]] = attributes.values[row].as_py()
    return pa.array(names, type=LABEL)
