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


def entity_names(graph: KnowledgeGraph) -> pa.Array:
    """One name per entity: the first label-like attribute it has, else the end of its IRI.

    >>> from divea.graphs.knowledge_graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([], ["http://dbpedia.org/resource/New_York%2C_NY"])
    >>> entity_names(graph).to_pylist()
    ['New York, NY']
    """
    ends = pc.replace_substring_regex(graph.entities, r"^.*[/#]([^/#]+)[/#]?$", r"\1")
    names = [unquote(end).replace("_", " ") for end in ends.to_pylist()]
    if graph.attributes is not None:
        attributes = graph.attributes
        codes = {label: code for code, label in enumerate(attributes.predicate_labels.to_pylist())}
        # The least preferred first, so that the preferred ones overwrite it.
        for predicate in reversed(NAME_PREDICATES):
            rows = np.flatnonzero(attributes.predicates == codes.get(predicate, -1))
            # Rows are sorted; going backwards leaves the first value of an entity in place.
            for row in rows[::-1].tolist():
                names[attributes.entities[row]] = attributes.values[row].as_py()
    return pa.array(names, type=LABEL)
