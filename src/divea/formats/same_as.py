"""Mappings as owl:sameAs statements."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyoxigraph import Literal, Triple

from divea.errors import InputError
from divea.formats.delimited import open_output
from divea.formats.iri import entity_terms, from_term
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
