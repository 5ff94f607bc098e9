"""What a run kept: all that explanations come from."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from divea.errors import InputError
from divea.explanations.explanation import Side
from divea.explanations.neighbours import Counterparts, EdgeIndex, Edges, RelationAgreement, edges_of
from divea.formats.parquet import open_parquet
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.arrays import read_description
from divea.graphs.names import GIVEN_NAME, NAME_PREDICATES, entity_names, readable
from divea.runs.evidence import read_evidence
from divea.runs.finished import FinishedRun
from divea.runs.layout import CALIBRATION, EVIDENCE, FEATURES, RANKED
from divea.runs.tables import RANKED_SCHEMA


class Kept:
    """What a run kept. Raises InputError if its files are not those of a run.

    Parameters
    ----------
    many
        Whether many pairs will be explained: the triples are then sorted once instead of searched each time.
    """

    def __init__(self, run: FinishedRun, *, many: bool = False):
        self.run, self._many = run, many
        self.evidence = read_evidence(run.path / EVIDENCE, run.task)
        self._properties, self.learned = _learned(run.path / FEATURES)
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
        names = entity_names(self.graph(side), self._properties[side], np.array(ids, dtype=np.int32))
        found: list[str] = readable(names).to_pylist()
        return found

    @cached_property
    def counterparts(self) -> Counterparts:
        """What each entity is matched with."""
        return Counterparts.of(self.task, self.evidence)

    def edges(self, side: Side, entity: int) -> Edges:
        """The triples of an entity."""
        return self._indexes[side].of(entity) if self._many else edges_of(self.graph(side), entity)

    def agreement(self, here: Edges, there: Edges) -> RelationAgreement:
        """How far the relations of two entities agree."""
        if self._many:
            return self._agreement_of_all
        return RelationAgreement.of(self.task, self.counterparts, here.relation, there.relation)

    @cached_property
    def _indexes(self) -> dict[Side, EdgeIndex]:
        return {"source": EdgeIndex(self.task.source), "target": EdgeIndex(self.task.target)}

    @cached_property
    def _agreement_of_all(self) -> RelationAgreement:
        return RelationAgreement.of(self.task, self.counterparts)

    def ranked(self, source: int) -> list[tuple[int, float]]:
        """The ranked list of a source: targets and scores. Lists are sorted by source id, so a binary search
        finds the row group.
        """
        task, path = self.task, self.run.path / RANKED
        columns = ["source", "target", "score"]
        with open_parquet(path, columns) as file:
            low, high = 0, file.num_row_groups - 1
            while low < high:
                middle = (low + high + 1) // 2
                first = next(file.iter_batches(1, [middle], ["source"]))["source"]
                if int(task.source.find(first)[0]) <= source:
                    low = middle
                else:
                    high = middle - 1
            # A list may start in the group before or continue in the next one.
            groups = [group for group in (low - 1, low, low + 1) if 0 <= group < file.num_row_groups]
            table = file.read_row_groups(groups, columns)
        if table.schema.types != [RANKED_SCHEMA.field(name).type for name in columns]:
            raise InputError("is not the table of a run", path=path)
        found = table.filter(pc.equal(table["source"], task.source.entities[source]))
        targets = task.target.find(found["target"]).tolist()
        if -1 in targets:
            raise InputError("holds ranked lists that do not belong to the task", path=path)
        return list(zip(targets, found["score"].to_pylist(), strict=True))


def _learned(path: Path) -> tuple[dict[Side, tuple[str, ...]], list[dict[str, Any]]]:
    """The properties that name entities, the preferred ones first, and what was learned about pairs of
    properties.
    """
    content = read_description(path)
    sides: tuple[Side, Side] = "source", "target"
    try:
        # The file has the properties as one text; no IRI contains a comma and a space.
        names = {side: str(content.get("names", {}).get(side, "")) for side in sides}
        pairs = [
            {
                **{key: str(item[key]) for key in ("source", "target")},
                **{key: float(item[key]) for key in ("agreement", "presence")},
            }
            for item in content.get("attributes", [])
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError("is not what a run learned about features", path=path) from error
    known = GIVEN_NAME, *NAME_PREDICATES
    return {side: tuple(dict.fromkeys((*known, *text.split(", ")))) for side, text in names.items()}, pairs


def _threshold(path: Path) -> float:
    """The confidence below which pairs are left out of the mappings; infinite if all of them are."""
    content = read_description(path)
    found = content.get("threshold", False) if isinstance(content, dict) else False
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise InputError("is not the calibration of a run", path=path)
    return float("inf") if found is None else float(found)
