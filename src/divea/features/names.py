"""Names: found among the literals or in the IRIs, and compared by their words and characters.

A name is the value of a property that is known to name things (`rdfs:label` and the like), else of the
property of the graph that behaves most like one, else the end of the IRI unless that is a mere number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array

from divea.config import FeatureSettings
from divea.errors import InputError
from divea.features.base import Feature
from divea.features.nearest import is_searched_exactly, nearest_of_both
from divea.features.text import token_vectors
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.features import PairScores, all_ids
from divea.graphs.knowledge_graph import Attributes
from divea.graphs.names import GIVEN_NAME, NAME_PREDICATES, iri_ends
from divea.types import Ids

LEAST_COVERAGE, LEAST_DISTINCT = 0.3, 0.8
"""A property behaves like a name if this share of the unnamed entities has it, and this share of its values
is distinct."""

LONGEST = 100
"""The most characters that the values of a property that names things have on average."""

MOST_OPAQUE = 0.5
"""The share of numbers and codes above which the ends of IRIs, or the values of a property, are no names."""

LEAST_STEMS = 0.2
"""The share of the ends with a number that must differ in something other than the number."""

_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"


@dataclass(frozen=True)
class NameTable:
    """Names of entities: one row per name, sorted by entity."""

    entities: Ids
    texts: pa.Array
    languages: pa.Array
    """The language of each name, as in `@en`; empty if none is known."""
    properties: tuple[str, ...]
    """The properties that the names are values of."""
    has_iri_ends: bool = False
    """Whether some names are the ends of IRIs."""

    @property
    def origins(self) -> list[str]:
        """Where the names come from, for people."""
        return [*self.properties, *(["the ends of IRIs"] if self.has_iri_ends else [])]

    def __len__(self) -> int:
        return len(self.entities)


class Names(Feature):
    """The similarity of names: the cosine of their words and character trigrams, weighted by rarity."""

    name = "names"

    def __init__(self, settings: FeatureSettings | None = None):
        self.settings = settings or FeatureSettings()
        self._origins: dict[str, list[str]] = {}

    @classmethod
    def from_settings(cls, settings: FeatureSettings) -> Self:
        return cls(settings)

    def is_available(self, task: AlignmentTask) -> bool:
        """Whether both graphs have names."""
        wanted = self.settings.names
        tables = find_names(task.source, wanted.source), find_names(task.target, wanted.target)
        return all(len(table) > 0 for table in tables)

    def describe(self) -> dict[str, list[str]]:
        """Where the names of both graphs come from."""
        return self._origins

    def compute(
        self,
        task: AlignmentTask,
        known: Links | None = None,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> PairScores | None:
        source = find_names(task.source, self.settings.names.source)
        target = find_names(task.target, self.settings.names.target)
        if not len(source) or not len(target):
            return None
        self._origins = {"source": source.origins, "target": target.origins}
        source, target = same_language_first(source, target)
        vectors = token_vectors(source.texts, target.texts)
        self.notes = ()
        if not is_searched_exactly(vectors.source, vectors.target):
            self.notes = (
                f"names are too many ({len(source):,} and {len(target):,}) to compare all that share a "
                "trigram; they are searched by rare words and runs of characters, which misses some",
            )
        found = nearest_of_both(vectors.source, vectors.target, self.settings.nearest, vectors.keys)
        scores = best_of_names(found, source.entities, target.entities, _sizes(task))
        return PairScores(self.name, *all_ids(task), scores)


def _sizes(task: AlignmentTask) -> tuple[int, int]:
    return task.source.num_entities, task.target.num_entities


def best_of_names(names: csr_array, source: Ids, target: Ids, shape: tuple[int, int]) -> csr_array:
    """The best similarity of any two names of each pair of entities, from the similarities of names."""
    row = source[np.repeat(np.arange(names.shape[0]), np.diff(names.indptr))].astype(np.int64)
    pair = row * shape[1] + target[names.indices]
    order = np.lexsort((-names.data, pair))
    pair, value = pair[order], names.data[order]
    first = np.concatenate([[True], pair[1:] != pair[:-1]])[: len(pair)]
    pair, value = pair[first], value[first]
    scores = csr_array((value, (pair // shape[1], pair % shape[1])), shape=shape)
    scores.sort_indices()
    return scores


def find_names(graph: KnowledgeGraph, wanted: str | None = None) -> NameTable:
    """The names of a graph's entities; an empty table if it has none.

    Parameters
    ----------
    wanted
        The property that names things; found if None.

    Examples
    --------
    >>> graph = KnowledgeGraph.from_triples([], ["http://x.org/New_York", "http://x.org/Oslo"])
    >>> sorted(find_names(graph).texts.to_pylist())
    ['New York', 'Oslo']
    """
    return _of_properties(graph, naming_properties(graph, wanted))


def naming_properties(graph: KnowledgeGraph, wanted: str | None = None) -> list[str]:
    """The properties that name a graph's entities, as in `find_names`, without the names themselves."""
    attributes = graph.attributes
    predicates = [] if attributes is None else attributes.predicate_labels.to_pylist()
    if wanted is not None:
        if wanted not in predicates:
            shown = ", ".join(sorted(predicates)[:10]) or "none"
            raise InputError(f"no entity has a literal of the property {wanted!r}; there are {shown}")
        return [wanted]
    if GIVEN_NAME in predicates:
        return [GIVEN_NAME]
    chosen = [name for name in NAME_PREDICATES if name in predicates]
    if attributes is not None:
        is_unnamed = np.ones(graph.num_entities, dtype=bool)
        is_naming = np.isin(attributes.predicates, [predicates.index(name) for name in chosen])
        is_unnamed[attributes.entities[is_naming]] = False
        if is_unnamed.any() and (another := name_like(attributes, is_unnamed)) is not None:
            chosen.append(another)
    return chosen


