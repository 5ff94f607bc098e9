"""RDF graphs: N-Triples, Turtle and RDF/XML in, N-Triples (which is Turtle too) out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyoxigraph import Literal, NamedNode, RdfFormat, Triple, parse

from divea.errors import InputError
from divea.formats.delimited import open_output, write_lines
from divea.formats.iri import entity_terms, from_iri, labels_of_iris, relation_terms, to_iri
from divea.formats.stream import LONGEST_LINE, open_text
from divea.graphs import Attributes, GraphBuilder, KnowledgeGraph
from divea.graphs.labels import LABEL, as_labels

SYNTAX = {"ntriples": RdfFormat.N_TRIPLES, "turtle": RdfFormat.TURTLE, "rdfxml": RdfFormat.RDF_XML}

_BATCH = 1 << 15
_DOT = pa.scalar(".", LABEL)
_STRING = "http://www.w3.org/2001/XMLSchema#string"


def parse_file(path: Path, syntax: str) -> Iterator[Triple]:
    """Statements of a file, as pyoxigraph's terms; errors name the line."""
    with open_text(path) as stream:
        try:
            yield from parse(stream, SYNTAX[syntax], without_named_graphs=True)
        except SyntaxError as error:
            message = error.msg.removesuffix(f" (line {error.lineno})")
            raise InputError(f"not valid RDF: {message}", path=path, line=error.lineno) from error
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8; convert it first", path=path) from error
        except MemoryError as error:
            # The parser's own guard against a token that never ends.
            raise InputError(f"a literal of more than {LONGEST_LINE >> 20} MiB", path=path) from error


def read_rdf(path: Path, syntax: str) -> KnowledgeGraph:
    """IRIs and blank nodes become entities, literals become attributes."""
    builder = GraphBuilder()
    links: tuple[list[str], list[str], list[str]] = ([], [], [])
    literals: tuple[list[str], list[str], list[str], list[str]] = ([], [], [], [])
    add_head, add_relation, add_tail = (column.append for column in links)
    statements = parse_file(path, syntax)
    while True:
        for statement in islice(statements, _BATCH):
            subject, object_ = statement.subject, statement.object
            # Millions of statements join two IRIs: this branch does as little as it can.
            if type(object_) is NamedNode and type(subject) is NamedNode:
                add_head(subject.value)
                add_relation(statement.predicate.value)
                add_tail(object_.value)
            elif type(object_) is Literal:
                if len(object_.value) > LONGEST_LINE:
                    raise InputError(f"a literal of more than {LONGEST_LINE >> 20} MiB", path=path)
                row = (_label(subject, path), statement.predicate.value, object_.value, _kind(object_))
                for column, value in zip(literals, row, strict=True):
                    column.append(value)
            else:
                add_head(_label(subject, path))
                add_relation(statement.predicate.value)
                add_tail(_label(object_, path))
        if not links[0] and not literals[0]:
            return builder.build()
        _flush(builder, links, literals)


def _label(term: object, path: Path) -> str:
    if isinstance(term, Triple):
        raise InputError("states something about a statement (RDF-star), which is not supported", path=path)
    return term.value if isinstance(term, NamedNode) else f"_:{term.value}"  # type: ignore[attr-defined]


def _kind(literal: Literal) -> str:
    if literal.language is not None:
        return f"@{literal.language}"
    return "" if literal.datatype.value == _STRING else from_iri(literal.datatype.value)


def _flush(builder: GraphBuilder, links: tuple[list[str], ...], literals: tuple[list[str], ...]) -> None:
    """Hand the collected columns to the builder and start anew."""
    heads, relations, tails = (labels_of_iris(as_labels(column)) for column in links)
    builder.add_triples(heads, relations, tails)
    subjects, predicates, values, kinds = (as_labels(column) for column in literals)
    builder.add_attributes(labels_of_iris(subjects), labels_of_iris(predicates), values, kinds)
    for column in (*links, *literals):
        column.clear()


def write_ntriples(graph: KnowledgeGraph, path: Path) -> None:
    """Every triple and literal as one N-Triples line."""
    entities = as_labels(entity_terms(graph.entities.to_pylist()))
    relations = as_labels(relation_terms(graph.relations.to_pylist()))
    with open_output(path) as sink:
        for first in range(0, graph.num_triples, _BATCH):
            heads, kinds, tails = (pa.array(c) for c in graph.triples[first : first + _BATCH].T)
            write_lines(sink, [entities.take(heads), relations.take(kinds), entities.take(tails), _DOT], " ")
        if graph.attributes is not None:
            _write_literals(sink, entities, graph.attributes)


def _write_literals(sink: pa.NativeFile, entities: pa.Array, attributes: Attributes) -> None:
    predicates = as_labels(relation_terms(attributes.predicate_labels.to_pylist()))
    for first in range(0, len(attributes), _BATCH):
        rows = slice(first, first + _BATCH)
        terms = [
            str(_literal(value, kind))
            for value, kind in zip(
                attributes.values[rows].to_pylist(), attributes.kinds[rows].to_pylist(), strict=True
            )
        ]
        subjects = entities.take(pa.array(attributes.entities[rows]))
        kinds = predicates.take(pa.array(attributes.predicates[rows]))
        write_lines(sink, [subjects, kinds, as_labels(terms), _DOT], " ")


def _literal(value: str, kind: str) -> Literal:
    if kind.startswith("@"):
        return Literal(value, language=kind[1:])
    return Literal(value, datatype=NamedNode(to_iri(kind))) if kind else Literal(value)
