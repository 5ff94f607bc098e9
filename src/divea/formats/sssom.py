"""Mappings as SSSOM, the TSV format for sharing ontology mappings.

Written here rather than by the `sssom` package, which brings a hundred distributions; the
tests check what we write with that package's validator.
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

_BUILT_IN = {
    "owl": "http://www.w3.org/2002/07/owl#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
}
_SAME = {"skos:exactMatch", "owl:sameAs", "owl:equivalentClass", "owl:equivalentProperty"}
_COLUMNS = (
    "subject_id",
    "predicate_id",
    "object_id",
    "mapping_justification",
    "confidence",
    "similarity_score",
    "other",
)
_RAW = "similarity="
"""Marks a similarity outside 0 to 1 in the column `other`."""
_LOCAL_NAME = re.compile(r"[A-Za-z0-9_](?:[\w.%()'!*,;=@&$+~-]*[\w%()'!*,;=@&$+~-])?\Z")


def read_sssom(path: Path) -> tuple[list[str], list[str], list[float | None], list[float | None]]:
    """Subjects, objects, similarity scores and confidences of the rows that state sameness."""
    with open_text(path) as stream:
        try:
            lines = io.TextIOWrapper(stream, encoding="utf-8", newline="").read().splitlines()
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8; convert it first", path=path) from error
    split = next((i for i, line in enumerate(lines) if not line.startswith("#")), len(lines))
    prefixes = _BUILT_IN | _curie_map([line[1:] for line in lines[:split]], path)
    csv.field_size_limit(LONGEST_LINE)
    delimiter = "\t" if "\t" in lines[split] else ","
    rows = csv.DictReader(lines[split:], delimiter=delimiter)
    columns: tuple[list[str], list[str], list[float | None], list[float | None]] = ([], [], [], [])
    for row in rows:
        line = split + rows.line_num
        if row.get("subject_id") in (None, "") or row.get("object_id") in (None, ""):
            raise InputError("a row without subject_id or object_id", path=path, line=line)
        if row.get("predicate_id") not in _SAME or row.get("predicate_modifier") == "Not":
            continue
        columns[0].append(_expand(row["subject_id"], prefixes))
        columns[1].append(_expand(row["object_id"], prefixes))
        other = row.get("other") or ""
        similarity = other.removeprefix(_RAW) if other.startswith(_RAW) else row.get("similarity_score")
        columns[2].append(_number(similarity, path, line))
        columns[3].append(_number(row.get("confidence"), path, line))
    return columns


def _curie_map(header: list[str], path: Path) -> dict[str, str]:
    try:
        metadata = yaml.safe_load("\n".join(header)) or {}
        prefixes = metadata.get("curie_map") or {}
        return {str(prefix): str(namespace) for prefix, namespace in prefixes.items()}
    except (yaml.YAMLError, AttributeError) as error:
        raise InputError("the metadata at the top is not valid YAML", path=path) from error


def _expand(curie: str, prefixes: dict[str, str]) -> str:
    prefix, colon, rest = curie.partition(":")
    return from_iri(prefixes[prefix] + rest) if colon and prefix in prefixes else from_iri(curie)


def _number(text: str | None, path: Path, line: int) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise InputError(f"{text!r} is not a number", path=path, line=line) from error


def write_sssom(table: pa.Table, path: Path) -> None:
    """One `skos:exactMatch` row per mapping.

    SSSOM scores lie between 0 and 1. A raw similarity outside that range, as CSLS gives, goes
    into the free column `other`, so that it is kept and the file stays valid.
    """
    prefixes: dict[str, str] = {}
    rows = io.StringIO()
    writer = csv.writer(rows, delimiter="\t", lineterminator="\n")
    writer.writerow(_COLUMNS)
    for mapping in table.to_pylist():
        similarity = mapping["similarity"]
        valid = similarity is None or 0 <= similarity <= 1
        writer.writerow(
            (
                _shorten(mapping["source"], prefixes),
                "skos:exactMatch",
                _shorten(mapping["target"], prefixes),
                "semapv:UnspecifiedMatching",
                mapping["confidence"],
                similarity if valid else None,
                None if valid else f"{_RAW}{similarity!r}",
            )
        )
    metadata = {
        "curie_map": _BUILT_IN | {prefix: namespace for namespace, prefix in prefixes.items()},
        "license": "https://w3id.org/sssom/license/unspecified",
        "mapping_set_id": "https://w3id.org/sssom/mappings/divea",
        "mapping_tool": "divea",
    }
    header = yaml.safe_dump(metadata, sort_keys=True, allow_unicode=True, width=10**6)
    with open_output(path) as sink:
        sink.write("".join(f"#{line}\n" for line in header.splitlines()).encode())
        sink.write(rows.getvalue().encode())


def _shorten(label: str, prefixes: dict[str, str]) -> str:
    """A label as prefix:name; each namespace gets a prefix when it first comes up."""
    iri = to_iri(label)
    cut = max(iri.rfind("/"), iri.rfind("#"), iri.find(":")) + 1
    if not _LOCAL_NAME.match(iri[cut:]):
        iri = to_urn(label)
        cut = iri.rfind(":") + 1
    prefix = prefixes.setdefault(iri[:cut], f"ns{len(prefixes) + 1}")
    return f"{prefix}:{iri[cut:]}"
