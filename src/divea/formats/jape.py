"""The folder layout of JAPE and DBP15K: integer ids everywhere, and files that explain them.

ent_ids_1, ent_ids_2     id, label
rel_ids_1, rel_ids_2     id, label (optional)
triples_1, triples_2     head id, relation id, tail id
sup_ent_ids              source id, target id: the seeds
ref_ent_ids              test links, which only `divea.evaluation` reads
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.formats.delimited import read_columns, write_columns, write_numbers
from divea.formats.id_labels import IdLabels
from divea.formats.layouts import SIDES, lost
from divea.graphs import AlignmentTask, GraphBuilder, KnowledgeGraph
from divea.graphs.labels import LABEL, as_labels


class Jape:
    """See the module's text."""

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
        """Ids become labels where a column consists of the folder's ids; labels stay."""
        for side, column in zip(SIDES, ("source", "target"), strict=True):
            known = IdLabels(folder / f"ent_ids_{side}")
            values = as_labels(mappings[column])
            rows = known.find(values)
            if (rows >= 0).any():
                unknown = pa.array(rows < 0)
                found = known.labels.take(pa.array(rows, mask=rows < 0))
                # An id of the other graph, or of none, stays as it is for the error message.
                labels = pc.if_else(unknown, values, found)
                mappings = mappings.set_column(mappings.column_names.index(column), column, labels)
        return mappings

    def write(self, task: AlignmentTask, folder: Path) -> list[str]:
        # One id space for both graphs, and one for relations, so that none can collide.
        first = np.cumsum([0, task.source.num_entities])
        first_relation = np.cumsum([0, task.source.num_relations])
        for graph, side, at, relation_at in zip(
            (task.source, task.target), SIDES, first, first_relation, strict=True
        ):
            _write_ids(folder / f"ent_ids_{side}", graph.entities, int(at))
            _write_ids(folder / f"rel_ids_{side}", graph.relations, int(relation_at))
            shifted = graph.triples + np.array([at, relation_at, at], dtype=np.int32)
            write_numbers(folder / f"triples_{side}", shifted)
        write_numbers(folder / "sup_ent_ids", task.seeds.pairs + first.astype(np.int32))
        return lost(task, attributes=True, isolated=False)


def _read_side(folder: Path, side: int) -> KnowledgeGraph:
    entities = IdLabels(folder / f"ent_ids_{side}")
    relation_file = folder / f"rel_ids_{side}"
    relations = IdLabels(relation_file) if relation_file.is_file() else None
    builder = GraphBuilder()
    builder.add_entities(entities.labels)
    path = folder / f"triples_{side}"
    line = 1
    for batch in read_columns(path, ("head", "relation", "tail"), dictionary=("relation",)):
        ends = [entities.labelled(batch[name], path, line, relations) for name in ("head", "tail")]
        kind = batch["relation"]
        if relations is not None:
            kind = relations.labelled(kind.cast(LABEL), path, line)
        builder.add_triples(ends[0], kind, ends[1])
        line += len(batch)
    return builder.build()


def _write_ids(path: Path, labels: pa.Array, first: int) -> None:
    ids = pa.array(np.arange(first, first + len(labels)))
    write_columns(path, pa.table({"id": ids, "label": labels}), header=False)
