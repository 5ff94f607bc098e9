"""The folder layout of JAPE and DBP15K: triples and seeds as integer ids, with files that give the labels.

ent_ids_1, ent_ids_2     id, label
rel_ids_1, rel_ids_2     id, label (optional)
triples_1, triples_2     head id, relation id, tail id
sup_ent_ids              source id, target id: the seeds (optional)
ref_ent_ids              test links, which only `divea.evaluation` reads
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.formats.delimited import read_columns, write_columns, write_numbers
from divea.formats.id_labels import IdLabels
from divea.formats.layouts import SIDES, omissions
from divea.graphs import AlignmentTask, GraphBuilder, KnowledgeGraph
from divea.graphs.labels import LABEL, as_labels


class Jape:
    """The layout of JAPE and DBP15K; the module's docstring lists its files."""

    name = "jape"

    def recognises(self, folder: Path) -> bool:
        return all((folder / f"{kind}_{side}").is_file() for kind in ("triples", "ent_ids") for side in SIDES)

    def read_graphs(self, folder: Path) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        source, target = (_read_side(folder, side) for side in SIDES)
        return source, target

    def seeds_file(self, folder: Path) -> Path | None:
        path = folder / "sup_ent_ids"
        return path if path.is_file() else None

    def relabel(self, folder: Path, mappings: pa.Table) -> pa.Table:
        """Replace the folder's ids by labels; a column without any of its ids is a column of labels."""
        for side, column in zip(SIDES, ("source", "target"), strict=True):
            known = IdLabels(folder / f"ent_ids_{side}")
            values = as_labels(mappings[column])
            rows = known.find(values)
            if (rows >= 0).any():
                found = known.labels.take(pa.array(rows, mask=rows < 0))
                # An unknown id, or one of the other graph, stays as it is and appears in the error message.
                labels = pc.if_else(pa.array(rows < 0), values, found)
                mappings = mappings.set_column(mappings.column_names.index(column), column, labels)
        return mappings

    def write(self, task: AlignmentTask, folder: Path) -> list[str]:
        # Ids of the target follow those of the source, for entities and for relations, so none is used twice.
        first_entity = np.cumsum([0, task.source.num_entities])
        first_relation = np.cumsum([0, task.source.num_relations])
        for graph, side, entity, relation in zip(
            (task.source, task.target), SIDES, first_entity, first_relation, strict=True
        ):
            _write_ids(folder / f"ent_ids_{side}", graph.entities, int(entity))
            _write_ids(folder / f"rel_ids_{side}", graph.relations, int(relation))
            triples = graph.triples + np.array([entity, relation, entity], dtype=np.int32)
            write_numbers(folder / f"triples_{side}", triples)
        if len(task.seeds):
            write_numbers(folder / "sup_ent_ids", task.seeds.pairs + first_entity.astype(np.int32))
        return omissions(task, attributes=True, isolated=False)


def _read_side(folder: Path, side: int) -> KnowledgeGraph:
    entities = IdLabels(folder / f"ent_ids_{side}")
    relation_file = folder / f"rel_ids_{side}"
    # Without that file, the ids of relations are their labels.
    relations = IdLabels(relation_file) if relation_file.is_file() else None
    builder = GraphBuilder()
    builder.add_entities(entities.labels)
    path = folder / f"triples_{side}"
    line = 1
    for batch in read_columns(path, ("head", "relation", "tail"), dictionary=("relation",)):
        heads, tails = (entities.labelled(batch[name], path, line, relations) for name in ("head", "tail"))
        kinds = batch["relation"]
        if relations is not None:
            kinds = relations.labelled(kinds.cast(LABEL), path, line)
        builder.add_triples(heads, kinds, tails)
        line += len(batch)
    return builder.build()


def _write_ids(path: Path, labels: pa.Array, first: int) -> None:
    ids = pa.array(np.arange(first, first + len(labels)))
    write_columns(path, pa.table({"id": ids, "label": labels}), header=False)
