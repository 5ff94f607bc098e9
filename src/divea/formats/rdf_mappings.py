"""Mappings as RDF: owl:sameAs statements, and the alignment format of the OAEI campaigns (RDF/XML)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from xml.sax.saxutils import quoteattr

import pyarrow as pa
from pyoxigraph import Literal, NamedNode, Triple

from divea.errors import InputError
from divea.formats.iri import entity_terms, from_iri, from_term, to_iri
from divea.formats.output import open_output
from divea.formats.rdf import parse_file

SAME_AS = "http://www.w3.org/2002/07/owl#sameAs"

_OAEI_NAMESPACE = "http://knowledgeweb.semanticweb.org/heterogeneity/alignment"
_OAEI_START = f"""<?xml version="1.0" encoding="utf-8"?>
<rdf:RDF xmlns="{_OAEI_NAMESPACE}#"
         xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
         xmlns:xsd="http://www.w3.org/2001/XMLSchema#">
<Alignment>
<xml>yes</xml>
<level>0</level>
<type>??</type>
"""
_OAEI_END = "</Alignment>\n</rdf:RDF>\n"


def read_same_as(path: Path, syntax: str) -> tuple[list[str], list[str]]:
    """The subjects and the objects of a file of owl:sameAs statements, as labels.

    Raises InputError if there is any other statement, because such a file is a graph.

    Parameters
    ----------
    syntax
        One of `divea.formats.rdf.SYNTAX`.
    """
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
    """Write one owl:sameAs statement per mapping, as N-Triples; numbers are left out."""
    pairs = zip(*(entity_terms(table[end].to_pylist()) for end in ("source", "target")), strict=True)
    with open_output(path) as sink:
        sink.write("".join(f"{left} <{SAME_AS}> {right} .\n" for left, right in pairs).encode())


def read_oaei(path: Path) -> tuple[list[str], list[str], list[float | None]]:
    """The sources, targets and confidences of an OAEI alignment.

    A cell's measure is its confidence. Cells with a relation other than `=` are left out. The file is parsed
    as RDF. Some files have a namespace that ends in `#` and others do not, so a property is recognised by the
    part of its name after the namespace and the `#`.
    """
    cells: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for statement in parse_file(path, "rdfxml"):
        predicate = statement.predicate.value
        if not predicate.startswith(_OAEI_NAMESPACE):
            continue
        name = predicate.removeprefix(_OAEI_NAMESPACE).lstrip("#")
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
    return source, target, [_parse_measure(cell.get("measure"), path) for cell in same]


def _parse_measure(text: str | None, path: Path) -> float | None:
    try:
        return None if text is None else float(text)
    except ValueError as error:
        raise InputError(f"a cell's measure is {text!r}, not a number", path=path) from error


def write_oaei(table: pa.Table, path: Path) -> None:
    """Write one cell per mapping; its measure is the confidence, or 1 if that is unknown."""
    with open_output(path) as sink:
        sink.write(_OAEI_START.encode())
        for mapping in table.to_pylist():
            source, target, confidence = mapping["source"], mapping["target"], mapping.get("confidence")
            measure = 1.0 if confidence is None else confidence
            sink.write(
                f"<map><Cell><entity1 rdf:resource={quoteattr(to_iri(source))}/>"
                f"<entity2 rdf:resource={quoteattr(to_iri(target))}/>"
                f"<relation>=</relation>"
                f'<measure rdf:datatype="http://www.w3.org/2001/XMLSchema#float">{measure!r}</measure>'
                "</Cell></map>\n".encode()
            )
        sink.write(_OAEI_END.encode())
