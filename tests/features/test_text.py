"""Text as vectors, compared with counts and cosines in plain Python."""

import math
import re
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from divea.features import nearest, text
from divea.features.text import normalise, token_vectors, transliterate

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
short_text = st.text("abcdABc é1-", max_size=12)
sides = st.lists(short_text, max_size=8)


def tokens_of(value: str, grams: bool) -> Counter[tuple[str, str]]:
    """The words of a text and, with `grams`, all runs of three characters."""
    words = Counter(("word", word) for word in normalised(value).split())
    padded = f" {transliterated(value)} "
    runs = (padded[at : at + 3] for at in range(len(padded) - 2)) if grams else ()
    return words + Counter(("gram", run) for run in runs)


def normalised(value: str) -> str:
    return normalise(pa.array([value]))[0].as_py()


def transliterated(value: str) -> str:
    texts = pa.array([value])
    return transliterate(texts, normalise(texts))[0].as_py()


def cosines(source: list[str], target: list[str], grams: bool) -> np.ndarray:
    """The cosines of weighted counts, in plain Python."""
    every = [tokens_of(value, grams) for value in source + target]
    holders = Counter(token for tokens in every for token in tokens)
    rows = [
        {
            token: (1 + math.log(count)) * math.log((len(every) + 1) / (holders[token] + 0.5))
            for token, count in tokens.items()
        }
        for tokens in every
    ]
    lengths = [math.sqrt(sum(weight**2 for weight in row.values())) or 1.0 for row in rows]
    found = np.zeros((len(source), len(target)))
    for here in range(len(source)):
        for there in range(len(target)):
            one, other = rows[here], rows[len(source) + there]
            product = sum(weight * other.get(token, 0) for token, weight in one.items())
            found[here, there] = product / lengths[here] / lengths[len(source) + there]
    return found


def vectors_of(source: list[str], target: list[str], **options: bool) -> text.TokenVectors:
    return token_vectors(pa.array(source, pa.string()), pa.array(target, pa.string()), **options)


SCRIPTS = [
    ("", "", ""),
    ("  \t\n ", "", ""),
    ("?!... --- (…)", "", ""),
    ("New-York  CITY", "new york city", "new york city"),
    ("Ångström", "angstrom", "angstrom"),
    ("A\u030angstro\u0308m", "angstrom", "angstrom"),
    ("Straße", "straße", "strasse"),
    ("Łódź", "łodz", "lodz"),
    ("Αθήνα", "αθηνα", "athina"),
    ("Андрей", "андреи", "andrey"),
    ("القاهرة", "القاهرة", "lqhrh"),
    ("תֵּל אָבִיב", "תל אביב", "tel aviyv"),
    ("北京", "北京", "beijing"),
    ("東京ガンダム", "東京カンタム", "dongjinggandamu"),
    ("서울", unicodedata.normalize("NFKD", "서울"), "seoul"),
    ("กรุงเทพ", "กรงเทพ", "krungethph"),
    ("हिन्दी", "हनद", "hindi"),
    ("😀", "", ""),
    ("Café 😀 Noir", "cafe noir", "cafe noir"),
    ("ｆｕｌｌ\u3000ｗｉｄｔｈ", "full width", "full width"),
    ("№ Ⅻ ½", "no xii 1 2", "no xii 1 2"),
    ("a\x00b\x1fc\u200bd", "a b c d", "a b c d"),
    ("tab\tand\u00a0space", "tab and space", "tab and space"),
]


@pytest.mark.parametrize(("value", "expected", "latin"), SCRIPTS)
def test_scripts(value, expected, latin):
    assert normalised(value) == expected
    assert transliterated(value) == latin


@given(any_text)
def test_normalised_text_is_words_with_single_spaces(value):
    found = normalised(value)
    assert found == " ".join(found.split(" ")).strip(" ")
    assert "  " not in found
    assert not re.search(r"[\x00-\x1f!-/:-@A-Z\[-`{-\x7f]", found)
    assert normalised(f" {value}. ") == found


