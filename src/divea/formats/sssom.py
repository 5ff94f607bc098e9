"""Mappings as SSSOM, the TSV format for sharing ontology mappings.

divea writes the format itself, because the `sssom` package depends on a hundred other distributions. The
tests check the files with the validator of that package.

SSSOM names things by CURIEs, and their URIs are ASCII. An IRI in another script is written as the URI that
RFC 3987 gives it, percent-encoded, with the readable text in the column `subject_label` or `object_label`.
If these columns hold names, the text that tells which IRI a URI was is in the column `other`.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pyarrow as pa

from divea.errors import InputError
from divea.formats.iri import URN, from_iri, to_iri
from divea.formats.output import open_output
from divea.formats.stream import LONGEST_LINE, open_text
from divea.yaml_text import parse_yaml

_BUILT_IN_PREFIXES = {
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "semapv": "https://w3id.org/semapv/vocab/",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "sssom": "https://w3id.org/sssom/",
}
_SAME = {"skos:exactMatch", "owl:sameAs", "owl:equivalentClass", "owl:equivalentProperty"}
"""Predicates of mappings between things that are the same."""
_COLUMNS = (
    "subject_id",
    "subject_label",
    "predicate_id",
    "object_id",
    "object_label",
    "mapping_justification",
    "confidence",
    "similarity_score",
    "other",
)
_COMMENT = "comment"
"""A further column, which holds the context of both ends, and other candidates."""
_FOR_REVIEW = ("predicate_modifier", "reviewer_label")
"""Further columns for people who judge pairs."""
_NOT = "not"
"""The only modifier of a predicate, in lower case: the two are not the same."""
_FOUND, _GIVEN = "semapv:UnspecifiedMatching", "semapv:ManualMappingCuration"
"""The justification of a pair that a tool found, and of one that was given: a seed."""
_BY_PEOPLE = {_GIVEN, "semapv:MappingReview"}
"""Justifications of pairs that a person judged."""
_SIGNATURES = ("reviewer_id", "reviewer_label")
_TOOL = "divea"
_MOST_METADATA = 1 << 20
"""The most bytes of the metadata at the top of a file."""
_MOST_EMPTY_LINES = 1_000_000
"""The most empty lines; a compressed file of a few kilobytes can contain a thousand times as many."""
_URI_CHARACTERS = "%:/?#[]@!$&'()*+,;=~-._"
"""What `quote` must leave as it is, beside letters and digits, to turn an IRI into a URI."""
_SMALLEST_NAMESPACE = 0.01
"""A namespace gets a prefix if this share of all names is in it; a smaller one is part of a larger one."""


class Mappings(NamedTuple):
    """The columns of a file of mappings; a value that the file does not give is None."""

    source: list[str]
    target: list[str]
    score: list[float | None]
    confidence: list[float | None]
    rank: list[float | None]


def read_sssom(path: Path) -> Mappings:
    """The mappings between things that are the same.

    Rows with another predicate, and negated rows, are left out.
    """
    found = Mappings([], [], [], [], [])
    for line, row, metadata in _same_rows(path):
        if not _is_negated(row, path, line):
            found.source.append(metadata.label(row, "subject"))
            found.target.append(metadata.label(row, "object"))
            numbers = [_parse_number(number, path, line) for number in metadata.numbers(row)]
            for column, number in zip(found[2:], numbers, strict=True):
                column.append(number)
    return found


def read_judged(path: Path) -> Iterator[tuple[int, str, str, str]]:
    """The pairs that a person judged: the line, "accept" or "reject", and the labels of both ends.

    A negated row is rejected. A row with the justification of a person, or with a reviewer, is accepted.
    """
    for line, row, metadata in _same_rows(path):
        is_rejected = _is_negated(row, path, line)
        is_signed = row.get("mapping_justification") in _BY_PEOPLE or any(map(row.get, _SIGNATURES))
        if is_rejected or is_signed:
            verdict = "reject" if is_rejected else "accept"
            yield line, verdict, metadata.label(row, "subject"), metadata.label(row, "object")


def sssom_sources(path: Path) -> list[str]:
    """The sources of all rows about things that are the same, or are not the same."""
    return [metadata.label(row, "subject") for _, row, metadata in _same_rows(path)]


def _is_negated(row: dict[str, str], path: Path, line: int) -> bool:
    modifier = (row.get("predicate_modifier") or "").strip()
    if modifier and modifier.lower() != _NOT:
        problem = f"predicate_modifier is {modifier[:80]!r}; expected Not, or nothing"
        raise InputError(problem, path=path, line=line)
    return bool(modifier)


def _same_rows(path: Path) -> Iterator[tuple[int, dict[str, str], _Metadata]]:
    """The rows about things that are the same, or are not the same, each with its line and the metadata."""
    with open_text(path) as stream:
        text = _lines(io.TextIOWrapper(stream, encoding="utf-8", newline=""), path)
        line = 0
        try:
            start, top, columns = _read_top(text, path)
            metadata = _Metadata(top, path)
            for line, row in _read_rows(text, start, columns, path):
                if row.get("predicate_id") in _SAME:
                    yield line, row, metadata
        except UnicodeDecodeError as error:
            raise InputError("is not UTF-8; convert it first", path=path) from error
        except csv.Error as error:
            raise InputError(f"is not a valid table: {error}", path=path, line=line + 1) from error


def _lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    """The lines of a text; refuses very many empty ones."""
    empty = 0
    for number, line in enumerate(text, start=1):
        if line.isspace():
            empty += 1
            if empty > _MOST_EMPTY_LINES:
                raise InputError(f"more than {_MOST_EMPTY_LINES} empty lines", path=path, line=number)
        yield line


def _read_top(text: Iterator[str], path: Path) -> tuple[int, str, str]:
    """The number of the line with the names of the columns, the metadata above it, and that line."""
    metadata: list[str] = []
    size = 0
    for number, line in enumerate(text, start=1):
        if line.startswith("#"):
            size += len(line)
            if size > _MOST_METADATA:
                limit = f"{_MOST_METADATA >> 20} MiB"
                raise InputError(f"the metadata at the top are longer than {limit}", path=path)
            metadata.append(line[1:])
        elif line.strip():
            return number, "".join(metadata), line
    raise InputError("contains no table", path=path)


def _read_rows(
    text: Iterator[str], start: int, columns: str, path: Path
) -> Iterator[tuple[int, dict[str, str]]]:
    """Each row with the number of its (last) line; `start` is the number of the line of column names."""
    csv.field_size_limit(LONGEST_LINE)
    delimiter = "\t" if "\t" in columns else ","
    names = next(csv.reader([columns], delimiter=delimiter))
    for name in _COLUMNS:
        if names.count(name) > 1:
            raise InputError(f"the column '{name}' appears twice", path=path, line=start)
    rows = csv.reader(text, delimiter=delimiter)
    for values in rows:
        if not values:
            continue
        row = dict(zip(names, values, strict=False))
        line = start + rows.line_num
        if not row.get("subject_id") or not row.get("object_id"):
            raise InputError("a row without subject_id or object_id", path=path, line=line)
        yield line, row


class _Metadata:
    """What the metadata at the top of a file say about its rows."""

    def __init__(self, text: str, path: Path) -> None:
        try:
            found = parse_yaml(text, typed=False) or {}
            prefixes = (found.get("curie_map") or {}) if isinstance(found, dict) else None
            if not isinstance(prefixes, dict):
                raise ValueError("expected curie_map and other properties by name")
            own = {prefix: namespace for prefix, namespace in prefixes.items() if isinstance(namespace, str)}
            # A quoted scalar of YAML can contain half a surrogate pair, which is no character.
            "".join([*own.keys(), *own.values()]).encode()
        except ValueError as error:
            raise InputError(f"the metadata at the top are not valid YAML: {error}", path=path) from error
        self._prefixes = _BUILT_IN_PREFIXES | own
        self._is_ours = found.get("mapping_tool") == _TOOL

    def label(self, row: dict[str, str], end: str) -> str:
        """The label of a row's subject or object; a name without a known prefix is read as an IRI."""
        name = row[f"{end}_id"]
        prefix, _, rest = name.partition(":")
        namespace = self._prefixes.get(prefix)
        if namespace is None:
            return from_iri(name)
        if not self._is_ours or namespace == URN:
            return from_iri(namespace + rest)
        text = _read_other(row).get(end) or row.get(f"{end}_label")
        return _expand(namespace, rest, text)

    def numbers(self, row: dict[str, str]) -> tuple[str | None, str | None, str | None]:
        """The score, the confidence and the rank of a row, as text."""
        score, confidence = row.get("similarity_score"), row.get("confidence")
        if not self._is_ours:
            return score, confidence, None
        other = _read_other(row)
        # Earlier releases wrote `similarity=1.5`.
        score = other.get("score") or other.get("similarity") or score
        return score, other.get("confidence") or confidence, other.get("rank")


