"""What explanations are made from: the files that a run kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from divea.division import open_groups
from divea.errors import InputError
from divea.explanations.explanation import Side
from divea.explanations.literals import LearnedPair, TokenRarity
from divea.explanations.neighbours import Counterparts, EdgeIndex, Edges, RelationAgreement, edges_of
from divea.features.names import naming_properties
from divea.formats.parquet import RowGroups
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.arrays import read_description
from divea.graphs.names import entity_names, name_predicates, readable
from divea.runs.evidence import read_evidence
from divea.runs.finished import FinishedRun
from divea.runs.layout import CALIBRATION, DIVISION, EVIDENCE, FEATURES, RANKED
from divea.runs.tables import BY_SUBTASK, ORDER, RANKED_SCHEMA
from divea.types import Ids

_LIST = ("source", "target", "score", "subtask")
"""The columns of ranked lists that explanations need."""


class Kept:
    """What a run kept, as explanations need it. Raises InputError if its files are not those of a run.

    Parameters
    ----------
    many
        Whether many pairs will be explained: the triples are then sorted once instead of searched each time.
    """

    def __init__(self, run: FinishedRun, *, many: bool = False):
        self.run, self._many = run, many
        self.evidence = read_evidence(run.path / EVIDENCE, run.task)
        names, self.learned = _learned(run.path / FEATURES)
        wanted = run.manifest.settings.features.names
        self._name_predicates: dict[Side, tuple[str, ...]] = {
            "source": _name_predicates(run.task.source, names.get("source"), wanted.source),
            "target": _name_predicates(run.task.target, names.get("target"), wanted.target),
        }
        self.threshold = _threshold(run.path / CALIBRATION)
        """The confidence below which pairs are left out of the mappings."""

    @property
    def task(self) -> AlignmentTask:
        """The task that was aligned."""
        return self.run.task

    def graph(self, side: Side) -> KnowledgeGraph:
        """The graph of one side."""
        return self.task.source if side == "source" else self.task.target

    def names(self, side: Side, ids: list[int]) -> list[str]:
        """The names of entities, in one line each."""
        names = entity_names(self.graph(side), self._name_predicates[side], np.array(ids, dtype=np.int32))
        found: list[str] = readable(names).to_pylist()
        return found

    def named(self, side: Side, name: str) -> Ids:
        """The entities with this name."""
        names = readable(entity_names(self.graph(side), self._name_predicates[side]))
        return np.flatnonzero(np.asarray(pc.equal(names, name))).astype(np.int32)

    def is_left_out(self, source: int) -> bool:
        """Whether the match of a source entity is left out of the mappings."""
        return bool(self.counterparts.confidence[source] < self.threshold)

    @cached_property
    def rarity(self) -> TokenRarity:
        """How rare values are."""
        return TokenRarity(self.task)

    @cached_property
    def counterparts(self) -> Counterparts:
        """What each entity is matched with."""
        return Counterparts.of(self.task, self.evidence)

    def edges(self, side: Side, entity: int) -> Edges:
        """The triples of an entity."""
        return self._indexes[side].of(entity) if self._many else edges_of(self.graph(side), entity)

    def agreement(self, here: Edges, there: Edges) -> RelationAgreement:
        """The agreement of the relations of two entities."""
        if self._many:
            return self._agreement_of_all
        return RelationAgreement.of(self.task, self.counterparts, here.relation, there.relation)

    @cached_property
    def _indexes(self) -> dict[Side, EdgeIndex]:
        return {"source": EdgeIndex(self.task.source), "target": EdgeIndex(self.task.target)}

    @cached_property
    def _agreement_of_all(self) -> RelationAgreement:
        return RelationAgreement.of(self.task, self.counterparts)

    @cached_property
    def _lists(self) -> RowGroups:
        return RowGroups(self.run.path / RANKED, _LIST)

    @cached_property
    def _is_by_subtask(self) -> bool:
        """Whether lists are sorted by subtask and source, not by source alone."""
        return self._lists.metadata.get(ORDER) == BY_SUBTASK

    @cached_property
    def _first_list(self) -> Callable[[int], tuple[int, int]]:
        """The subtask and the source of the list that a row group starts with, or continues."""

        @cache
        def first(group: int) -> tuple[int, int]:
            subtask = self._lists.first(group, "subtask")[0].as_py() if self._is_by_subtask else 0
            return subtask, int(self.task.source.find(self._lists.first(group, "source"))[0])

        return first

    def ranked(self, source: int) -> list[tuple[int, float]]:
        """The ranked list of a source: targets and scores.

        Lists are sorted, so a binary search finds the row group.
        """
        groups = open_groups(self.run.path / DIVISION, self.task)
        wanted = int(groups[source]) if self._is_by_subtask else 0, source
        path = self.run.path / RANKED
        low, high = 0, len(self._lists) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._first_list(middle) <= wanted else (low, middle - 1)
        # The list may have started in the group before.
        before = 1 if low and self._first_list(low) == wanted else 0
        table = self._lists.read(range(low - before, min(low + 1, len(self._lists))))
        if table.schema.types != [RANKED_SCHEMA.field(name).type for name in _LIST]:
            raise InputError("is not the table of a run", path=path)
        found = table.filter(pc.equal(table["source"], self.task.source.entities[source]))
        targets = self.task.target.find(found["target"]).tolist()
        if -1 in targets:
            raise InputError("holds ranked lists that do not belong to the task", path=path)
        return list(zip(targets, found["score"].to_pylist(), strict=True))


def _learned(path: Path) -> tuple[dict[str, list[str]], list[LearnedPair]]:
    """The properties that name the entities of each side, and what was learned about pairs of properties."""
    content = read_description(path)
    try:
        names = {side: [str(name) for name in found] for side, found in content.get("names", {}).items()}
        # What was learned about attribute values that were not used is no reason for a match.
        is_used = "attributes" in content and float(content["weights"]["attributes"]) > 0
        return names, [LearnedPair.of(item) for item in content["attributes"]] if is_used else []
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError("is not what a run learned about features", path=path) from error


def _name_predicates(graph: KnowledgeGraph, found: list[str] | None, wanted: str | None) -> tuple[str, ...]:
    """The predicates whose values name entities; a run that did not use names found none."""
    return name_predicates(naming_properties(graph, wanted) if found is None else found, wanted)


def _threshold(path: Path) -> float:
    """The confidence below which pairs are left out of the mappings; infinite if all pairs are left out."""
    content = read_description(path)
    found = content.get("threshold", False) if isinstance(content, dict) else False
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise InputError("is not the calibration of a run", path=path)
    return float("inf") if found is None else float(found)
