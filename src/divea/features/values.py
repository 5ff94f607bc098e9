"""Attribute values as tokens: the kind of a value decides how it is compared.

A number or a date agrees exactly or in coarser tokens, a URL in full or in its host, and a text in its words
or, if it is short, in full. An identifier is a text or number that few others share, so its tokens are rare
and weigh most.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.features.text import normalise
from divea.graphs.labels import LABEL

LONG_TEXT = 80
"""The mean number of characters from which a property's values are compared by words alone."""


class ValueKind(StrEnum):
    """The kind of a property's values."""

    NUMBER = "number"
    DATE = "date"
    URL = "URL"
    SHORT_TEXT = "short text"
    LONG_TEXT = "long text"


_NUMBER = r"^\s*[-+]?((\d{1,3}(,\d{3})+|\d+)(\.\d*)?|\.\d+)([eE][-+]?\d+)?\s*$"
# A year alone is a number, unless its datatype says more.
_DATE = r"^\s*-?\d{4}-\d{2}(-\d{2})?([T ].*)?(Z|[+-]\d{2}:\d{2})?\s*$"
_URL = r"^\s*\w+://"


def kind_of(values: pa.Array, datatypes: pa.Array) -> ValueKind:
    """The kind of most values of a property.

    Parameters
    ----------
    datatypes
        The kind of each literal, as in `Attributes.kinds`.

    Examples
    --------
    >>> kind_of(pa.array(["1984-05-01", "1999-12-31"]), pa.array(["", ""]))
    <ValueKind.DATE: 'date'>
    """
    name = pc.replace_substring_regex(datatypes, r"^.*[#/]", "")
    is_date = np.asarray(pc.is_in(name, pa.array(["date", "dateTime", "gYear", "gYearMonth"], name.type)))
    is_date |= np.asarray(pc.match_substring_regex(values, _DATE))
    if is_date.mean() > 0.5:
        return ValueKind.DATE
    if np.asarray(pc.match_substring_regex(values, _NUMBER)).mean() > 0.5:
        return ValueKind.NUMBER
    if np.asarray(pc.match_substring_regex(values, _URL)).mean() > 0.5:
        return ValueKind.URL
    is_long = pc.mean(pc.utf8_length(values)).as_py() >= LONG_TEXT
    return ValueKind.LONG_TEXT if is_long else ValueKind.SHORT_TEXT


def tokens(values: pa.Array, kind: ValueKind) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The tokens of values: the position of the value that each token comes from, and the tokens.

    >>> tokens(pa.array(["http://www.x.org/a/", "https://x.org/a"]), ValueKind.URL)[1].to_pylist()
    ['=x.org/a', '=x.org/a', 'x.org', 'x.org']
    """
    rows = np.arange(len(values))
    columns = _COLUMNS[kind](values.cast(LABEL))
    words = pa.array([], LABEL)
    word_rows = np.zeros(0, dtype=np.int64)
    if kind in (ValueKind.SHORT_TEXT, ValueKind.LONG_TEXT):
        lists = pc.split_pattern(normalise(values), " ")
        word_rows = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
        words = pc.list_flatten(lists).cast(LABEL)
    found = pa.concat_arrays([*columns, words])
    row = np.concatenate([*(rows for _ in columns), word_rows])
    is_token = np.asarray(pc.not_equal(found, ""))
    return row[is_token], found.filter(pa.array(is_token))


def _exact(texts: pa.Array) -> pa.Array:
    """A token for the complete value."""
    texts = texts.cast(LABEL)
    equals, nothing = pa.scalar("=", LABEL), pa.scalar("", LABEL)
    joined = pc.binary_join_element_wise(equals, texts, nothing)
    return pc.if_else(pc.equal(texts, ""), nothing, joined)


def _of_numbers(values: pa.Array) -> list[pa.Array]:
    """The number itself, and rounded to two digits; a code that is written in groups is one number."""
    plain = pc.replace_substring_regex(pc.utf8_trim_whitespace(values), r"[,\s]", "")
    is_number = pc.match_substring_regex(values, _NUMBER)
    numbers = pc.cast(pc.if_else(is_number, plain, pa.scalar("nan", LABEL)), pa.float64())
    found = np.asarray(numbers) + 0.0  # there is no negative zero
    with np.errstate(all="ignore"):
        scale = 10.0 ** (np.floor(np.log10(np.abs(np.where(found == 0, 1, found)))) - 1)
        coarse = np.round(found / scale) * scale
    exact, rounded = (_as_texts(some) for some in (found, coarse))
    # Whole numbers stay as they are written: an identifier may have more digits than a float.
    exact = pc.if_else(pc.match_substring_regex(plain, r"^\d+$"), plain, exact)
    exact = pc.if_else(pc.equal(exact, ""), pc.replace_substring(normalise(values), " ", ""), exact)
    about = pc.binary_join_element_wise(pa.scalar("~", LABEL), rounded, pa.scalar("", LABEL))
    return [_exact(exact), pc.if_else(pc.equal(rounded, ""), rounded, about)]


def _as_texts(numbers: npt.NDArray[np.float64]) -> pa.Array:
    return pa.array([f"{value:.12g}" if np.isfinite(value) else "" for value in numbers.tolist()], LABEL)


def _of_dates(values: pa.Array) -> list[pa.Array]:
    """The day, the month and the year."""
    trimmed = pc.utf8_trim_whitespace(values)
    day = pc.replace_substring_regex(trimmed, r"^(-?\d{4}-\d{2}-\d{2}).*$", r"\1")
    month = pc.replace_substring_regex(trimmed, r"^(-?\d{4}-\d{2}).*$|^.*$", r"\1")
    year = pc.replace_substring_regex(trimmed, r"^(-?\d{4}).*$|^.*$", r"\1")
    return [_exact(day), month, year]


def _of_urls(values: pa.Array) -> list[pa.Array]:
    """The address without its scheme, `www.` and trailing slash; and the host."""
    address = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    address = pc.replace_substring_regex(address, r"^\w+://(www\.)?", "")
    address = pc.replace_substring_regex(address, r"/*(\.git)?/*(#.*)?$", "")
    return [_exact(address), pc.replace_substring_regex(address, r"/.*$", "")]


def _of_short_texts(values: pa.Array) -> list[pa.Array]:
    """The complete text without spaces and punctuation, to compare identifiers; `tokens` adds the words."""
    return [_exact(pc.replace_substring(normalise(values), " ", ""))]


def _of_long_texts(values: pa.Array) -> list[pa.Array]:
    return []


_COLUMNS = {
    ValueKind.NUMBER: _of_numbers,
    ValueKind.DATE: _of_dates,
    ValueKind.URL: _of_urls,
    ValueKind.SHORT_TEXT: _of_short_texts,
    ValueKind.LONG_TEXT: _of_long_texts,
}
