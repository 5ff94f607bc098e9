"""Mappings as RDF: owl:sameAs statements, and the RDF/XML alignment format of the OAEI campaigns."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyarrow as pa
from pyoxigraph import Literal, NamedNode, Triple

from divea.errors import InputError
from divea.formats.delimited import open_output
from divea.formats.iri import entity_terms, from_iri, from_term, to_iri
from divea.formats.rdf import parse_file

SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"


def read_same_as(path: Path, syntax: str) -> tuple[list[str], list[str]]:
    """Both ends of every owl:sameAs statement; a file with other statements is a graph."""
    source, target = [], []
    for statement in parse_file(path, syntax):
        if statement.predicate.value != SAME_AS:
            other = statement.predicate.value
            raise InputError(f"expected only owl:sameAs statements, found <{other}>", path=path)
        if isinstance(statement.object, Literal | Triple) or isinstance(statement.subject, Triple):
            raise InputError("owl:sameAs with something other than a resource", path=path)
        source.append(from_term(statement.subject))
        target.append(from_term(statement.object))
    return source, target


def write_same_as(table: pa.Table, path: Path) -> None:
    """One statement per mapping; the scores have no place here."""
    pairs = zip(*(entity_terms(table[end].to_pylist()) for end in ("source", "target")), strict=True)
    with open_output(path) as sink:
        sink.write("".join(f"{left} <{SAME_AS}> {right} .\n" for left, right in pairs).encode())


_NAMESPACE = "http://knowledgeweb.semanticweb.org/heterogeneity/alignment"
_HEAD = f"""<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns="{_NAMESPACE}#"
         xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:xsd="http://www.w3.org/2001/XMLSchema#">
<Alignment>
<xml>yes</xml>
<level>0</level>
<type>??</type>
"""


def read_oaei(path: Path) -> tuple[list[str], list[str], None, list[float | None]]:
    """Source, target, no similarity, and the measure of each cell whose relation is `=`.

    Read with an RDF parser, since that is what the format is. Files differ in whether their
    namespace ends in `#`, so properties are known by their last word.
    """
    cells: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for statement in parse_file(path, "rdfxml"):
        predicate = statement.predicate.value
        if not predicate.startswith(_NAMESPACE):
            continue
        name = predicate.removeprefix(_NAMESPACE).lstrip("#")
        if name in ("entity1", "entity2", "measure", "relation"):
            value = statement.object
            if not isinstance(value, NamedNode | Literal):
                raise InputError(f"a cell's {name} is neither an IRI nor a literal", path=path)
            cells[str(statement.subject)][name] = value.value
    same = [cell for cell in cells.values() if cell.get("relation", "=") in ("=", "equivalence")]
    for cell in same:
        if "entity1" not in cell or "entity2" not in cell:
            raise InputError("a cell lacks entity1 or entity2", path=path)
    source = [from_iri(cell["entity1"]) for cell in same]
    target = [from_iri(cell["entity2"]) for cell in same]
    return source, target, None, [_measure(cell.get("measure"), path) for cell in same]


def _measure(text: str | None, path: Path) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError as error:
        raise InputError(f"a cell's measure is {text!r}, not a number", path=path) from error


def write_oaei(table: pa.Table, path: Path) -> None:
    """One cell per mapping; its measure is the confidence (1 where unknown)."""
    with open_output(path) as sink:
        sink.write(_HEAD.encode())
        columns = (table[name].to_pylist() for name in ("source", "target", "confidence"))
        for source, target, confidence in zip(*columns, strict=True):
            measure = 1.0 if confidence is None else confidence
            sink.write(
                f"<map><Cell><entity1 rdf:resource={quoteattr(to_iri(source))}/>"
                f"<entity2 rdf:resource={quoteattr(to_iri(target))}/>"
                f"<relation>=</relation>"
                f'<measure rdf:datatype="http://www.w3.org/2001/XMLSchema#float">{measure!r}</measure>'
                "</Cell></map>\n".encode()
            )
        sink.write(b"</Alignment>\n</rdf:RDF>\n")