def _read_other(row: dict[str, str]) -> dict[str, str]:
    """The column `other` of a row that divea wrote: a list of pairs such as `score=1.5|rank=2`."""
    text = row.get("other")
    return dict(pair.split("=", 1) for pair in text.split("|") if "=" in pair) if text else {}


def _expand(namespace: str, name: str, text: str | None) -> str:
    """The label of a name after a prefix; `text` is used if the name is the percent-encoding of it."""
    return namespace + text if text and _as_uri(text) == name else from_iri(namespace + name)


def _parse_number(text: str | None, path: Path, line: int) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise InputError(f"{text[:80]!r} is not a number", path=path, line=line) from error  # type: ignore[index]


def write_sssom(table: pa.Table, path: Path, *, for_review: bool = False) -> None:
    """Write one `skos:exactMatch` row per mapping.

    SSSOM has no rank, and its scores are between 0 and 1. A rank, and a number outside that range, as a score
    of CSLS can be, is written to the free column `other`, so that it is kept and the file is valid. Names in
    the columns `source_label` and `target_label` become `subject_label` and `object_label`, contexts become
    the `comment`, and a pair with the origin "seed" has another justification than one that was found.

    Parameters
    ----------
    for_review
        Add empty columns for the verdicts of a person.
    """
    iri_of = {label: to_iri(label) for name in ("source", "target") for label in table[name].to_pylist()}
    prefixes = _choose_prefixes(iri_of.values())
    has_comment = bool({"source_context", "target_context"} & {*table.column_names})
    columns = (*_COLUMNS, _COMMENT) if has_comment else _COLUMNS
    empty = ("",) * len(_FOR_REVIEW) if for_review else ()
    if for_review:
        columns = (*columns, *_FOR_REVIEW)
    with open_output(path) as sink:
        sink.write(_metadata(prefixes).encode())
        sink.write(("\t".join(columns) + "\n").encode())
        for batch in table.to_batches(max_chunksize=1 << 16):
            rows = io.StringIO()
            writer = csv.writer(rows, delimiter="\t", lineterminator="\n")
            for mapping in batch.to_pylist():
                row = _row(mapping, iri_of, prefixes)
                writer.writerow((*row, _comment(mapping), *empty) if has_comment else (*row, *empty))
            sink.write(rows.getvalue().encode())


