"""Recognises the kind of a file by its first bytes and, if they do not decide, by its name."""

from __future__ import annotations

import re
from pathlib import Path

from divea.errors import InputError
from divea.formats.stream import open_text, reading

GRAPH_HEADERS = (
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("source", "relation", "target"),
    ("h", "r", "t"),
)
"""First rows that name the columns of a table of triples."""

_COMPRESSION_SUFFIXES = {".gz", ".bz2", ".xz", ".zst"}
_KIND_OF_SUFFIX = {
    ".nt": "ntriples",
    ".nq": "nquads",
    ".ttl": "turtle",
    ".trig": "trig",
    ".rdf": "rdfxml",
    ".owl": "rdfxml",
    ".xml": "rdfxml",
    ".parquet": "parquet",
    ".jsonld": "jsonld",
}
_N_TRIPLES_LINE = re.compile(r"(<[^<>\s]*>|_:\S+)\s*<[^<>\s]*>\s*(<|_:|\").*\.\s*(#.*)?$")
_N_QUADS_LINE = re.compile(
    r"(<[^<>\s]*>|_:\S+)\s*<[^<>\s]*>\s*"
    r"(<[^<>\s]*>|_:\S+|\"(?:[^\"\\]|\\.)*\"(?:@[\w-]+|\^\^<[^<>\s]*>)?)\s*"
    r"(<[^<>\s]*>|_:\S+)\s*\.\s*(#.*)?$"
)
"""A line of N-Triples with one more term, the name of a graph."""
_LARGER = {("ntriples", "nquads"), ("ntriples", "trig"), ("turtle", "trig")}
"""The kind that the content of a file shows, and a kind that includes it: the name decides between them."""
_JSON_LD = re.compile(r"[{\[].*\"@(context|graph|id|type)\"", re.DOTALL)


def suffix_of(path: Path) -> str:
    """The suffix that names the format, in lower case; compression suffixes are skipped.

    >>> suffix_of(Path("graph.NT.gz")), suffix_of(Path("triples_1"))
    ('.nt', '')
    """
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _COMPRESSION_SUFFIXES]
    return suffixes[-1] if suffixes else ""


def kind_of(path: Path) -> str:
    """The kind of a file: ntriples, nquads, turtle, trig, rdfxml, oaei, parquet, sssom or table.

    The content decides before the name, because the names of downloaded files are unreliable. A table is TSV
    or CSV; its columns show whether it contains triples or links. Raises InputError for JSON-LD.
    """
    with reading(path):
        if path.is_file():
            with path.open("rb") as raw:
                if raw.read(4) == b"PAR1":
                    return "parquet"
    with open_text(path) as stream:
        start = stream.read(1 << 16).decode("utf-8", errors="replace").lstrip()
    found, named = _kind_of_text(start), _kind_of_name(path)
    kind = named if found is None or (found, named) in _LARGER else found
    if kind == "jsonld":
        raise InputError("JSON-LD is not supported; convert it to N-Triples first", path=path)
    return kind


def _kind_of_name(path: Path) -> str:
    return "sssom" if ".sssom." in path.name.lower() else _KIND_OF_SUFFIX.get(suffix_of(path), "table")


def _kind_of_text(start: str) -> str | None:
    """The kind of a file that starts with this text; None if the text does not decide."""
    if start.startswith(("<?xml", "<rdf:RDF", "<!DOCTYPE")):
        return "oaei" if "heterogeneity/alignment" in start else "rdfxml"
    if _JSON_LD.match(start):
        return "jsonld"
    lines = [line for line in start.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    first = lines[0]
    if {"subject_id", "object_id"} <= set(re.split(r"[\t,]", first)):
        return "sssom"
    if first.lstrip().lower().startswith(("@prefix", "@base", "prefix ", "base ")):
        return "turtle"
    if _N_TRIPLES_LINE.match(first.strip()):
        return "nquads" if _N_QUADS_LINE.match(first.strip()) else "ntriples"
    return None
