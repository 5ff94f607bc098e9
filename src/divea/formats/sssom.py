"""Mappings as SSSOM, the TSV format for sharing ontology mappings.

divea writes the format itself, because the `sssom` package depends on a hundred other distributions. The
tests check the files with the validator of that package.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pyarrow as pa
import yaml

from divea.errors import InputError
from divea.formats.delimited import open_output
from divea.formats.iri import from_iri, to_iri, to_urn
from divea.formats.stream import LONGEST_LINE, open_text

_BUILT_IN_PREFIXES = {
    "owl": "http://www.w3.org/2002/07/owl#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
}
_SAME = {"skos:exactMatch", "owl:sameAs", "owl:equivalentClass", "owl:equivalentProperty"}
"""Predicates of mappings between things that are the same."""
_COLUMNS = (
    "subject_id",
    "predicate_id",
    "object_id",
    "mapping_justification",
    "confidence",
    "similarity_score",
    "other",
)
_RAW_SIMILARITY = "similarity="
"""Starts a similarity outside 0 to 1 in the column `other`."""
_LOCAL_NAME = re.compile(r"[A-Za-z0-9_](?:[\w.%()'!*,;=@&$+~-]*[\w%()'!*,;=@&$+~-])?\Z")
"""Names that the validator accepts after the colon of a CURIE."""


def read_sssom(path: Path) -> tuple[list[str], list[str], list[float | None], list[float | None]]:
    """The subjects, objects, similarities and confidences of the mappings between things that are the same.

    Rows with another predicate, and negated rows, are left out.
    """
    lines = _read_lines(path)
    start = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    prefixes = _BUILT_IN_PREFIXES | _curie_map([line[1:] for line in lines[:start]], path)
    csv.field_size_limit(LONGEST_LINE)
    delimiter = "\t" if "\t" in lines[start] else ","
    rows = csv.DictReader(lines[start:], delimiter=delimiter)
    subjects: list[str] = []
    objects: list[str] = []
    similarities: list[float | None] = []
    confidences: list[float | None] = []
    for row in rows:
        line = start + rows.line_num
        if row.get("subject_id") in (None, "") or row.get("object_id") in (None, ""):
            raise InputError("a row without subject_id or object_id", path=path, line=line)
        if row.get("predicate_id") not in _SAME or row.get("predicate_modifier") == "Not":
            continue
        subjects.append(_expand(row["subject_id"], prefixes))
        objects.append(_expand(row["object_id"], prefixes))
        similarities.append(_parse_number(_similarity_text(row), path, line))
        confidences.append(_parse_number(row.get("confidence"), path, line))
    return subjects, objects, similarities, confidences


def _read_lines(path: Path) -> list[str]:
    with open_text(path) as stream:
        try:
            return io.TextIOWrapper(stream, encoding="utf-8", newline="").read().splitlines()
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8; convert it first", path=path) from error


def _curie_map(header: list[str], path: Path) -> dict[str, str]:
    """The namespace of each prefix that the metadata at the top of the file define."""
    try:
        metadata = yaml.safe_load("\n".join(header)) or {}
        prefixes = metadata.get("curie_map") or {}
        return {str(prefix): str(namespace) for prefix, namespace in prefixes.items()}
    except (yaml.YAMLError, AttributeError) as error:
        raise InputError("the metadata at the top is not valid YAML", path=path) from error


def _expand(curie: str, prefixes: dict[str, str]) -> str:
    """The label of a CURIE; an IRI, or a CURIE with an unknown prefix, is read as an IRI."""
    prefix, colon, rest = curie.partition(":")
    return from_iri(prefixes[prefix] + rest) if colon and prefix in prefixes else from_iri(curie)


def _similarity_text(row: dict[str, str]) -> str | None:
    """The similarity of a row: from the column `other` if `write_sssom` put it there."""
    other = row.get("other") or ""
    if other.startswith(_RAW_SIMILARITY):
        return other.removeprefix(_RAW_SIMILARITY)
    return row.get("similarity_score")


def _parse_number(text: str | None, path: Path, line: int) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise InputError(f"{text!r} is not a number", path=path, line=line) from error


def write_sssom(table: pa.Table, path: Path) -> None:
    """Write one `skos:exactMatch` row per mapping.

    SSSOM scores are between 0 and 1. A similarity outside that range, as CSLS gives, is written to the free
    column `other`, so that it is kept and the file is valid.
    """
    prefixes: dict[str, str] = {}
    rows = io.StringIO()
    writer = csv.writer(rows, delimiter="\t", lineterminator="\n")
    writer.writerow(_COLUMNS)
    for mapping in table.to_pylist():
        similarity = mapping["similarity"]
        is_valid = similarity is None or 0 <= similarity <= 1
        writer.writerow(
            (
                _shorten(mapping["source"], prefixes),
                "skos:exactMatch",
                _shorten(mapping["target"], prefixes),
                "semapv:UnspecifiedMatching",
                mapping["confidence"],
                similarity if is_valid else None,
                None if is_valid else f"{_RAW_SIMILARITY}{similarity!r}",
            )
        )
    with open_output(path) as sink:
        sink.write(_metadata(prefixes).encode())
        sink.write(rows.getvalue().encode())


def _metadata(prefixes: dict[str, str]) -> str:
    """The lines at the top of the file; `prefixes` gives the prefix of each namespace."""
    metadata = {
        "curie_map": _BUILT_IN_PREFIXES | {prefix: namespace for namespace, prefix in prefixes.items()},
        "license": "https://w3id.org/sssom/license/unspecified",
        "mapping_set_id": "https://w3id.org/sssom/mappings/divea",
        "mapping_tool": "divea",
    }
    text = yaml.safe_dump(metadata, sort_keys=True, allow_unicode=True, width=10**6)
    return "".join(f"#{line}\n" for line in text.splitlines())


def _shorten(label: str, prefixes: dict[str, str]) -> str:
    """A label as a CURIE; a namespace that is new is added to `prefixes`.

    >>> prefixes = {}
    >>> _shorten("http://a.example/x", prefixes), _shorten("http://a.example/y", prefixes), prefixes
    ('ns1:x', 'ns1:y', {'http://a.example/': 'ns1'})
    """
    iri = to_iri(label)
    cut = max(iri.rfind("/"), iri.rfind("#"), iri.find(":")) + 1
    if not _LOCAL_NAME.match(iri[cut:]):
        iri = to_urn(label)
        cut = iri.rfind(":") + 1
    prefix = prefixes.setdefault(iri[:cut], f"ns{len(prefixes) + 1}")
    return f"{prefix}:{iri[cut:]}"
