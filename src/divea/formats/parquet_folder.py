"""A task folder of Parquet tables, with labels or with integer ids.

triples_1.parquet, triples_2.parquet     head, relation, tail
relations_1.tsv, relations_2.tsv         id, label (optional)
seeds.parquet                            source, target (optional)
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from divea.formats.graph_files import COLUMNS, triple_labels
from divea.formats.id_labels import IdLabels
from divea.formats.layouts import SIDES, omissions
from divea.formats.parquet import read_label_columns
from divea.graphs import AlignmentTask, GraphBuilder, KnowledgeGraph


class ParquetFolder:
    """The layout of Parquet tables; the module's docstring lists its files."""

    name = "parquet"

    def recognises(self, folder: Path) -> bool:
        return all((folder / f"triples_{side}.parquet").is_file() for side in SIDES)

    def read_graphs(self, folder: Path) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        source, target = (_read_side(folder, side) for side in SIDES)
        return source, target

    def seeds_file(self, folder: Path) -> Path | None:
        path = folder / "seeds.parquet"
        return path if path.is_file() else None

    def relabel(self, folder: Path, mappings: pa.Table) -> pa.Table:
        return mappings

    def write(self, task: AlignmentTask, folder: Path) -> list[str]:
        for graph, side in zip((task.source, task.target), SIDES, strict=True):
            pq.write_table(triple_labels(graph), folder / f"triples_{side}.parquet", compression="zstd")
        if len(task.seeds):
            source, target = task.seeds.labels(task.source, task.target)
            pq.write_table(pa.table({"source": source, "target": target}), folder / "seeds.parquet")
        return omissions(task, attributes=True, isolated=True)


def _read_side(folder: Path, side: int) -> KnowledgeGraph:
    path = folder / f"triples_{side}.parquet"
    relation_file = folder / f"relations_{side}.tsv"
    # Without that file, the relations of the triples are labels.
    relations = IdLabels(relation_file) if relation_file.is_file() else None
    builder = GraphBuilder()
    row = 1
    for heads, kinds, tails in read_label_columns(path, COLUMNS, keep=False):
        if relations is not None:
            kinds = relations.labelled(kinds, path, row)
        builder.add_triples(heads, kinds, tails)
        row += len(heads)
    return builder.build()
