"""Invented words for synthetic names and texts: a vocabulary, its frequencies, and typing errors.

Words are rows of a matrix of letters, one byte each, so that many of them are made or changed at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from divea.graphs.labels import LABEL

Letters = npt.NDArray[np.uint8]
Ranks = npt.NDArray[np.int32]

_ONSETS, _VOWELS = (np.frombuffer(letters, np.uint8) for letters in (b"bcdfghjklmnprstvwxyz", b"aeiou"))
_CODAS = np.frombuffer(b"nrsl", np.uint8)
_SYLLABLES = len(_ONSETS) * len(_VOWELS)
_WORDS_WITH = {2: 600, 3: 200_000, 4: _SYLLABLES**4}
"""The number of words of two, three and four syllables. Frequent words are shorter than rare ones."""
_LONGEST = 9
"""Letters of the longest word: four syllables of two letters, and a consonant at the end."""
_WITH_CODA = 0.4
"""Share of words that have a consonant at the end."""
_FEWEST, _MOST = 1000, sum(_WORDS_WITH.values())
_FLAT_RANKS = 50
"""Up to about this rank, words are equally frequent; after it, the frequency is inverse to the rank."""
_SPREAD = 0x9E3779B1
"""A prime: its multiples, modulo the number of possible words, make words of adjacent ranks different."""


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """Distinct lower-case words, the frequent ones first. A word is denoted by its rank.

    Examples
    --------
    >>> words = Vocabulary.for_entities(5000)
    >>> words.text()[:4].to_pylist(), len(words)
    (['baban', 'repi', 'gifa', 'wotil'], 5000)
    """

    letters: Letters
    """One row per word; the letters after its end have no meaning."""
    lengths: Ranks

    @classmethod
    def for_entities(cls, entities: int) -> Vocabulary:
        """As many words as there are entities to name, at least 1000: most words of names are rare."""
        size = min(max(entities, _FEWEST), _MOST)
        letters = np.zeros((size, _LONGEST), dtype=np.uint8)
        lengths = np.zeros(size, dtype=np.int32)
        first = 0
        for syllables, words in _WORDS_WITH.items():
            end = min(first + words, size)
            numbers = np.arange(end - first) * _SPREAD % _SYLLABLES**syllables
            for syllable in range(syllables):
                onset, vowel = np.divmod(numbers // _SYLLABLES**syllable % _SYLLABLES, len(_VOWELS))
                letters[first:end, 2 * syllable] = _ONSETS[onset]
                letters[first:end, 2 * syllable + 1] = _VOWELS[vowel]
            lengths[first:end] = 2 * syllables
            first = end
        _add_codas(letters, lengths)
        return cls(letters, lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    def draw(self, shape: int | tuple[int, ...], rng: np.random.Generator) -> Ranks:
        """Ranks of words, drawn by their frequency, which follows the law of Zipf and Mandelbrot."""
        points = rng.random(shape)
        points *= np.log1p(len(self) / _FLAT_RANKS)
        np.expm1(points, out=points)
        points *= _FLAT_RANKS
        return np.minimum(points.astype(np.int32), len(self) - 1)

    def text(self, *, capitalised: bool = False) -> pa.Array:
        """All words as text, in the order of their ranks."""
        return as_text(self.letters, self.lengths, capitalised=capitalised)

    def misspelt(self, ranks: Ranks, rng: np.random.Generator) -> pa.Array:
        """Capitalised words with one typing error each: two letters swapped, one dropped or one replaced.

        The error is never in the first letter.
        """
        letters, lengths, rows = self.letters[ranks], self.lengths[ranks], np.arange(len(ranks))
        at = rng.integers(1, lengths - 1)
        error = rng.integers(0, 3, len(ranks))
        swapped, replaced, dropped = (rows[error == number] for number in range(3))
        # Adjacent letters differ, because consonants and vowels alternate.
        places = np.stack([at[swapped], at[swapped] + 1], axis=1)
        letters[swapped[:, None], places] = letters[swapped[:, None], places[:, ::-1]]
        shift = rng.integers(1, 26, len(replaced))
        letter = letters[replaced, at[replaced]] - ord("a")
        letters[replaced, at[replaced]] = ord("a") + (letter + shift) % 26
        letters[dropped] = without_entry(letters[dropped], at[dropped], 0)
        lengths[dropped] -= 1
        return as_text(letters, lengths, capitalised=True)


def as_text(letters: Letters, lengths: Ranks | None = None, *, capitalised: bool = False) -> pa.Array:
    """The rows of a matrix of ASCII characters as labels.

    Parameters
    ----------
    lengths
        The number of characters of each row that count; by default all.
    capitalised
        Whether the first letter of each row becomes a capital.

    Examples
    --------
    >>> letters = np.frombuffer(b"rome oslo?", np.uint8).reshape(2, 5)
    >>> as_text(letters, np.array([4, 4]), capitalised=True).to_pylist()
    ['Rome', 'Oslo']
    """
    count, width = letters.shape
    if lengths is None:
        lengths = np.full(count, width, dtype=np.int32)
    if capitalised:
        letters = letters.copy()
        letters[:, 0] -= ord("a") - ord("A")
    data = letters[np.arange(width) < lengths[:, None]]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return pa.Array.from_buffers(LABEL, count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def without_entry(
    rows: npt.NDArray[np.generic], at: npt.NDArray[np.integer], fill: int
) -> npt.NDArray[np.generic]:
    """The rows of a matrix, each without its entry at one place; the later entries move up.

    >>> without_entry(np.array([[1, 2, 3], [4, 5, 6]]), np.array([0, 1]), fill=-1).tolist()
    [[2, 3, -1], [4, 6, -1]]
    """
    columns = np.arange(rows.shape[1])
    filled = np.pad(rows, ((0, 0), (0, 1)), constant_values=fill)
    return np.take_along_axis(filled, columns + (columns >= at[:, None]), axis=1)


def _add_codas(letters: Letters, lengths: Ranks) -> None:
    """Add a consonant at the end of some words. They stay distinct, because all others end with a vowel."""
    # The fractional part of a multiple of an irrational number is spread evenly.
    rows = np.flatnonzero(np.arange(len(lengths)) * np.sqrt(2) % 1 < _WITH_CODA)
    letters[rows, lengths[rows]] = _CODAS[rows % len(_CODAS)]
    lengths[rows] += 1
