"""Converts labels to RDF terms and back: in RDF, only IRIs and blank nodes name things."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyoxigraph import BlankNode, NamedNode

from divea.graphs.labels import as_labels

URN = "urn:divea:"
"""The start of the IRI of every label that is not an IRI itself."""
_BLANK_NODE = re.compile(r"_:[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_-])?\Z")


def to_iri(label: str) -> str:
    """The label itself if it is an IRI, otherwise an IRI that `from_iri` turns back into the label.

    >>> to_iri("http://example.org/a"), to_iri("New York")
    ('http://example.org/a', 'urn:divea:New%20York')
    """
    if not label.startswith(URN) and ":" in label:
        try:
            NamedNode(label)
        except ValueError:
            pass
        else:
            return label
    return to_urn(label)


def to_urn(label: str) -> str:
    """Any label as an ASCII IRI that `from_iri` turns back into the label.

    >>> to_urn("http://example.org/a")
    'urn:divea:http%3A%2F%2Fexample.org%2Fa'
    """
    return URN + quote(label, safe="")


def from_iri(iri: str) -> str:
    """The label of an IRI that `to_iri` or `to_urn` returned; other IRIs are labels themselves.

    >>> from_iri("urn:divea:New%20York"), from_iri("http://example.org/a")
    ('New York', 'http://example.org/a')
    """
    return unquote(iri[len(URN) :]) or iri if iri.startswith(URN) else iri


def entity_terms(labels: Iterable[str]) -> list[str]:
    """Labels as N-Triples terms; a label such as `_:b0` is a blank node.

    >>> entity_terms(["http://example.org/a", "_:b0"])
    ['<http://example.org/a>', '_:b0']
    """
    return [label if _BLANK_NODE.match(label) else f"<{to_iri(label)}>" for label in labels]


def relation_terms(labels: Iterable[str]) -> list[str]:
    """Labels as N-Triples predicates, which cannot be blank nodes."""
    return [f"<{to_iri(label)}>" for label in labels]


def labels_of_iris(iris: pa.Array) -> pa.Array:
    """`from_iri` for a whole column; columns without an IRI of `to_urn`, which most are, are not copied."""
    if pc.any(pc.starts_with(iris, URN)).as_py():
        return as_labels([from_iri(iri) for iri in iris.to_pylist()])
    return iris


def from_term(term: NamedNode | BlankNode) -> str:
    """The label of a parsed IRI or blank node."""
    return from_iri(term.value) if isinstance(term, NamedNode) else f"_:{term.value}"