def name_like(attributes: Attributes, is_unnamed: npt.NDArray[np.bool_]) -> str | None:
    """The property that behaves most like a name of entities that have none; None if none does.

    Many of them have it, hardly any twice, and almost all values are short, distinct texts that are neither
    addresses nor codes.
    """
    is_text = np.asarray(_is_text(attributes))
    found = []
    for label, rows in zip(
        attributes.predicate_labels.to_pylist(), attributes.rows_by_predicate(), strict=True
    ):
        rows = rows[is_text[rows] & is_unnamed[attributes.entities[rows]]]
        # Rows are sorted by entity.
        named = int((np.diff(attributes.entities[rows], prepend=-1) > 0).sum())
        if not named or named < LEAST_COVERAGE * is_unnamed.sum() or len(rows) > 1.5 * named:
            continue
        values = attributes.values.take(pa.array(rows))
        length = pc.mean(pc.utf8_length(values)).as_py()
        if (
            length <= LONGEST
            and pc.count_distinct(values).as_py() >= LEAST_DISTINCT * len(rows)
            and _share(values, r"\p{L}{2}") >= LEAST_DISTINCT
            and _share(values, r"^\w+://|^[^\s\d]*\d\S*$") <= MOST_OPAQUE
        ):
            found.append((-named, length, label))
    return min(found)[2] if found else None


def _share(values: pa.Array, pattern: str) -> float:
    """The share of values that match a pattern."""
    return float(np.asarray(pc.match_substring_regex(values, pattern)).mean())


def _is_text(attributes: Attributes) -> pa.Array:
    kinds = attributes.kinds
    is_plain = pc.or_(pc.equal(kinds, ""), pc.equal(kinds, _XSD_STRING))
    return pc.or_(is_plain, pc.starts_with(kinds, "@"))


def _of_properties(graph: KnowledgeGraph, properties: list[str]) -> NameTable:
    """The values of some properties, and the ends of IRIs for entities that have none of them."""
    entities = np.zeros(0, dtype=np.int32)
    texts, languages = pa.array([], graph.entities.type), pa.array([], graph.entities.type)
    attributes = graph.attributes
    if attributes is not None and properties:
        labels = attributes.predicate_labels.to_pylist()
        numbers = [labels.index(label) for label in properties]
        rows = np.flatnonzero(np.isin(attributes.predicates, numbers))
        entities = np.asarray(attributes.entities[rows])
        texts = attributes.values.take(pa.array(rows))
        kinds = attributes.kinds.take(pa.array(rows))
        languages = pc.if_else(pc.starts_with(kinds, "@"), kinds, pa.scalar("", kinds.type))
    has_name = np.zeros(graph.num_entities, dtype=bool)
    has_name[entities] = True
    has_iri_ends = False
    others = np.flatnonzero(~has_name).astype(np.int32)
    ends = iri_ends(graph.entities.take(pa.array(others)))
    if len(ends) and _share_of_numbers(ends) <= MOST_OPAQUE:
        has_iri_ends = True
        entities = np.concatenate([entities, others])
        texts = pa.concat_arrays([texts, ends.cast(texts.type)])
        languages = pa.concat_arrays([languages, pa.array([""] * len(ends), languages.type)])
    order = np.argsort(entities, kind="stable")
    take = pa.array(order)
    return NameTable(entities[order], texts.take(take), languages.take(take), tuple(properties), has_iri_ends)


def _share_of_numbers(ends: pa.Array) -> float:
    """The share of texts that are no names: numbers, perhaps after a word that most have, and codes."""
    is_word = np.asarray(pc.match_substring_regex(ends, r"\p{L}{3}"))
    is_code = np.asarray(pc.match_substring_regex(ends, r"^[0-9a-fA-F-]{16,}$"))
    stems = pc.replace_substring_regex(ends, r"[0-9]+", "")
    is_numbered = np.asarray(pc.not_equal(stems, ends))
    # Names of different things differ in more than a number.
    if is_numbered.any():
        numbered = stems.filter(pa.array(is_numbered))
        if pc.count_distinct(numbered).as_py() < LEAST_STEMS * len(numbered):
            is_code |= is_numbered
    return float(1 - np.mean(is_word & ~is_code))


def same_language_first(source: NameTable, target: NameTable) -> tuple[NameTable, NameTable]:
    """Both tables; of an entity with names in a language of both, names in other languages are left out."""
    shared = set(source.languages.unique().to_pylist()) & set(target.languages.unique().to_pylist())
    return _in_languages(source, shared), _in_languages(target, shared)


def _in_languages(table: NameTable, languages: set[str | None]) -> NameTable:
    is_shared = np.asarray(pc.is_in(table.languages, pa.array(list(languages), table.languages.type)))
    has_shared = np.zeros(int(table.entities.max(initial=-1)) + 1, dtype=bool)
    has_shared[table.entities[is_shared]] = True
    kept: npt.NDArray[np.bool_] = is_shared | ~has_shared[table.entities]
    mask = pa.array(kept)
    return replace(
        table,
        entities=table.entities[kept],
        texts=table.texts.filter(mask),
        languages=table.languages.filter(mask),
    )
