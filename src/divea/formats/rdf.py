"""RDF graphs: reads N-Triples, N-Quads, Turtle, TriG and RDF/XML, and writes N-Triples.

N-Triples is valid Turtle too. The names of graphs in N-Quads and TriG are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, parse

from divea.errors import InputError
from divea.formats.delimited import write_lines
from divea.formats.iri import entity_terms, from_iri, labels_of_iris, relation_terms, to_iri
from divea.formats.output import open_output
from divea.formats.rdf_limits import checked
from divea.formats.stream import LONGEST_LINE, open_text
from divea.graphs import Attributes, GraphBuilder, KnowledgeGraph
from divea.graphs.labels import LABEL, as_labels

SYNTAX = {
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "turtle": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "rdfxml": RdfFormat.RDF_XML,
}
"""The syntax of each kind of file; see `divea.formats.sniff`."""

_BATCH = 1 << 15
"""Statements that are read or written at a time."""
_STRING = "http://www.w3.org/2001/XMLSchema#string"


def parse_file(path: Path, syntax: str) -> Iterator[Triple]:
    """The statements of a file, as terms of pyoxigraph. Errors name the line.

    Parameters
    ----------
    syntax
        One of `SYNTAX`.
    """
    with open_text(path) as stream:
        try:
            yield from parse(checked(stream, path, is_xml=syntax == "rdfxml"), SYNTAX[syntax])
        except SyntaxError as error:
            message = error.msg.removesuffix(f" (line {error.lineno})")
            raise InputError(f"not valid RDF: {message}", path=path, line=error.lineno) from error
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8; convert it first", path=path) from error
        except MemoryError as error:
            # The parser limits the size of a token, and raises this for a token that is larger.
            raise InputError(f"a literal of more than {LONGEST_LINE >> 20} MiB", path=path) from error


def read_rdf(path: Path, syntax: str) -> KnowledgeGraph:
    """Read a graph: IRIs and blank nodes become entities, literals become attributes.

    Parameters
    ----------
    syntax
        One of `SYNTAX`.
    """
    return graph_of_statements(parse_file(path, syntax), path)


def graph_of_statements(statements: Iterator[Triple], path: str | Path) -> KnowledgeGraph:
    """The graph of statements, which are terms of pyoxigraph.

    Parameters
    ----------
    path
        Where the statements come from, for messages.
    """
    builder = GraphBuilder()
    while _add_batch(builder, islice(statements, _BATCH), path):
        pass
    return builder.build()


def _add_batch(builder: GraphBuilder, statements: Iterator[Triple], path: str | Path) -> bool:
    """Add statements to a graph; returns whether there were any."""
    heads: list[str] = []
    relations: list[str] = []
    tails: list[str] = []
    literals: list[tuple[str, str, str, str]] = []
    add_head, add_relation, add_tail = heads.append, relations.append, tails.append
    for statement in statements:
        subject, object_ = statement.subject, statement.object
        # Most statements of a file join two IRIs, so this case comes first and does as little as possible.
        if type(object_) is NamedNode and type(subject) is NamedNode:
            add_head(subject.value)
            add_relation(statement.predicate.value)
            add_tail(object_.value)
        elif type(object_) is Literal:
            if len(object_.value) > LONGEST_LINE:
                raise InputError(f"a literal of more than {LONGEST_LINE >> 20} MiB", path=path)
            literals.append((_label(subject, path), statement.predicate.value, object_.value, _kind(object_)))
        else:
            add_head(_label(subject, path))
            add_relation(statement.predicate.value)
            add_tail(_label(object_, path))
    if heads:
        builder.add_triples(*(labels_of_iris(as_labels(column)) for column in (heads, relations, tails)))
    if literals:
        subjects, predicates, values, kinds = (as_labels(column) for column in zip(*literals, strict=True))
        builder.add_attributes(labels_of_iris(subjects), labels_of_iris(predicates), values, kinds)
    return bool(heads or literals)


def _label(term: object, path: str | Path) -> str:
    """The label of an IRI or a blank node; an IRI of `to_urn` stays as it is."""
    if isinstance(term, Triple):
        raise InputError("has a statement about a statement (RDF-star), which is not supported", path=path)
    return term.value if isinstance(term, NamedNode) else f"_:{term.value}"  # type: ignore[attr-defined]


def _kind(literal: Literal) -> str:
    """The kind of a literal, as in `Attributes`."""
    if literal.language is not None:
        return f"@{literal.language}"
    return "" if literal.datatype.value == _STRING else from_iri(literal.datatype.value)


def write_ntriples(graph: KnowledgeGraph, path: Path) -> None:
    """Write each triple and each literal as one line of N-Triples."""
    entities = as_labels(entity_terms(graph.entities.to_pylist()))
    relations = as_labels(relation_terms(graph.relations.to_pylist()))
    # Not a constant of the module: the first Arrow scalar of a process imports pandas if it is installed.
    dot = pa.scalar(".", LABEL)
    with open_output(path) as sink:
        for first in range(0, graph.num_triples, _BATCH):
            heads, kinds, tails = (pa.array(column) for column in graph.triples[first : first + _BATCH].T)
            write_lines(sink, [entities.take(heads), relations.take(kinds), entities.take(tails), dot], " ")
        if graph.attributes is not None:
            _write_literals(sink, entities, graph.attributes)


def _write_literals(sink: pa.NativeFile, entities: pa.Array, attributes: Attributes) -> None:
    """Write the literals; `entities` are the terms of all entities."""
    predicates = as_labels(relation_terms(attributes.predicate_labels.to_pylist()))
    dot = pa.scalar(".", LABEL)
    for first in range(0, len(attributes), _BATCH):
        rows = slice(first, first + _BATCH)
        literals = [
            str(_literal(value, kind))
            for value, kind in zip(
                attributes.values[rows].to_pylist(), attributes.kinds[rows].to_pylist(), strict=True
            )
        ]
        subjects = entities.take(pa.array(attributes.entities[rows]))
        kinds = predicates.take(pa.array(attributes.predicates[rows]))
        write_lines(sink, [subjects, kinds, as_labels(literals), dot], " ")


def _literal(value: str, kind: str) -> Literal:
    if kind.startswith("@"):
        try:
            return Literal(value, language=kind[1:])
        except ValueError as error:
            raise InputError(f"{kind!r} is no language that RDF can hold") from error
    return Literal(value, datatype=NamedNode(to_iri(kind))) if kind else Literal(value)
