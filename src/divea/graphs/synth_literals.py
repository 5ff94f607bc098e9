"""Generates names and attributes for the entities of a synthetic pair.

Both graphs describe one world, in which every entity has one true name, one true date and so on. The source
has the true values. The target has copies with noise, in other formats and under other predicates. Entities
that are in one graph only have names and attributes like the others.

Every property has two random generators. The first draws the true values of all entities of the world, and
so draws the same for both graphs. The second draws what is different in each graph: which entities have the
property, and the noise. A change to one property therefore leaves all others as they are. As in `synth`, the
order of the random draws is part of the format.

All of this is done with arrays: a name is a row of word ranks until it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs.labels import LABEL, as_labels
from divea.graphs.synth_words import Ranks, Vocabulary, as_text, without_entry

Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rng = np.random.Generator

_SALT = 0x6E616D65
"""Separates the random draws of this module from those of the graphs' structure."""

_XSD = "http://www.w3.org/2001/XMLSchema#"
_LABEL_PREDICATE = "http://www.w3.org/2000/01/rdf-schema#label"
_OTHER_LABEL_PREDICATE = "http://www.w3.org/2004/02/skos/core#altLabel"
_ENGLISH, _PLAIN = "@en", ""

_MOST_NAME_WORDS = 4
_NAME_WORDS_SHARES = (0.1, 0.5, 0.28, 0.12)
"""Shares of the names of one, two, three and four words."""
_SHARED_NAMES = 0.01
"""Share of entities that are given the name of another entity. About as many share a name by chance."""
_WITH_OTHER_NAME, _OTHER_NAME_KNOWN = 0.2, 0.8
"""Share of entities that have a second name, and of these names that a graph contains."""
_MISSING_NAMES = 1 / 6
"""Missing names per name that differs."""
_TYPO, _INITIAL, _REORDERED, _SHORTENED, _UNCHANGED = range(5)
_NOISE_SHARES = (0.45, 0.15, 0.2, 0.2)
"""Shares of the kinds of noise among the names that differ."""
_NO_WORD = -1

_WITH_IDENTIFIER, _WRONG_IDENTIFIERS = 0.6, 0.02
"""Share of entities that have an identifier, and of the target's identifiers that are wrong."""
_WITH_DATE, _WRONG_DATES, _ONLY_YEAR = 0.5, 0.03, 0.4
"""Share of entities that have a date, and of the target's dates that are wrong or only a year."""
_FIRST_DAY, _LAST_DAY = np.datetime64("1850-01-01"), np.datetime64("2020-12-31")
_WITH_NUMBER = 0.5
_WITH_CATEGORY, _CATEGORIES = 0.8, 30
_WITH_HOMEPAGE = 0.3
_WITH_TEXT, _TEXT_KNOWN = 0.4, 0.75
"""Share of entities that have a text, and of these texts that a graph contains."""
_TEXT_WORDS = 10, 30
"""Words of the shortest and the longest text."""
_TEXT_WORDS_KEPT = 0.4, 0.9
"""Smallest and largest share of a text's words that the target keeps."""


@dataclass(frozen=True, eq=False)
class Literals:
    """Literals of one predicate and one kind."""

    predicate: str
    kind: str
    """How to read the values; see `divea.graphs.knowledge_graph.Attributes`."""
    entities: Indices
    """The entity of each value, as its position in the world."""
    values: pa.Array


def draw_literals(
    is_present: Mask, *, is_target: bool, name_noise: float, random_seed: int
) -> Iterator[Literals]:
    """The names and attributes of one graph, the names first.

    Parameters
    ----------
    is_present
        Which entities of the world are in the graph.
    is_target
        Whether the graph is the target, which has noise and its own predicates and formats.
    name_noise
        Share of the target's names that differ from the true name. A sixth as many names are missing.
    random_seed
        The same number for both graphs of a pair.

    Examples
    --------
    >>> everyone = np.ones(3000, dtype=bool)
    >>> for is_target in (False, True):
    ...     names = next(draw_literals(everyone, is_target=is_target, name_noise=1, random_seed=1))
    ...     print(names.predicate, names.values[:3].to_pylist())
    http://www.w3.org/2000/01/rdf-schema#label ['Jaho Cevici', 'Fixor Xiwe Fexi', 'Vilur Jejugu']
    http://target.example/property/name ['Jabo Cevici', 'Fixor Xiwe', 'Viulr Jejugu']
    """
    graph = _Graph(is_present, is_target, name_noise, Vocabulary.for_entities(len(is_present)))
    for number, draw in enumerate(_PROPERTIES):
        truth = np.random.default_rng([random_seed, _SALT, number, 0])
        own = np.random.default_rng([random_seed, _SALT, number, 2 if is_target else 1])
        yield from draw(graph, truth, own)