@given(any_text)
def test_transliterated_text_is_latin_letters_and_digits(value):
    found = transliterated(value)
    assert re.fullmatch(r"([a-z0-9]+( [a-z0-9]+)*)?", found)
    assert transliterated(found) == normalised(found) == found


def test_only_other_scripts_are_transliterated():
    mixed = pa.array(["Oslo", "Αθήνα", "", "Rome!", "Αθήνα"])
    found = transliterate(mixed, normalise(mixed))
    assert found.to_pylist() == ["oslo", "athina", "", "rome", "athina"]


def test_a_very_long_text():
    value = "Lorem ipsum " * 20_000
    assert normalised(value) == ("lorem ipsum " * 20_000).strip()
    found = vectors_of([value], [value, "ipsum"])
    assert (found.source @ found.target.T).toarray()[0, 0] == pytest.approx(1, abs=1e-5)


@given(sides, sides, st.booleans())
def test_products_are_the_cosines_of_weighted_counts(source, target, grams):
    found = vectors_of(source, target, grams=grams)
    assert found.source.dtype == found.target.dtype == np.float32
    products = (found.source @ found.target.T).toarray()
    np.testing.assert_allclose(products, cosines(source, target, grams), atol=1e-5)


@given(sides, sides)
def test_rows_have_length_one_or_are_zeros(source, target):
    found = vectors_of(source, target)
    for rows, texts in ((found.source, source), (found.target, target)):
        assert rows.has_sorted_indices and rows.has_canonical_format
        lengths = np.sqrt((rows.multiply(rows)).sum(axis=1))
        expected = [float(normalised(value) != "") for value in texts]
        np.testing.assert_allclose(lengths, expected, atol=1e-5)


@given(sides.filter(len), sides, st.randoms(use_true_random=False))
def test_the_order_of_texts_does_not_matter(source, target, random):
    order = random.sample(range(len(source)), len(source))
    before = vectors_of(source, target)
    after = vectors_of([source[at] for at in order], target)
    assert np.array_equal(after.source.toarray(), before.source.toarray()[order])
    assert np.array_equal(after.target.toarray(), before.target.toarray())


@given(sides, sides)
def test_the_size_of_blocks_does_not_matter(source, target):
    before = vectors_of(source, target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_TEXTS_AT_A_TIME", 2)
        after = vectors_of(source, target)
    assert np.array_equal(after.source.toarray(), before.source.toarray())
    assert np.array_equal(after.target.toarray(), before.target.toarray())


@pytest.mark.parametrize(("source", "target"), [([], []), ([], ["a"]), (["", "?"], ["", "a b"]), (["a"], [])])
def test_empty_sides_and_texts(source, target):
    found = vectors_of(source, target)
    assert (found.source.shape[0], found.target.shape[0]) == (len(source), len(target))
    assert found.source.shape[1] == found.target.shape[1]
    assert found.source.nnz == 0 or "a" in source


def test_parts_of_arrays_are_read_where_they_start():
    whole = pa.array(["first", "Oslo", "Rome", "last"])
    found, expected = token_vectors(whole[1:3], whole[2:3]), vectors_of(["Oslo", "Rome"], ["Rome"])
    assert np.array_equal(found.source.toarray(), expected.source.toarray())


def test_small_sides_have_no_keys():
    assert vectors_of(["New York"], ["York"]).keys is None


@given(sides, sides)
def test_products_of_keys_are_at_most_those_of_the_vectors(source, target):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nearest, "MOST_PRODUCTS", -1)
        found = vectors_of(source, target)
    assert found.keys is not None
    products, by_keys = (found.source @ found.target.T).toarray(), (found.keys[0] @ found.keys[1].T).toarray()
    counts = [count for value in source + target for count in tokens_of(value, True).values()]
    if max(counts, default=0) < 2:
        assert (by_keys <= products + 1e-5).all()
    assert ((by_keys > 0) <= (products > 0)).all()


def test_words_alone_need_no_keys(monkeypatch):
    monkeypatch.setattr(nearest, "MOST_PRODUCTS", -1)
    assert vectors_of(["New York"], ["York"], grams=False).keys is None
