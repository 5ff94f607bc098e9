"""The summary of names and literals that `divea info` prints: what both graphs have, and what they share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.features.names import NameTable, find_names
from divea.features.text import normalise
from divea.features.values import ValueKind, kind_of, tokens
from divea.graphs import AlignmentTask, Attributes, KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.types import Ids
from divea.wording import worded

MOST_PROPERTIES = 100
"""How many properties are listed for each graph: those that the most entities have."""

IDENTIFIER_COVERAGE, IDENTIFIER_DISTINCT, IDENTIFIER_LENGTH = 0.05, 0.95, 60
"""A property looks like an identifier if this share of the entities has it, this share of its values differ,
and they have at most this many characters on average."""

MOST_CODES = 0.8
"""The share of codes above which values can be identifiers."""

_SAMPLE = 10_000
"""The most values of a property that decide its kind."""

_Mask = npt.NDArray[np.bool_]


def summarise_features(
    task: AlignmentTask, source_property: str | None = None, target_property: str | None = None
) -> dict[str, Any]:
    """The names and literals of both graphs and what they have in common, as plain JSON types.

    Parameters
    ----------
    source_property, target_property
        The properties that name entities; found if None, as `find_names` does.

    Examples
    --------
    >>> left, right = (KnowledgeGraph.from_triples([], [f"http://{x}.org/Oslo"]) for x in "ab")
    >>> summary = summarise_features(AlignmentTask(left, right))
    >>> summary["unique names in common"], summary["source"]["names from"]
    (1, 'the ends of IRIs')
    """
    graphs = task.source, task.target
    tables = find_names(task.source, source_property), find_names(task.target, target_property)
    names = _Texts.of(*((table.entities, normalise(table.texts)) for table in tables))
    naming = [set(table.properties) for table in tables]
    values = _Texts.of(*(_values(graph, labels) for graph, labels in zip(graphs, naming, strict=True)))
    sides = [
        _summarise_names(names, side, tables[side], graphs[side])
        | {"properties": _properties(graphs[side], naming[side])}
        for side in (0, 1)
    ]
    common, unique = names.in_common()
    common_values, unique_values = values.in_common()
    summary = {
        "source": sides[0],
        "target": sides[1],
        "names in common": common,
        "unique names in common": unique,
        "values in common": common_values,
        "unique values in common": unique_values,
    }
    if len(task.seeds):
        has_names, is_equal = names.compare(task.seeds.source, task.seeds.target)
        summary |= {"seeds with names": int(has_names.sum()), "seeds with equal names": int(is_equal.sum())}
    return summary


def warnings_of_features(task: AlignmentTask, summary: dict[str, Any]) -> list[str]:
    """What an alignment without seeds starts from; nothing if there are seeds.

    Parameters
    ----------
    summary
        From `summarise_features`.
    """
    if len(task.seeds):
        return []
    counts = {"names": summary["unique names in common"], "values": summary["unique values in common"]}
    if any(counts.values()):
        found = " and ".join(f"{count} {what}" for what, count in counts.items() if count)
        return [f"no seeds: the alignment starts from {found} that are unique in both graphs"]
    has_names = all(summary[side]["entities with a name"] for side in ("source", "target"))
    has_values = all(_has_other_literals(summary[side]) for side in ("source", "target"))
    what = " or ".join([*(["name"] if has_names else []), *(["attribute value"] if has_values else [])])
    advice = worded(
        command="give known matches with --seeds, or names with --source-names and --target-names",
        python="give known matches as seeds=, or names as source_names= and target_names=",
    )
    if what:
        return [f"no seeds, and no {what} that is unique in both graphs: little to start from; {advice}"]
    return [f"no seeds, and no names or attribute values to compare: nothing can be aligned; {advice}"]


def _has_other_literals(side: dict[str, Any]) -> bool:
    return any(item["role"] != "name" for item in side["properties"])


@dataclass(frozen=True)
class _Texts:
    """Which entities of both graphs have which texts: each pair of entity and text once."""

    entities: tuple[Ids, Ids]
    """The entity of each pair, in ascending order."""
    codes: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """The number of each text; equal texts have the same number in both graphs."""
    holders: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """The number of entities of each graph that have each text."""

    @classmethod
    def of(cls, source: tuple[Ids, pa.Array], target: tuple[Ids, pa.Array]) -> _Texts:
        """Texts of entities, row by row; empty texts are left out."""
        encoded = pa.concat_arrays([source[1].cast(LABEL), target[1].cast(LABEL)]).dictionary_encode()
        numbers, count = np.asarray(encoded.indices).astype(np.int64), len(encoded.dictionary)
        is_text = np.asarray(pc.not_equal(encoded.dictionary, ""))[numbers]
        entities, codes, holders = [], [], []
        for ids, number, kept in (
            (source[0], numbers[: len(source[0])], is_text[: len(source[0])]),
            (target[0], numbers[len(source[0]) :], is_text[len(source[0]) :]),
        ):
            # np.unique hashes, which is several times slower than sorting.
            pairs = np.sort(ids[kept].astype(np.int64) * max(count, 1) + number[kept])
            pairs = pairs[np.diff(pairs, prepend=-1) > 0]
            entities.append((pairs // max(count, 1)).astype(np.int32))
            codes.append(pairs % max(count, 1))
            holders.append(np.bincount(codes[-1], minlength=count))
        return cls((entities[0], entities[1]), (codes[0], codes[1]), (holders[0], holders[1]))

    def in_common(self) -> tuple[int, int]:
        """The number of texts that both graphs have, and of those that one entity of each graph has."""
        source, target = self.holders
        return int(((source > 0) & (target > 0)).sum()), int(((source == 1) & (target == 1)).sum())

    def compare(self, source: Ids, target: Ids) -> tuple[_Mask, _Mask]:
        """Whether both entities of each pair have texts, and whether one of them is the same."""
        left, right = (self._texts_of(side, ids) for side, ids in enumerate((source, target)))
        has_both = (np.diff(left.indptr) > 0) & (np.diff(right.indptr) > 0)
        return has_both, np.asarray(left.multiply(right).sum(axis=1)).ravel() > 0

    def _texts_of(self, side: int, ids: Ids) -> Any:
        from scipy.sparse import csr_array

        shape = max(int(ids.max(initial=-1)), int(self.entities[side].max(initial=-1))) + 1
        ones = np.ones(len(self.codes[side]), dtype=np.int32)
        rows = csr_array(
            (ones, (self.entities[side], self.codes[side])), shape=(shape, max(len(self.holders[side]), 1))
        )
        return rows[ids]


def _summarise_names(names: _Texts, side: int, table: NameTable, graph: KnowledgeGraph) -> dict[str, Any]:
    named = int((np.diff(names.entities[side], prepend=-1) > 0).sum())
    holders = names.holders[side]
    return {
        "names from": ", ".join(table.origins),
        "entities with a name": named,
        "share with a name": named / max(graph.num_entities, 1),
        "distinct names": int((holders > 0).sum()),
        "unique names": int((holders == 1).sum()),
    }


def _properties(graph: KnowledgeGraph, naming: set[str]) -> list[dict[str, Any]]:
    """The properties that most entities have: what their values are, and how many there are."""
    attributes = graph.attributes
    if attributes is None:
        return []
    labels = attributes.predicate_labels.to_pylist()
    holders = _holders(attributes)
    ranked = sorted(range(len(labels)), key=lambda number: (-holders[number], labels[number]))
    rows_of = attributes.rows_by_predicate()
    found = []
    for number in ranked[:MOST_PROPERTIES]:
        rows, count = rows_of[number], int(holders[number])
        sample = pa.array(_spread(rows))
        some = attributes.values.take(sample)
        kind = kind_of(some, attributes.kinds.take(sample))
        distinct = pc.count_distinct(attributes.values.take(pa.array(rows))).as_py()
        is_identifier = (
            count >= IDENTIFIER_COVERAGE * graph.num_entities
            and distinct >= IDENTIFIER_DISTINCT * len(rows)
            and _are_codes(some, kind)
        )
        found.append(
            {
                "property": labels[number],
                "kind": str(kind),
                "entities": count,
                "share": count / max(graph.num_entities, 1),
                "values": len(rows),
                "distinct values": distinct,
                "role": "name" if labels[number] in naming else "identifier" if is_identifier else "",
            }
        )
    return found


def _holders(attributes: Attributes) -> npt.NDArray[np.int64]:
    """The number of entities that have each property."""
    # Rows are sorted by entity and predicate, so the first row of each pair differs from the row before.
    entities, predicates = np.asarray(attributes.entities), np.asarray(attributes.predicates)
    is_first = np.ones(len(entities), dtype=bool)
    is_first[1:] = (entities[1:] != entities[:-1]) | (predicates[1:] != predicates[:-1])
    return np.bincount(predicates[is_first], minlength=len(attributes.predicate_labels))


def _spread(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The rows, or an evenly spaced sample if there are many."""
    return rows[np.linspace(0, len(rows) - 1, min(len(rows), _SAMPLE)).astype(np.int64)]