def _row(mapping: dict[str, Any], iri_of: dict[str, str], prefixes: dict[str, str]) -> tuple[Any, ...]:
    """The columns of a mapping, in the order of `_COLUMNS`."""
    subject, subject_label, subject_text = _end(
        iri_of[mapping["source"]], mapping.get("source_label"), prefixes
    )
    object_, object_label, object_text = _end(
        iri_of[mapping["target"]], mapping.get("target_label"), prefixes
    )
    confidence, score, other = _number_columns(mapping)
    other += [f"{end}={text}" for end, text in (("subject", subject_text), ("object", object_text)) if text]
    justification = _GIVEN if mapping.get("origin") == "seed" else _FOUND
    return (
        subject,
        subject_label,
        "skos:exactMatch",
        object_,
        object_label,
        justification,
        confidence,
        score,
        "|".join(other),
    )


def _end(iri: str, name: str | None, prefixes: dict[str, str]) -> tuple[str, str, str]:
    """The CURIE of an end, its label, and the text for `other` that is needed to read the IRI back.

    >>> _end("http://y.example/Ü", "Umlaut", {"http://y.example/": "ns1"})
    ('ns1:%C3%9C', 'Umlaut', 'Ü')
    """
    curie, label = _shorten(iri, prefixes)
    if not name:
        return curie, label, ""
    namespace = _namespace(iri, prefixes)
    is_read_back = namespace == URN or _expand(namespace, curie.partition(":")[2], name) == iri
    return curie, name, "" if is_read_back else iri[len(namespace) :]


def _comment(mapping: dict[str, Any]) -> str:
    """The contexts of both ends, and other candidates, as one text."""
    texts = [(end, mapping.get(f"{end}_context")) for end in ("source", "target")]
    others = (name for name in mapping if re.fullmatch(r"other_\d+", name) and mapping[name])
    texts += [(name, f"{mapping.get(f'{name}_label') or ''} <{mapping[name]}>".strip()) for name in others]
    return " | ".join(f"{name}: {text}" for name, text in texts if text)