@dataclass(frozen=True, eq=False)
class _Graph:
    """What the properties need to know about a graph."""

    is_present: Mask
    is_target: bool
    name_noise: float
    vocabulary: Vocabulary

    @property
    def size(self) -> int:
        """Entities of the world."""
        return len(self.is_present)

    def draw_entities(self, share: float, own: Rng) -> Indices:
        """A share of the entities of the graph."""
        return np.flatnonzero(self.is_present & (own.random(self.size) < share))

    def predicate(self, in_source: str, in_target: str) -> str:
        """The predicate of a property; a name without a namespace is put into that of the graph."""
        name = in_target if self.is_target else in_source
        side = "target" if self.is_target else "source"
        return name if ":" in name else f"http://{side}.example/property/{name}"


def _draw_names(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Names of one to four words, and second names."""
    words = _true_names(graph, truth)
    other_words = _true_other_names(words, graph, truth)
    has_other = truth.random(graph.size) < _WITH_OTHER_NAME
    kind = _PLAIN if graph.is_target else _ENGLISH
    known = 1 - _MISSING_NAMES * graph.name_noise if graph.is_target else 1
    entities = graph.draw_entities(known, own)
    names = _written_names(words[entities], graph, own)
    yield Literals(graph.predicate(_LABEL_PREDICATE, "name"), kind, entities, names)
    entities = graph.draw_entities(_OTHER_NAME_KNOWN, own)
    entities = entities[has_other[entities]]
    names = _written_names(other_words[entities], graph, own)
    yield Literals(graph.predicate(_OTHER_LABEL_PREDICATE, "otherName"), kind, entities, names)


def _true_names(graph: _Graph, truth: Rng) -> Ranks:
    """The words of each entity's name, as rows of ranks that are filled up with `_NO_WORD`."""
    size, vocabulary = graph.size, graph.vocabulary
    words = vocabulary.draw((size, _MOST_NAME_WORDS), truth)
    counts = 1 + truth.choice(_MOST_NAME_WORDS, size, p=_NAME_WORDS_SHARES)
    # Names whose words are all the same would look the same in another order.
    is_repeated = words[:, 1] == words[:, 0]
    words[is_repeated, 1] = (words[is_repeated, 0] + 1) % len(vocabulary)
    # A frequent word would be the name of too many entities.
    is_single = counts == 1
    words[is_single, 0] = truth.integers(len(vocabulary) // 10, len(vocabulary), is_single.sum())
    words[np.arange(_MOST_NAME_WORDS) >= counts[:, None]] = _NO_WORD
    is_shared = truth.random(size) < _SHARED_NAMES
    words[is_shared] = words[truth.integers(0, size, is_shared.sum())]
    return words


def _true_other_names(words: Ranks, graph: _Graph, truth: Rng) -> Ranks:
    """Second names of two words, of which the first is the first word of the name."""
    other = np.full_like(words, _NO_WORD)
    other[:, 0] = words[:, 0]
    other[:, 1] = graph.vocabulary.draw(len(words), truth)
    is_repeated = other[:, 1] == other[:, 0]
    other[is_repeated, 1] = (other[is_repeated, 0] + 1) % len(graph.vocabulary)
    return other


def _written_names(words: Ranks, graph: _Graph, own: Rng) -> pa.Array:
    """The text of names, with noise if the graph is the target."""
    spelling = graph.vocabulary.text(capitalised=True)
    if graph.is_target:
        words, more = _with_noise(words, graph, own)
        spelling = pa.concat_arrays([spelling, more])
    columns = (spelling.take(pa.array(column, mask=column == _NO_WORD)) for column in words.T)
    return pc.binary_join_element_wise(*columns, pa.scalar(" ", type=LABEL), null_handling="skip")


def _with_noise(words: Ranks, graph: _Graph, own: Rng) -> tuple[Ranks, pa.Array]:
    """Names of which a share has one change each, and the spelling of ranks past the end of the vocabulary.

    These ranks denote the initials A. to Z., followed by the misspelt words.
    """
    vocabulary, words = graph.vocabulary, words.copy()
    counts = (words != _NO_WORD).sum(axis=1)
    noise = own.choice(len(_NOISE_SHARES), len(words), p=_NOISE_SHARES)
    # A name of one word can only have a typing error.
    noise[counts == 1] = _TYPO
    noise[own.random(len(words)) >= graph.name_noise] = _UNCHANGED
    changed = own.integers(0, counts)

    rows = np.flatnonzero(noise == _REORDERED)
    last = words[rows, counts[rows] - 1]
    words[rows] = without_entry(words[rows], counts[rows] - 1, _NO_WORD)
    words[rows, 1:] = words[rows, :-1]
    words[rows, 0] = last

    rows = np.flatnonzero(noise == _SHORTENED)
    words[rows] = without_entry(words[rows], changed[rows], _NO_WORD)

    rows = np.flatnonzero(noise == _INITIAL)
    initials = as_labels(f"{letter}." for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    letters = vocabulary.letters[words[rows, 0], 0] - ord("a")
    words[rows, 0] = len(vocabulary) + letters.astype(np.int32)

    rows = np.flatnonzero(noise == _TYPO)
    misspelt = vocabulary.misspelt(words[rows, changed[rows]], own)
    words[rows, changed[rows]] = len(vocabulary) + len(initials) + np.arange(len(rows))
    return words, pa.concat_arrays([initials, misspelt])


def _draw_identifiers(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Codes of thirteen digits with a check digit, as an ISBN has; the target writes hyphens.

    No two entities have the same code. Wrong codes have one wrong digit.
    """
    # The multiplier has no common factor with ten, so the products stay distinct.
    number = truth.permutation(graph.size) * 387_420_489 % 10**9
    entities = graph.draw_entities(_WITH_IDENTIFIER, own)
    digits = np.empty((len(entities), 13), dtype=np.uint8)
    digits[:, :3] = 9, 7, 8
    digits[:, 3:12] = number[entities, None] // 10 ** np.arange(8, -1, -1) % 10
    digits[:, 12] = -(digits[:, :12] @ np.tile(np.array([1, 3]), 6)) % 10
    if graph.is_target:
        rows = np.flatnonzero(own.random(len(entities)) < _WRONG_IDENTIFIERS)
        at = own.integers(3, 12, len(rows))
        digits[rows, at] = (digits[rows, at] + own.integers(1, 10, len(rows))) % 10
    digits += ord("0")
    if graph.is_target:
        digits = np.insert(digits, [3, 4, 6, 12], ord("-"), axis=1)
    yield Literals(graph.predicate("identifier", "code"), _PLAIN, entities, as_text(digits))


def _draw_dates(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Dates; the target has only the year of some, and some are up to three years late."""
    days = _FIRST_DAY + truth.integers(0, (_LAST_DAY - _FIRST_DAY).astype(int), graph.size)
    entities = graph.draw_entities(_WITH_DATE, own)
    days, predicate = days[entities], graph.predicate("founded", "since")
    if graph.is_target:
        is_wrong = own.random(len(entities)) < _WRONG_DATES
        days[is_wrong] += own.integers(1, 3 * 365, is_wrong.sum())
        is_year = own.random(len(entities)) < _ONLY_YEAR
        years = pc.year(pa.array(days[is_year])).cast(LABEL)
        yield Literals(predicate, f"{_XSD}gYear", entities[is_year], years)
        entities, days = entities[~is_year], days[~is_year]
    yield Literals(predicate, f"{_XSD}date", entities, pa.array(days).cast(LABEL))


def _draw_numbers(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Log-normal decimal numbers with two digits after the point; the target has one digit or none."""
    hundredths = (100 * truth.lognormal(5, 2, graph.size)).astype(np.int64)
    entities = graph.draw_entities(_WITH_NUMBER, own)
    hundredths, predicate = hundredths[entities], graph.predicate("size", "extent")
    kind = f"{_XSD}decimal"
    if graph.is_target:
        is_whole = own.random(len(entities)) < 0.5
        whole = (hundredths[is_whole] + 50) // 100
        yield Literals(predicate, kind, entities[is_whole], pa.array(whole).cast(LABEL))
        entities, tenths = entities[~is_whole], (hundredths[~is_whole] + 5) // 10
        yield Literals(predicate, kind, entities, _decimals(tenths, 1))
    else:
        yield Literals(predicate, kind, entities, _decimals(hundredths, 2))


def _decimals(numbers: Indices, digits: int) -> pa.Array:
    """Whole numbers of tenths, hundredths and so on, with a point."""
    whole, rest = np.divmod(numbers, 10**digits)
    padded = pc.utf8_lpad(pa.array(rest).cast(LABEL), digits, "0")
    return pc.binary_join_element_wise(pa.array(whole).cast(LABEL), padded, pa.scalar(".", type=LABEL))


def _draw_categories(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Categories: one of the most frequent words, the same in both graphs."""
    weights = 1 / np.arange(1, _CATEGORIES + 1)
    category = truth.choice(_CATEGORIES, graph.size, p=weights / weights.sum())
    entities = graph.draw_entities(_WITH_CATEGORY, own)
    values = graph.vocabulary.text().take(pa.array(category[entities]))
    yield Literals(graph.predicate("category", "type"), _PLAIN, entities, values)


def _draw_homepages(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Addresses; the target's have http or https, and may lack www and the slash at the end."""
    sites = graph.vocabulary.draw((graph.size, 2), truth)
    entities = graph.draw_entities(_WITH_HOMEPAGE, own)
    forms = [("http://", "https://"), ("www.", ""), (".example/", ".example")]
    chosen = [own.integers(0, 2 if graph.is_target else 1, len(entities)) for _ in forms]
    scheme, www, end = (as_labels(form).take(pa.array(row)) for form, row in zip(forms, chosen, strict=True))
    words = graph.vocabulary.text()
    first, second = (words.take(pa.array(sites[entities, column])) for column in (0, 1))
    values = pc.binary_join_element_wise(scheme, www, first, second, end, pa.scalar("", type=LABEL))
    yield Literals(graph.predicate("homepage", "website"), f"{_XSD}anyURI", entities, values)


def _draw_texts(graph: _Graph, truth: Rng, own: Rng) -> Iterator[Literals]:
    """Texts of ten to thirty words, of which the target keeps the first and some others."""
    writers = np.flatnonzero(truth.random(graph.size) < _WITH_TEXT)
    lengths = truth.integers(_TEXT_WORDS[0], _TEXT_WORDS[1] + 1, len(writers))
    words = graph.vocabulary.draw(int(lengths.sum()), truth)
    is_known = graph.is_present[writers] & (own.random(len(writers)) < _TEXT_KNOWN)
    words = words[np.repeat(is_known, lengths)]
    entities, lengths = writers[is_known], lengths[is_known]
    starts = np.cumsum(lengths) - lengths
    if graph.is_target:
        share = own.uniform(*_TEXT_WORDS_KEPT, len(entities))
        is_kept = own.random(len(words)) < np.repeat(share, lengths)
        is_kept[starts] = True
        words = words[is_kept]
        starts = np.cumsum(is_kept)[starts] - 1
    bounds = pa.array(np.append(starts, len(words)).astype(np.int32))
    lists = pa.ListArray.from_arrays(bounds, graph.vocabulary.text().take(pa.array(words)))
    values = pc.binary_join(lists, pa.scalar(" ", type=LABEL))
    kind = _PLAIN if graph.is_target else _ENGLISH
    yield Literals(graph.predicate("description", "summary"), kind, entities, values)


_PROPERTIES: tuple[Callable[[_Graph, Rng, Rng], Iterator[Literals]], ...] = (
    _draw_names,
    _draw_identifiers,
    _draw_dates,
    _draw_numbers,
    _draw_categories,
    _draw_homepages,
    _draw_texts,
)
"""The order is part of the format: the place of a property is part of its random seed."""
