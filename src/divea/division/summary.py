"""A table of subtasks: what each holds, and how much of the whole graph's evidence it kept."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from divea.division.evidence import EvidenceSettings
from divea.division.subtask import Division
from divea.division.yardstick import Yardstick
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.graphs.labels import Ids


def summarise(division: Division, task: AlignmentTask, evidence: EvidenceSettings | None = None) -> pa.Table:
    """One row for each subtask.

    `source_evidence` is the informativeness of the source context for the unmatched entities, 1
    being the whole graph's; `target_evidence` that of the target side for the candidates, with the
    subtask's own anchors. `source_edges` and `target_edges` are the shares of the edges at the
    unmatched, or at the candidates, that lie inside.
    """
    settings = evidence or EvidenceSettings()
    source = Yardstick.of(task.source.adjacency, task.seeds.source, settings)
    target = Yardstick.of(task.target.adjacency, task.seeds.target, settings)
    rows = [
        {
            "subtask": subtask.index,
            "size": subtask.size,
            "source": len(subtask.source_entities),
            "target": len(subtask.target_entities),
            "unmatched": len(subtask.unmatched),
            "candidates": len(subtask.candidates),
            "seeds": len(subtask.seeds),
            "source_evidence": source.informativeness(subtask.source_entities, subtask.unmatched),
            "target_evidence": target.informativeness(
                subtask.target_entities, subtask.candidates, subtask.seeds.target
            ),
            "source_edges": _edges_kept(task.source, subtask.source_entities, subtask.unmatched),
            "target_edges": _edges_kept(task.target, subtask.target_entities, subtask.candidates),
        }
        for subtask in division.subtasks
    ]
    return pa.Table.from_pylist(rows)


def _edges_kept(graph: KnowledgeGraph, inside: Ids, wanted: Ids) -> float:
    """Share of the wanted entities' edges, counted per triple, whose other end is inside."""
    rows = graph.adjacency[wanted]
    total = rows.data.sum()
    at = np.minimum(np.searchsorted(inside, rows.indices), len(inside) - 1)
    return float(rows.data[inside[at] == rows.indices].sum() / total) if total else 1.0
