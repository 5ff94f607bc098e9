"""Attribute values as tokens: what kind of value a property has, and how values are compared."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.features.values import LONG_TEXT, ValueKind, kind_of, tokens

XSD = "http://www.w3.org/2001/XMLSchema#"
UUID = "550e8400-e29b-41d4-a716-446655440000"


def kind(*values, datatype=""):
    return kind_of(pa.array(values), pa.array([datatype] * len(values)))


def tokens_of(value, kind):
    return tokens(pa.array([value]), kind)[1].to_pylist()


def exact(value, kind):
    """The token of the complete value."""
    (found,) = (token for token in tokens_of(value, kind) if token.startswith("="))
    return found


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("7", ValueKind.NUMBER),
        ("-7.25", ValueKind.NUMBER),
        ("+7", ValueKind.NUMBER),
        (".5", ValueKind.NUMBER),
        ("5.", ValueKind.NUMBER),
        (" 1e-7 ", ValueKind.NUMBER),
        ("1,234", ValueKind.NUMBER),
        ("1,234,567.8", ValueKind.NUMBER),
        ("1984", ValueKind.NUMBER),
        ("123456789012345678901234567890", ValueKind.NUMBER),
        ("1984-05-01", ValueKind.DATE),
        ("1984-05", ValueKind.DATE),
        ("-0044-03-15", ValueKind.DATE),
        ("1984-05-01T10:30:00Z", ValueKind.DATE),
        ("1984-05-01 10:30", ValueKind.DATE),
        ("1984-05-01+02:00", ValueKind.DATE),
        ("http://x.org/a", ValueKind.URL),
        ("FTP://x.org", ValueKind.URL),
        ("978-3-16-148410-0", ValueKind.SHORT_TEXT),
        ("0317-8471", ValueKind.SHORT_TEXT),
        ("2019-1234-AB", ValueKind.SHORT_TEXT),
        ("2001-02-03-04", ValueKind.SHORT_TEXT),
        (UUID, ValueKind.SHORT_TEXT),
        ("2.4.0", ValueKind.SHORT_TEXT),
        ("1,2345", ValueKind.SHORT_TEXT),
        ("12:30", ValueKind.SHORT_TEXT),
        ("see http://x.org", ValueKind.SHORT_TEXT),
        ("mailto:a@x.org", ValueKind.SHORT_TEXT),
        ("", ValueKind.SHORT_TEXT),
        ("x" * (LONG_TEXT - 1), ValueKind.SHORT_TEXT),
        ("x" * LONG_TEXT, ValueKind.LONG_TEXT),
    ],
)
def test_the_kind_of_a_value(value, expected):
    assert kind(value, value) is expected


@pytest.mark.parametrize("datatype", ["gYear", "date", "dateTime", "gYearMonth"])
def test_a_datatype_of_dates_makes_a_date_of_a_year(datatype):
    assert kind("1984", "1990", datatype=XSD + datatype) is ValueKind.DATE
    assert kind("1984", "1990", datatype=XSD + "integer") is ValueKind.NUMBER


def test_most_of_the_values_decide():
    assert kind("1", "2", "n/a") is ValueKind.NUMBER
    assert kind("1", "n/a", "unknown") is ValueKind.SHORT_TEXT
    assert kind("1984-05-01", "1984-05-02", "1984") is ValueKind.DATE


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (ValueKind.NUMBER, "1234", " 1,234 "),
        (ValueKind.NUMBER, "5", "+5.0"),
        (ValueKind.NUMBER, "0.5", ".50"),
        (ValueKind.NUMBER, "1000", "1e3"),
        (ValueKind.NUMBER, "0", "-0.0"),
        (ValueKind.NUMBER, "N/A", "n a"),
        (ValueKind.DATE, "1984-05-01", "1984-05-01T10:30:00Z"),
        (ValueKind.DATE, "1984-05-01", " 1984-05-01+02:00"),
        (ValueKind.URL, "http://www.x.org/A/", "https://x.org/a"),
        (ValueKind.URL, "https://x.org/a.git", "git://x.org/a"),
        (ValueKind.URL, "https://x.org/a/#top", "https://x.org/a"),
        (ValueKind.SHORT_TEXT, "978-3-16-148410-0", "9783161484100"),
        (ValueKind.SHORT_TEXT, "0317-8471", "03178471"),
        (ValueKind.SHORT_TEXT, "São Paulo", "SAO PAULO"),
        (ValueKind.SHORT_TEXT, "2.4.0", "2-4-0"),
    ],
)
def test_the_same_value_in_two_spellings_has_the_same_token(kind, one, other):
    assert exact(one, kind) == exact(other, kind)


def test_a_code_is_the_same_as_a_number_and_as_a_text():
    assert exact("9783161484100", ValueKind.NUMBER) == exact("978-3-16-148410-0", ValueKind.SHORT_TEXT)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        (ValueKind.NUMBER, "5", "-5"),
        (ValueKind.NUMBER, "007", "7"),
        (ValueKind.NUMBER, "123456789012345678901", "123456789012345678902"),
        (ValueKind.NUMBER, "0.1", "0.10001"),
        (ValueKind.DATE, "1984-05-01", "1984-05-02"),
        (ValueKind.DATE, "0044-03-15", "-0044-03-15"),
        (ValueKind.URL, "http://x.org/a", "http://x.org/b"),
        (ValueKind.URL, "http://x.org/?q=1", "http://x.org/?q=2"),
        (ValueKind.SHORT_TEXT, "2.4.0", "2.4.1"),
        (ValueKind.SHORT_TEXT, UUID, UUID[:-1] + "1"),
    ],
)
def test_different_values_have_different_tokens(kind, one, other):
    assert exact(one, kind) != exact(other, kind)


@pytest.mark.parametrize(
    ("kind", "one", "other", "shared"),
    [
        (ValueKind.NUMBER, "1234", "1,198", {"~1200"}),
        (ValueKind.NUMBER, "-1234", "1234", set()),
        (ValueKind.NUMBER, "007", "7", {"~7"}),
        (ValueKind.NUMBER, "1.2e30", "1.24e30", {"~1.2e+30"}),
        (ValueKind.DATE, "1984-05-01", "1984-05-02", {"1984-05", "1984"}),
        (ValueKind.DATE, "1984-05-01", "1984", {"1984"}),
        (ValueKind.DATE, "1984-05-01", "1985-05-01", set()),
        (ValueKind.URL, "http://x.org/a", "https://x.org/b", {"x.org"}),
        (ValueKind.SHORT_TEXT, "New York", "York", {"york"}),
        (ValueKind.SHORT_TEXT, "2.4.0", "2.40", {"=240", "2"}),
    ],
)
def test_values_that_differ_share_their_coarser_tokens(kind, one, other, shared):
    assert set(tokens_of(one, kind)) & set(tokens_of(other, kind)) == shared


def test_a_long_text_has_its_words_alone():
    assert tokens_of("The Blue-Green  house.", ValueKind.LONG_TEXT) == ["the", "blue", "green", "house"]


@pytest.mark.parametrize("kind", ValueKind)
def test_values_of_nothing_have_no_tokens(kind):
    assert tokens(pa.array([], pa.string()), kind)[1].to_pylist() == []
    for empty in ("", "  "):
        assert tokens_of(empty, kind) == []


anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
odd = st.one_of(anything, st.floats().map(str), st.integers().map(str), st.dates().map(str))


@pytest.mark.parametrize("kind", ValueKind)
@given(values=st.lists(odd, min_size=1, max_size=8))
def test_any_value_of_any_kind_has_tokens_of_its_own(kind, values):
    """The tokens of a value do not depend on the values around it, and none is empty."""
    row, found = tokens(pa.array(values), kind)
    together = found.to_pylist()
    assert all(together) and len(row) == len(together)
    for number, value in enumerate(values):
        own = [token for at, token in zip(row, together, strict=True) if at == number]
        assert sorted(own) == sorted(tokens_of(value, kind))


@given(st.lists(odd, min_size=1, max_size=8))
def test_any_values_have_a_kind(values):
    assert kind(*values) in ValueKind


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.floats(-0.001, 0.001))
def test_numbers_that_nearly_agree_share_their_rounded_token_unless_a_border_is_between(number, error):
    near = number * (1 + error)
    coarse = [
        {token for token in tokens_of(repr(value), ValueKind.NUMBER) if token.startswith("~")}
        for value in (number, near)
    ]
    digits = abs(near) / 10 ** np.floor(np.log10(abs(near))) * 10 if near else 0
    is_near_border = abs(digits % 1 - 0.5) < 0.5 * 0.25 or digits < 10.1 or digits > 99.4
    assert len(coarse[0]) == 1 and math.isfinite(float(next(iter(coarse[0]))[1:]))
    assert coarse[0] == coarse[1] or is_near_border
