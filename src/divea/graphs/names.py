"""Readable names of entities, for people to read and for name features to compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.ids import ranges
from divea.graphs.labels import LABEL
from divea.types import Ids

if TYPE_CHECKING:
    from divea.graphs.knowledge_graph import Attributes, KnowledgeGraph

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

_LABELS = 1 << 16
"""Labels that a thread takes at a time."""

LONGEST = 200
"""The most characters of a name that `readable` shows."""


def name_predicates(found: Iterable[str], wanted: str | None = None) -> tuple[str, ...]:
    """The predicates whose values name entities, the preferred ones first.

    Parameters
    ----------
    found
        Predicates that behave like names; they come last.
    wanted
        The predicate that the user said has the names; it comes first.

    Examples
    --------
    >>> name_predicates(["title"], "official")[0], name_predicates(["title"])[-1]
    ('official', 'title')
    """
    first = [] if wanted is None else [wanted]
    return tuple(dict.fromkeys([*first, GIVEN_NAME, *NAME_PREDICATES, *found]))


def iri_ends(labels: pa.Array) -> pa.Array:
    """The end of each IRI as text; labels that are no IRIs stay as they are.

    >>> iri_ends(pa.array(["http://dbpedia.org/resource/New_York%2C_NY", "Oslo"])).to_pylist()
    ['New York, NY', 'Oslo']
    """
    ends = _replaced(labels, r"^.*[/#]([^/#]+)[/#]?$", r"\1")
    # A name may contain a slash, as AC/DC does: if an IRI is in the commonest namespace, everything after the
    # namespace is the end.
    namespaces = pc.value_counts(_replaced(labels, r"[^/#]*[/#]?$", ""))
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


def _replaced(labels: pa.Array, pattern: str, replacement: str) -> pa.Array:
    """The labels with all matches of a regular expression replaced, in several threads."""
    parts = [labels.slice(first, _LABELS) for first in range(0, max(len(labels), 1), _LABELS)]
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda part: pc.replace_substring_regex(part, pattern, replacement), parts)
        return pa.concat_arrays(found)


def entity_names(
    graph: KnowledgeGraph,
    predicates: Sequence[str] = (GIVEN_NAME, *NAME_PREDICATES),
    ids: Ids | None = None,
) -> pa.Array:
    """A name for each entity: its first attribute of these predicates, else the end of its IRI.

    Parameters
    ----------
    predicates
        The predicates of attributes that name an entity, the preferred ones first.
    ids
        The entities; all by default. The rest of the graph is not read.

    Examples
    --------
    >>> from divea.graphs.knowledge_graph import KnowledgeGraph
    >>> graph = KnowledgeGraph.from_triples([], ["http://dbpedia.org/resource/New_York%2C_NY"])
    >>> entity_names(graph).to_pylist()
    ['New York, NY']
    """
    labels = graph.entities if ids is None else graph.entities.take(pa.array(ids))
    names = iri_ends(labels).cast(LABEL)
    if graph.attributes is None or not len(names):
        return names
    attributes = graph.attributes
    owner, rows = _literals_of(attributes, np.arange(len(names), dtype=np.int32) if ids is None else ids)
    place = {label: at for at, label in enumerate(predicates)}
    place_of_predicate = np.array(
        [place.get(label, -1) for label in attributes.predicate_labels.to_pylist()], dtype=np.int64
    )
    place_of_row = place_of_predicate[np.asarray(attributes.predicates)[rows]]
    is_name = place_of_row >= 0
    owner, rows, place_of_row = owner[is_name], rows[is_name], place_of_row[is_name]
    # The rows of the preferred predicate come first and, among them, the first value in sort order.
    order = np.lexsort((rows, place_of_row, owner))
    first = order[np.diff(owner[order], prepend=-1) != 0]
    has_name = np.zeros(len(names), dtype=bool)
    has_name[owner[first]] = True
    values = attributes.values.take(pa.array(rows[first])).cast(LABEL)
    return pc.replace_with_mask(names, pa.array(has_name), values)


def _literals_of(attributes: Attributes, ids: Ids) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The literals of some entities: the position of the entity in `ids`, and the row of the literal."""
    first = np.searchsorted(attributes.entities, ids)
    counts = np.searchsorted(attributes.entities, ids, side="right") - first
    owner = np.repeat(np.arange(len(ids)), counts)
    return owner, ranges(first, counts)


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