def _are_codes(some: pa.Array, kind: ValueKind) -> bool:
    """Whether values look like identifiers, apart from being distinct: short codes, numbers or URLs."""
    if kind in (ValueKind.DATE, ValueKind.LONG_TEXT):
        return False
    # Measurements have fractions, and names have spaces and no digits.
    pattern = r"^\s*\d+\s*$" if kind is ValueKind.NUMBER else r"\d|^\S+$"
    is_code = np.asarray(pc.match_substring_regex(some, pattern))
    is_short = pc.mean(pc.utf8_length(some)).as_py() <= IDENTIFIER_LENGTH
    return bool(is_short and is_code.mean() > MOST_CODES)


def _values(graph: KnowledgeGraph, naming: set[str]) -> tuple[Ids, pa.Array]:
    """The entity and the normalised text of each literal that is neither a name nor a long text."""
    attributes = graph.attributes
    entities, texts = [np.zeros(0, np.int32)], [pa.array([], LABEL)]
    if attributes is None:
        return entities[0], texts[0]
    for kind, rows in _rows_by_kind(attributes, naming).items():
        if kind is ValueKind.LONG_TEXT:
            continue
        row, token = tokens(attributes.values.take(pa.array(rows)), kind)
        is_whole = np.asarray(pc.starts_with(token, "="))
        entities.append(np.asarray(attributes.entities)[rows[row[is_whole]]])
        texts.append(token.filter(pa.array(is_whole)).cast(LABEL))
    return np.concatenate(entities), pa.concat_arrays(texts)


def _rows_by_kind(attributes: Attributes, naming: set[str]) -> dict[ValueKind, npt.NDArray[np.int64]]:
    """The rows of all properties of each kind, without those that name entities."""
    found: dict[ValueKind, list[npt.NDArray[np.int64]]] = {kind: [] for kind in ValueKind}
    labels = attributes.predicate_labels.to_pylist()
    for label, rows in zip(labels, attributes.rows_by_predicate(), strict=True):
        if label not in naming and len(rows):
            some = pa.array(_spread(rows))
            found[kind_of(attributes.values.take(some), attributes.kinds.take(some))].append(rows)
    return {kind: np.concatenate(rows) for kind, rows in found.items() if rows}
