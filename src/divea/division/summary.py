"""A table of subtasks: what each one holds, and how much of the whole graph's evidence it keeps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from divea.config import EvidenceSettings
from divea.division.informativeness import Informativeness
from divea.division.subtask import Division
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.types import Ids


def summarise(division: Division, task: AlignmentTask, evidence: EvidenceSettings | None = None) -> pa.Table:
    """One row per subtask.

    `source_evidence` is the informativeness of the source context for the unmatched entities, as a share of
    the whole graph's. `target_evidence` is that of the target side for the candidates, with the subtask's
    own anchors. `source_edges` and `target_edges` are the shares of the unmatched entities' and of the
    candidates' edges that lie inside.
    """
    settings = evidence or EvidenceSettings()
    source = Informativeness.of(task.source.adjacency, task.seeds.source, settings)
    target = Informativeness.of(task.target.adjacency, task.seeds.target, settings)
    rows = [
        {
            "subtask": subtask.index,
            "size": subtask.size,
            "source": len(subtask.source_entities),
            "target": len(subtask.target_entities),
            "unmatched": len(subtask.unmatched),
            "candidates": len(subtask.candidates),
            "seeds": len(subtask.seeds),
            "source_evidence": source.share(subtask.source_entities, subtask.unmatched),
            "target_evidence": target.share(
                subtask.target_entities, subtask.candidates, subtask.seeds.target
            ),
            "source_edges": _edges_kept(task.source, subtask.source_entities, subtask.unmatched),
            "target_edges": _edges_kept(task.target, subtask.target_entities, subtask.candidates),
        }
        for subtask in division.subtasks
    ]
    return pa.Table.from_pylist(rows)


def _edges_kept(graph: KnowledgeGraph, inside: Ids, entities: Ids) -> float:
    """Share of these entities' edges, counted per triple, whose other end is inside."""
    rows = graph.adjacency[entities]
    total = rows.data.sum()
    at = np.minimum(np.searchsorted(inside, rows.indices), len(inside) - 1)
    return float(rows.data[inside[at] == rows.indices].sum() / total) if total else 1.0
