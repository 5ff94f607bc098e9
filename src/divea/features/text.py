"""Text as sparse vectors: normalised words and character trigrams, weighted by how rare they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array

from divea.graphs.labels import LABEL

GRAM = 3
"""Characters of a gram. Grams of two to four are three times as many and no more accurate."""

_ALPHABET = " 0123456789abcdefghijklmnopqrstuvwxyz"
_GRAMS: int = len(_ALPHABET) ** GRAM

_CODE_OF_BYTE = np.zeros(256, dtype=np.int64)
_CODE_OF_BYTE[np.frombuffer(_ALPHABET.encode(), np.uint8)] = np.arange(len(_ALPHABET))


def normalise(texts: pa.Array) -> pa.Array:
    """Words in lower case without diacritics or punctuation, separated by single spaces.

    >>> normalise(pa.array(["  Ångström (Unit)", "NEW-YORK"])).to_pylist()
    ['angstrom unit', 'new york']
    """
    texts = pc.utf8_normalize(texts.cast(LABEL), form="NFKD")
    texts = pc.utf8_lower(pc.replace_substring_regex(texts, r"\p{M}", ""))
    return pc.utf8_trim(pc.replace_substring_regex(texts, r"[^\p{L}\p{N}]+", " "), characters=" ")


def transliterate(normalised: pa.Array) -> pa.Array:
    """Normalised text in Latin letters and digits, whatever script it has.

    >>> transliterate(pa.array(["αθηνα", "oslo"])).to_pylist()
    ['athina', 'oslo']
    """
    normalised = normalised.cast(LABEL)
    is_ascii = np.asarray(pc.string_is_ascii(normalised))
    if is_ascii.all():
        return normalised
    from anyascii import anyascii

    # Only distinct texts in other scripts need a loop.
    others = normalised.filter(pa.array(~is_ascii)).dictionary_encode()
    latin = normalise(pa.array([anyascii(text) for text in others.dictionary.to_pylist()], type=LABEL))
    return pc.replace_with_mask(normalised, pa.array(~is_ascii), latin.take(others.indices))


@dataclass(frozen=True)
class TokenVectors:
    """One row per text and one column per token, for the texts of two graphs; rows have length one."""

    source: csr_array
    target: csr_array


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
    sides = [normalise(source), normalise(target)]
    texts = pa.concat_arrays(sides)
    row, token = _words(texts)
    if grams:
        gram_row, gram = _grams(transliterate(texts))
        row, token = np.concatenate([row, gram_row]), np.concatenate([token + _GRAMS, gram])
    matrix = _weighted(row, token, len(texts))
    return TokenVectors(matrix[: len(source)], matrix[len(source) :])


def _words(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The text and the number of each word."""
    lists = pc.split_pattern(texts, " ")
    row = np.asarray(pc.list_parent_indices(lists)).astype(np.int64)
    words = pc.list_flatten(lists)
    is_word = np.asarray(pc.not_equal(words, ""))
    number = np.asarray(words.dictionary_encode().indices).astype(np.int64)
    return row[is_word], number[is_word]


def _grams(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The text and the number of each gram; words begin and end with a space."""
    space, nothing = pa.scalar(" ", LABEL), pa.scalar("", LABEL)
    padded = pc.binary_join_element_wise(space, texts, space, nothing)
    _, offsets, data = padded.buffers()
    if not len(padded) or data is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.frombuffer(offsets, np.int64)[padded.offset : padded.offset + len(padded) + 1]
    code = _CODE_OF_BYTE[np.frombuffer(data, np.uint8)[starts[0] : starts[-1]]]
    lengths = np.diff(starts)
    row = np.repeat(np.arange(len(padded)), lengths)
    base = len(_ALPHABET)
    gram = (code[:-2] * base + code[1:-1]) * base + code[2:]
    # A gram must not reach into the next text, and the padding of an empty text is none.
    is_inside = row[:-2] == row[2:]
    return row[:-2][is_inside], gram[is_inside]


def _weighted(row: npt.NDArray[np.int64], token: npt.NDArray[np.int64], rows: int) -> csr_array:
    """Counts of tokens as rows of length one: logarithmic counts times logarithmic rarity."""
    _, column = np.unique(token, return_inverse=True)
    shape = (rows, int(column.max(initial=-1)) + 1)
    ones = np.ones(len(row), dtype=np.float32)
    matrix = csr_array((ones, (row.astype(np.int32), column.astype(np.int32))), shape=shape)
    matrix.sum_duplicates()
    texts_with = np.bincount(matrix.indices, minlength=shape[1])
    rarity = np.log((rows + 1) / (texts_with + 0.5)).astype(np.float32)
    matrix.data = (1 + np.log(matrix.data)) * rarity[matrix.indices]
    lengths = np.sqrt(np.add.reduceat(np.append(matrix.data**2, 0), matrix.indptr[:-1]))
    lengths[np.diff(matrix.indptr) == 0] = 1
    matrix.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(matrix.indptr)).astype(np.float32)
    return matrix
