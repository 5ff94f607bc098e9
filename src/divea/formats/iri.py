"""Labels as RDF terms and back: RDF can only name things by IRIs and blank nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import BlankNode, NamedNode

from divea.graphs.labels import as_labels

_PREFIX = "urn:divea:"
_BLANK = re.compile(r"_:[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?\Z")


def to_iri(label: str) -> str:
    """The label itself where it is an IRI, otherwise one that `from_iri` turns back into it.

    >>> to_iri("http://example.org/a"), to_iri("New York")
    ('http://example.org/a', 'urn:divea:New%20York')
    """
    if not label.startswith(_PREFIX) and ":" in label:
        try:
            NamedNode(label)
        except ValueError:
            pass
        else:
            return label
    return to_urn(label)


def to_urn(label: str) -> str:
    """Any label at all as a plain ASCII IRI.

    >>> to_urn("http://example.org/a")
    'urn:divea:http%3A%2F%2Fexample.org%2Fa'
    """
    return _PREFIX + quote(label, safe="")


def from_iri(iri: str) -> str:
    """The label that `to_iri` or `to_urn` was given."""
    return unquote(iri[len(_PREFIX) :]) or iri if iri.startswith(_PREFIX) else iri


def entity_terms(labels: Iterable[str]) -> list[str]:
    """Labels as N-Triples terms; a label like `_:b0` is a blank node."""
    return [label if _BLANK.match(label) else f"<{to_iri(label)}>" for label in labels]


def relation_terms(labels: Iterable[str]) -> list[str]:
    """Labels as N-Triples predicates, which cannot be blank nodes."""
    return [f"<{to_iri(label)}>" for label in labels]


def labels_of_iris(iris: pa.Array) -> pa.Array:
    """`from_iri` for a whole column, which almost never holds one of ours."""
    if pc.any(pc.starts_with(iris, _PREFIX)).as_py():
        return as_labels([from_iri(iri) for iri in iris.to_pylist()])
    return iris


def from_term(term: NamedNode | BlankNode) -> str:
    """The label of a parsed IRI or blank node."""
    return from_iri(term.value) if isinstance(term, NamedNode) else f"_:{term.value}"
