"""Tells what kind of file this is, from its first bytes and then from its name."""

from __future__ import annotations

import re
from pathlib import Path

from divea.formats.stream import open_text, reading

GRAPH_HEADERS = (
    ("head", "relation", "tail"),
    ("subject", "predicate", "object"),
    ("source", "relation", "target"),
    ("h", "r", "t"),
)
"""First rows that name the columns of a table of triples."""

_COMPRESSION = {".gz", ".bz2", ".xz", ".zst"}
_BY_SUFFIX = {
    ".nt": "ntriples",
    ".ttl": "turtle",
    ".rdf": "rdfxml",
    ".owl": "rdfxml",
    ".xml": "rdfxml",
    ".parquet": "parquet",
}
_STATEMENT = re.compile(r"(<[^<>\s]*>|_:\S+)\s*<[^<>\s]*>\s*(<|_:|\").*\.\s*(#.*)?$")


def suffix_of(path: Path) -> str:
    """The suffix that names the format: that of `a.nt.gz` is `.nt`."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() not in _COMPRESSION]
    return suffixes[-1] if suffixes else ""


def kind_of(path: Path) -> str:
    """One of ntriples, turtle, rdfxml, oaei, parquet, sssom, table.

    Content goes before the name, because downloaded files are called all sorts of things. A
    table is TSV or CSV; whether of triples or links, its columns tell.
    """
    with reading(path):
        if path.is_file():
            with path.open("rb") as raw:
                if raw.read(4) == b"PAR1":
                    return "parquet"
    with open_text(path) as stream:
        start = stream.read(1 << 16).decode("utf-8", errors="replace").lstrip()
    return _kind_of_text(start) or _BY_SUFFIX.get(suffix_of(path), "table")


def _kind_of_text(start: str) -> str | None:
    if start.startswith(("<?xml", "<rdf:RDF", "<!DOCTYPE")):
        return "oaei" if "heterogeneity/alignment" in start else "rdfxml"
    lines = [line for line in start.splitlines() if line.strip()]
    plain = [line for line in lines if not line.startswith("#")]
    if plain and {"subject_id", "object_id"} <= set(re.split(r"[\t,]", plain[0])):
        return "sssom"
    if plain and plain[0].lstrip().lower().startswith(("@prefix", "@base", "prefix ", "base ")):
        return "turtle"
    if plain and _STATEMENT.match(plain[0].strip()):
        return "ntriples"
    return None