def _number_columns(mapping: dict[str, Any]) -> tuple[float | None, float | None, list[str]]:
    """The columns confidence and similarity_score, and what the column other holds of the numbers."""
    other = []
    columns = []
    for name in ("confidence", "score"):
        value = mapping.get(name)
        is_valid = value is None or 0 <= value <= 1
        columns.append(value if is_valid else None)
        if not is_valid:
            other.append(f"{name}={value!r}")
    if mapping.get("rank") is not None:
        other.append(f"rank={mapping['rank']}")
    return columns[0], columns[1], other


def _metadata(prefixes: dict[str, str]) -> str:
    """The lines at the top of the file; `prefixes` gives the prefix of each namespace."""
    import yaml

    used = {prefix: namespace for namespace, prefix in prefixes.items()}
    metadata = {
        "curie_map": {prefix: _BUILT_IN_PREFIXES[prefix] for prefix in ("semapv", "skos")} | used,
        "license": "https://w3id.org/sssom/license/unspecified",
        "mapping_set_id": "https://w3id.org/sssom/mappings/divea",
        "mapping_tool": _TOOL,
    }
    text = yaml.safe_dump(metadata, sort_keys=True, allow_unicode=True, width=10**6)
    return "".join(f"#{line}\n" for line in text.splitlines())


def _choose_prefixes(iris: Iterable[str]) -> dict[str, str]:
    """The prefix of each namespace that many IRIs share; every IRI starts with one of these namespaces.

    >>> _choose_prefixes(["http://a.example/film/1", "http://a.example/film/2", "http://b.example/Ü/1"])
    {'http://a.example/film/': 'ns1', 'http://b.example/': 'ns2'}
    """
    counts = Counter(next(_namespaces(iri)) for iri in iris)
    fewest = _SMALLEST_NAMESPACE * counts.total()
    # The longest namespace is decided first: a small one counts towards the namespace around it.
    waiting = [(-len(namespace), namespace) for namespace in counts]
    heapify(waiting)
    kept = []
    while waiting:
        _, namespace = heappop(waiting)
        around = next(islice(_namespaces(namespace), 1, None), None)
        if around is None or counts[namespace] >= fewest:
            kept.append(namespace)
        else:
            if around not in counts:
                heappush(waiting, (-len(around), around))
            counts[around] += counts[namespace]
    named = {namespace: prefix for prefix, namespace in _BUILT_IN_PREFIXES.items()} | {URN: "divea"}
    new = [namespace for namespace in sorted(kept) if namespace not in named]
    named |= {namespace: f"ns{number}" for number, namespace in enumerate(new, start=1)}
    return {namespace: named[namespace] for namespace in sorted(kept)}


def _namespaces(iri: str) -> Iterator[str]:
    """The namespaces that an IRI is in, the longest first, up to its scheme or host.

    A namespace ends in `/`, `#` or the colon of the scheme, and contains only ASCII.

    >>> list(_namespaces("http://a.example/film/1#x"))
    ['http://a.example/film/1#', 'http://a.example/film/', 'http://a.example/']
    """
    if iri.startswith(URN):
        yield URN
        return
    start = iri if iri.isascii() else re.split("[^\x00-\x7f]", iri, maxsplit=1)[0]
    namespace = _cut(start)
    while True:
        yield namespace
        around = _cut(namespace[:-1])
        if not around or around.endswith("//") or namespace.endswith("//"):
            return
        namespace = around


def _cut(text: str) -> str:
    """The text up to its last `/` or `#`, or up to its first colon; empty if it has none of them."""
    return text[: max(text.rfind("/"), text.rfind("#"), text.find(":")) + 1]


def _shorten(iri: str, prefixes: dict[str, str]) -> tuple[str, str]:
    """An IRI as a CURIE, and its readable text if the CURIE is percent-encoded.

    >>> _shorten("http://y.example/Ü", {"http://y.example/": "ns1"})
    ('ns1:%C3%9C', 'Ü')
    """
    namespace = _namespace(iri, prefixes)
    if namespace == URN:
        name, label = iri[len(URN) :], from_iri(iri)
        return f"{prefixes[URN]}:{name}", label if label != name and label.isprintable() else ""
    text = iri[len(namespace) :]
    name = _as_uri(text)
    return f"{prefixes[namespace]}:{name}", text if text != name else ""


def _namespace(iri: str, prefixes: dict[str, str]) -> str:
    """The longest namespace of an IRI that has a prefix."""
    return next(namespace for namespace in _namespaces(iri) if namespace in prefixes)


def _as_uri(iri: str) -> str:
    """The URI of an IRI, as RFC 3987 defines it: characters that are not ASCII are percent-encoded."""
    return quote(iri, safe=_URI_CHARACTERS)
