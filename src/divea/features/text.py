"""Text as sparse vectors: normalised words and character trigrams, weighted by how rare they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array, vstack

from divea.features.nearest import is_searched_exactly
from divea.graphs.labels import LABEL

GRAM = 3
"""Characters of a gram. Grams of two to four characters are three times as many and no more accurate."""

KEY = 5
"""Characters of a key. Similar texts have more than a gram in common, and keys are much rarer than grams."""

_ALPHABET = " 0123456789abcdefghijklmnopqrstuvwxyz"
_BASE = len(_ALPHABET)
_GRAMS: int = _BASE**GRAM
_KEYS: int = _BASE**KEY

_CODE_OF_BYTE = np.zeros(256, dtype=np.int32)
_CODE_OF_BYTE[np.frombuffer(_ALPHABET.encode(), np.uint8)] = np.arange(_BASE)

_TEXTS_AT_A_TIME = 1 << 17

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


def normalise(texts: pa.Array) -> pa.Array:
    """Words in lower case without diacritics or punctuation, separated by single spaces.

    >>> normalise(pa.array(["  Ångström (Unit)", "NEW-YORK"])).to_pylist()
    ['angstrom unit', 'new york']
    """
    texts = pc.utf8_normalize(texts.cast(LABEL), form="NFKD")
    texts = pc.utf8_lower(pc.replace_substring_regex(texts, r"\p{M}", ""))
    return pc.utf8_trim(pc.replace_substring_regex(texts, r"[^\p{L}\p{N}]+", " "), characters=" ")


def transliterate(texts: pa.Array, normalised: pa.Array) -> pa.Array:
    """Normalised texts in Latin letters and digits, whatever script the texts have.

    >>> texts = pa.array(["Αθήνα", "ガンダム", "Oslo"])
    >>> transliterate(texts, normalise(texts)).to_pylist()
    ['athina', 'gandamu', 'oslo']
    """
    is_ascii = np.asarray(pc.string_is_ascii(normalised))
    if is_ascii.all():
        return normalised
    from anyascii import anyascii

    # Marks are vowels in some scripts, so the original texts are transliterated, each distinct text once.
    others = pc.utf8_normalize(texts.cast(LABEL).filter(pa.array(~is_ascii)), form="NFC").dictionary_encode()
    latin = normalise(pa.array([anyascii(text) for text in others.dictionary.to_pylist()], type=LABEL))
    return pc.replace_with_mask(normalised, pa.array(~is_ascii), latin.take(others.indices))


@dataclass(frozen=True)
class TokenVectors:
    """One row per text and one column per token, for the texts of two graphs; rows have length one."""

    source: csr_array
    target: csr_array
    keys: tuple[csr_array, csr_array] | None = None
    """Rows for the same texts with words and runs of five characters, for `nearest_of_both` to search by.
    Their products are a little less than those of the vectors. None if it searches the vectors themselves."""


def token_vectors(source: pa.Array, target: pa.Array, *, grams: bool = True) -> TokenVectors:
    """Vectors of texts whose products are cosine similarities.

    A token is a word or, with `grams`, three characters of the transliterated text. Its weight is the
    logarithm of how rare it is, so words that most texts have hardly count.

    Examples
    --------
    >>> texts = pa.array(["New York", "Oslo"]), pa.array(["Old York", "Oslo"])
    >>> vectors = token_vectors(*texts)
    >>> similarity = (vectors.source @ vectors.target.T).toarray()
    >>> bool(similarity[1, 1] > .99 > .3 > similarity[0, 0] > 0 == similarity[0, 1])
    True
    """
    normalised = [normalise(side) for side in (source, target)]
    words = _words(normalised)
    characters: list[_Characters | None] = [None, None]
    if grams:
        sides = zip((source, target), normalised, strict=True)
        characters = [_Characters.of(transliterate(*side)) for side in sides]
    vectors = [_counts(*side) for side in zip(words, characters, strict=True)]
    rarity = _rarity(vectors)
    lengths = [_weigh(side, rarity) for side in vectors]
    keys = None
    if not is_searched_exactly(*vectors):
        first, second = (
            None if own is None else _keys(side, own, rarity, length)
            for side, own, length in zip(vectors, characters, lengths, strict=True)
        )
        keys = None if first is None or second is None else (first, second)
    return TokenVectors(vectors[0], vectors[1], keys)


def _words(sides: list[pa.Array]) -> list[csr_array]:
    """The words of each text: one row per text, one column per word, and an entry for each occurrence."""
    lists = [pc.split_pattern(texts, " ") for texts in sides]
    words = pa.chunked_array([side.flatten() for side in lists], LABEL).combine_chunks().dictionary_encode()
    # Words are numbered in alphabetical order, so that the order of texts does not matter.
    order = np.asarray(pc.sort_indices(words.dictionary))
    number = np.empty(len(order), dtype=np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    every = number[np.asarray(words.indices)]
    is_word = np.asarray(pc.not_equal(words.dictionary, ""))[np.asarray(words.indices)]
    found, first = [], 0
    for side in lists:
        ends = np.asarray(side.offsets)
        ends = ends - ends[0]
        some = slice(first, first + int(ends[-1]))
        first = some.stop
        kept = is_word[some]
        starts = np.concatenate([[0], np.cumsum(kept)])[ends].astype(np.int32)
        ones = np.ones(int(starts[-1]), dtype=np.float32)
        found.append(csr_array((ones, every[some][kept], starts), shape=(len(side), len(order))))
    return found


@dataclass(frozen=True)
class _Characters:
    """The characters of texts as small numbers, with a space before and after each text."""

    codes: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, texts: pa.Array) -> _Characters:
        space, nothing = pa.scalar(" ", LABEL), pa.scalar("", LABEL)
        padded = pc.binary_join_element_wise(space, texts, space, nothing)
        _, offsets, data = padded.buffers()
        if not len(padded) or data is None:
            return cls(np.zeros(0, np.uint8), np.zeros(1, np.int64))
        starts = np.frombuffer(offsets, np.int64)[padded.offset : padded.offset + len(padded) + 1]
        codes = _CODE_OF_BYTE.astype(np.uint8)[np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]]
        return cls(codes, starts - starts[0])

    def grams(self, first: int, last: int, length: int) -> tuple[Integers, Integers]:
        """The grams of some texts: the text of each gram, counted from `first`, and the gram's number."""
        starts = self.starts[first : last + 1]
        codes = self.codes[starts[0] : starts[-1]].astype(np.int32)
        row = np.repeat(np.arange(last - first, dtype=np.int32), np.diff(starts))
        count = max(len(codes) - length + 1, 0)
        gram = np.zeros(count, dtype=np.int32)
        for place in range(length):
            gram = gram * _BASE + codes[place : place + count]
        # A gram must not reach into the next text, and the padding of an empty text is no gram.
        is_inside = row[:count] == row[len(row) - count :]
        return row[:count][is_inside], gram[is_inside]


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    for first in range(0, rows, _TEXTS_AT_A_TIME):
        yield first, min(first + _TEXTS_AT_A_TIME, rows)


