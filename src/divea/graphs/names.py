"""Readable names of entities, for people to read and for name features to compare."""

from __future__ import annotations

from collections.abc import Sequence
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

LONGEST = 200
"""The most characters of a name that `readable` shows."""


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


def entity_names(
    graph: KnowledgeGraph, predicates: Sequence[str] = (GIVEN_NAME, *NAME_PREDICATES)
) -> pa.Array:
    """A name for each entity: its first attribute of these predicates, else the end of its IRI.

    Parameters
    ----------
    predicates
        The predicates of attributes that name an entity, the preferred ones first.

    Examples
    --------
    >>> from divea.graphs.knowledge_graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([], ["http://dbpedia.org/resource/New_York%2C_NY"])
    >>> entity_names(graph).to_pylist()
    ['New York, NY']
    """
    names = iri_ends(graph.entities).cast(LABEL)
    if graph.attributes is None:
        return names
    attributes = graph.attributes
    place = {label: at for at, label in enumerate(predicates)}
    labels = attributes.predicate_labels.to_pylist()
    place_of_predicate = np.array([place.get(label, -1) for label in labels], dtype=np.int64)
    place_of_row = place_of_predicate[np.asarray(attributes.predicates)]
    rows = np.flatnonzero(place_of_row >= 0)
    # The rows of the preferred predicate come first and, among them, the first value in sort order.
    order = np.lexsort((rows, place_of_row[rows], np.asarray(attributes.entities)[rows]))
    rows = rows[order]
    entities = np.asarray(attributes.entities)[rows]
    rows = rows[np.diff(entities, prepend=-1) != 0]
    has_name = np.zeros(graph.num_entities, dtype=bool)
    has_name[attributes.entities[rows]] = True
    return pc.replace_with_mask(names, pa.array(has_name), attributes.values.take(pa.array(rows)).cast(LABEL))


def readable(texts: pa.Array) -> pa.Array:
    """Texts for people to read: in one line, without control characters, and not longer than `LONGEST`.

    >>> readable(pa.array(["New\\tYork\\n", "x" * 300], LABEL)).to_pylist() == ["New York", "x" * 200 + "…"]
    True
    """
    in_line = pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, r"[\p{Z}\p{Cc}]+", " "))
    is_long = pc.greater(pc.utf8_length(in_line), LONGEST)
    start = pc.utf8_slice_codeunits(in_line, 0, LONGEST)
    cut = pc.binary_join_element_wise(start, pa.scalar("…", LABEL), pa.scalar("", LABEL))
    return pc.if_else(is_long, cut, in_line)


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
