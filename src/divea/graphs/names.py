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

GIVEN_NAME = "urn:divea:name"
"""The predicate of names that a user gave in a file of their own; they are preferred to all others."""

NAME_PREDICATES = (
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://www.w3.org/2004/02/skos/core#altLabel",
    "http://xmlns.com/foaf/0.1/name",
    "http://schema.org/name",
    "https://schema.org/name",
    "http://purl.org/dc/terms/title",
    "http://purl.org/dc/elements/1.1/title",
)
"""Predicates of attributes that name an entity, the preferred ones first."""


def iri_ends(labels: pa.Array) -> pa.Array:
    """The end of each IRI as text; labels that are no IRIs stay as they are.

    >>> iri_ends(pa.array(["http://dbpedia.org/resource/New_York%2C_NY", "Oslo"])).to_pylist()
    ['New York, NY', 'Oslo']
    """
    ends = pc.replace_substring_regex(labels, r"^.*[/#]([^/#]+)[/#]?$", r"\1")
    # A name may contain a slash, as AC/DC does: where an IRI is in the commonest namespace, all that follows
    # it is the end.
    namespaces = pc.value_counts(pc.replace_substring_regex(labels, r"[^/#]*[/#]?$", ""))
    if len(namespaces):
        counts = namespaces.field("counts").to_numpy()
        commonest = min(namespaces.field("values").filter(pa.array(counts == counts.max())).to_pylist())
        inside = pc.and_(pc.starts_with(labels, commonest), pa.scalar("://" in commonest))
        ends = pc.if_else(inside, pc.utf8_slice_codeunits(labels, len(commonest)), ends)
    ends = pc.replace_substring(ends, "_", " ")
    is_escaped = np.asarray(pc.match_substring(ends, "%"))
    if not is_escaped.any():
        return ends
    mask = pa.array(is_escaped)
    unescaped = pa.array([unquote(text) for text in ends.filter(mask).to_pylist()], ends.type)
    return pc.replace_with_mask(ends, mask, unescaped)


def entity_names(graph: KnowledgeGraph) -> pa.Array:
    """A name for each entity: its first attribute of `NAME_PREDICATES`, else the end of its IRI.

    >>> from divea.graphs.knowledge_graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([], ["http://dbpedia.org/resource/New_York%2C_NY"])
    >>> entity_names(graph).to_pylist()
    ['New York, NY']
    """
    names = iri_ends(graph.entities).to_pylist()
    if graph.attributes is not None:
        attributes = graph.attributes
        predicate_id = {label: number for number, label in enumerate(attributes.predicate_labels.to_pylist())}
        # The least preferred predicate comes first, so that preferred ones overwrite it; and an entity's
        # last value comes first, so that its first value in sort order remains.
        for predicate in reversed((GIVEN_NAME, *NAME_PREDICATES)):
            rows = np.flatnonzero(attributes.predicates == predicate_id.get(predicate, -1))
            for row in rows[::-1].tolist():
                names[attributes.entities[row]] = attributes.values[row].as_py()
    return pa.array(names, type=LABEL)


def names_of(graph: KnowledgeGraph, ids: list[int], properties: tuple[str, ...] = ()) -> list[str]:
    """The names of a few entities: as `entity_names`, without reading the whole graph.

    Parameters
    ----------
    properties
        Other predicates that name an entity, where those of `NAME_PREDICATES` do not.

    Examples
    --------
    >>> from divea.graphs.knowledge_graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([], ["http://dbpedia.org/resource/New_York%2C_NY"])
    >>> names_of(graph, [0])
    ['New York, NY']
    """
    names: list[str] = iri_ends(graph.entities.take(pa.array(ids, pa.int64()))).to_pylist()
    attributes = graph.attributes
    if attributes is None:
        return names
    preferred = dict.fromkeys((GIVEN_NAME, *NAME_PREDICATES, *properties))
    order = {label: place for place, label in enumerate(preferred)}
    places = [order.get(label, len(order)) for label in attributes.predicate_labels.to_pylist()]
    for number, entity in enumerate(ids):
        first, end = np.searchsorted(attributes.entities, [entity, entity + 1]).tolist()
        rows = [(places[attributes.predicates[row]], row) for row in range(first, end)]
        if rows and min(rows)[0] < len(order):
            names[number] = attributes.values[min(rows)[1]].as_py()
    return names