def _row_numbers(matrix: csr_array) -> Integers:
    return np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))


def _counts(words: csr_array, characters: _Characters | None) -> csr_array:
    """How often each text has each token: grams, then words."""
    grams = _GRAMS if characters else 0
    columns = grams + words.shape[1]
    blocks = [csr_array((0, columns), dtype=np.float32)]
    for first, last in _blocks(words.shape[0]):
        some = words[first:last]
        row, column = _row_numbers(some), some.indices + np.int32(grams)
        if characters:
            gram_row, gram = characters.grams(first, last, GRAM)
            row, column = np.concatenate([gram_row, row]), np.concatenate([gram, column])
        ones = np.ones(len(row), dtype=np.float32)
        blocks.append(csr_array((ones, (row, column)), shape=(last - first, columns)))
    return csr_array(vstack(blocks, format="csr"))


def _rarity(sides: list[csr_array]) -> Floats:
    """The logarithm of how rare each token is among the texts of both sides."""
    texts = sum(side.shape[0] for side in sides)
    texts_with = sum(np.bincount(side.indices, minlength=side.shape[1]) for side in sides)
    return np.log((texts + 1) / (texts_with + 0.5)).astype(np.float32)


def _weigh(counts: csr_array, rarity: Floats) -> Floats:
    """Turn counts of tokens into weights: logarithmic counts times rarity, in rows of length one.

    Returns the lengths that the rows had before.
    """
    weights = counts.data
    np.log(weights, out=weights)
    weights += 1
    weights *= rarity[counts.indices]
    sizes = np.diff(counts.indptr)
    lengths = np.ones(len(sizes), dtype=np.float32)
    if len(weights):
        squares = np.add.reduceat(weights**2, counts.indptr[:-1][sizes > 0], dtype=np.float64)
        lengths[sizes > 0] = np.maximum(np.sqrt(squares), 1e-12)
    weights /= np.repeat(lengths, sizes)
    return lengths


def _keys(vectors: csr_array, characters: _Characters, rarity: Floats, lengths: Floats) -> csr_array:
    """Words and keys of each text.

    A run of characters that two texts share has two fewer keys than grams. Each key therefore has the weight
    of the gram in its middle, and products are a little less than those of the vectors.
    """
    words = vectors.shape[1] - _GRAMS
    blocks = [csr_array((0, words + _KEYS), dtype=np.float32)]
    for first, last in _blocks(vectors.shape[0]):
        some = vectors[first:last]
        is_word = some.indices >= _GRAMS
        row, key = characters.grams(first, last, KEY)
        middle = key // _BASE ** ((KEY - GRAM) // 2) % _GRAMS
        weight = np.concatenate([some.data[is_word], rarity[middle] / lengths[first + row]])
        column = np.concatenate([some.indices[is_word] - np.int32(_GRAMS), key + np.int32(words)])
        row = np.concatenate([_row_numbers(some)[is_word], row])
        blocks.append(csr_array((weight, (row, column)), shape=(last - first, words + _KEYS)))
    return csr_array(vstack(blocks, format="csr"))
