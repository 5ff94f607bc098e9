"""Limits on RDF files, which are checked before the parser sees them.

The parser itself would expand entities without limit, need hours for deeply nested XML, and crash on deeply
nested triples.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, cast
from xml.parsers import expat

from divea.errors import InputError
from divea.formats.stream import LONGEST_LINE

_CHUNK = 1 << 18
_DEEPEST = 1000
"""The most XML elements inside each other."""
_LONGEST_TAG = 1 << 20
"""The most bytes of a tag or comment of XML."""
_MOST_ATTRIBUTES = 1000
"""The most attributes of a tag."""
_LONGEST_ENTITY = 256
"""The most characters of an entity. Ontology editors declare the namespaces of a file as entities."""
_QUOTED_TRIPLE = b"<<("
_MOST_QUOTED_TRIPLES = 1000
"""Quoted triples are refused when read; this many may be in literals, and they cannot crash the parser."""


def checked(source: BinaryIO, path: Path, *, is_xml: bool) -> BinaryIO:
    """The bytes of an RDF file, for the parser to read; raises InputError if a limit is exceeded."""
    return cast(BinaryIO, _CheckedXml(source, path) if is_xml else _CheckedTriples(source, path))


class _CheckedTriples:
    """The bytes of N-Triples, N-Quads, Turtle or TriG; refuses many quoted triples (RDF-star)."""

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self._source = source
        self._path = path
        self._end = b""
        self._found = 0

    def read(self, size: int = -1, /) -> bytes:
        chunk = self._source.read(size if 0 <= size < _CHUNK else _CHUNK)
        self._found += (self._end + chunk).count(_QUOTED_TRIPLE)
        if self._found > _MOST_QUOTED_TRIPLES:
            raise InputError(
                "has statements about statements (RDF-star), which are not supported", path=self._path
            )
        self._end = chunk[1 - len(_QUOTED_TRIPLE) :]
        return chunk


class _CheckedXml:
    """The bytes of an XML file; refuses what could exhaust the memory or the time of the parser.

    A second parser, which keeps nothing, is always ahead of the one that reads from here.
    """

    def __init__(self, source: BinaryIO, path: Path) -> None:
        self._source = source
        self._path = path
        self._waiting = b""
        self._bytes = 0
        self._depth = 0
        self._literal_depth: int | None = None
        self._text_length = 0
        # The encoding is given, because a wrong name in the file would be an error of Python and not of XML.
        self._parser = expat.ParserCreate("utf-8")
        self._parser.XmlDeclHandler = self._check_encoding
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start_element
        self._parser.EndElementHandler = self._end_element
        self._parser.CharacterDataHandler = self._add_text
        self._parser.EntityDeclHandler = self._check_entity
        self._parser.AttlistDeclHandler = self._refuse_default_values

    def read(self, size: int = -1, /) -> bytes:
        if not self._waiting:
            # Read larger pieces than the parser wants: expat reads an unfinished tag again with each piece.
            self._waiting = self._source.read(_CHUNK)
            self._check(self._waiting)
        end = size if size >= 0 else len(self._waiting)
        chunk, self._waiting = self._waiting[:end], self._waiting[end:]
        return chunk

    def _check(self, chunk: bytes) -> None:
        self._bytes += len(chunk)
        try:
            self._parser.Parse(chunk, not chunk)
        except expat.ExpatError as error:
            message = f"not valid XML: {expat.ErrorString(error.code)}"
            raise InputError(message, path=self._path, line=error.lineno) from error
        if self._bytes - self._parser.CurrentByteIndex > _LONGEST_TAG:
            raise self._error(f"a tag or comment of more than {_LONGEST_TAG >> 20} MiB")

    def _check_encoding(self, version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() != "utf-8":
            raise self._error(f"has the encoding {encoding[:80]!r}, not UTF-8; convert it first")

    def _start_element(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(f"more than {_DEEPEST} elements inside each other")
        if len(attributes) > _MOST_ATTRIBUTES:
            raise self._error(f"a tag with more than {_MOST_ATTRIBUTES} attributes")
        if self._literal_depth is not None:
            self._add_text(name)
            self._add_text("".join(attributes.values()))
        else:
            self._text_length = 0
            if "Literal" in attributes.values():
                # Perhaps rdf:parseType="Literal": all that is inside becomes one literal.
                self._literal_depth = self._depth

    def _end_element(self, name: str) -> None:
        if self._literal_depth == self._depth:
            self._literal_depth = None
        if self._literal_depth is None:
            self._text_length = 0
        self._depth -= 1

    def _add_text(self, text: str) -> None:
        self._text_length += len(text)
        if self._text_length > LONGEST_LINE:
            raise self._error(f"a literal of more than {LONGEST_LINE >> 20} MiB")

    def _check_entity(
        self,
        name: str,
        is_parameter: bool,
        value: str | None,
        base: str | None,
        system_id: str | None,
        public_id: str | None,
        notation: str | None,
    ) -> None:
        if is_parameter or value is None or "&" in value or "<" in value or len(value) > _LONGEST_ENTITY:
            limit = f"a plain text of at most {_LONGEST_ENTITY} characters"
            raise self._error(f"declares the entity {name[:80]!r}, which is not {limit}")

    def _refuse_default_values(self, element: str, attribute: str, *details: object) -> None:
        raise self._error(f"declares the attribute {attribute[:80]!r}, which is not supported")

    def _error(self, message: str) -> InputError:
        return InputError(message, path=self._path, line=self._parser.CurrentLineNumber)
