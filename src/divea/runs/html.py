"""A finished run as HTML for notebooks: its figures, and its first pairs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from divea.graphs import KnowledgeGraph
from divea.graphs.arrays import read_description
from divea.graphs.names import entity_names, name_predicates, readable
from divea.html_text import table
from divea.runs.expectation import percent
from divea.runs.finished import FinishedRun
from divea.runs.layout import CALIBRATION

MOST_PAIRS = 10
"""The most pairs that are shown."""


def as_html(run: FinishedRun, mappings: pa.Table) -> str:
    """The HTML of a run.

    Parameters
    ----------
    mappings
        The mappings of the run.
    """
    calibration = read_description(run.path / CALIBRATION)
    known = calibration if isinstance(calibration, dict) else {}
    figures: list[tuple[str, object]] = [("pairs", len(mappings)), ("seeds", len(run.task.seeds))]
    for name in ("expected_precision", "expected_recall"):
        share = known.get(name)
        if isinstance(share, float | int):
            figures.append((name.replace("_", " "), percent(share)))
    figures.append(("run directory", run.path))
    first = mappings.slice(0, MOST_PAIRS)
    wanted = run.manifest.settings.features.names
    rows = zip(
        _names(run.task.source, first["source"], wanted.source),
        _names(run.task.target, first["target"], wanted.target),
        first["score"].to_pylist(),
        first["confidence"].to_pylist(),
        strict=True,
    )
    shown = f"The first {len(first)} of {len(mappings)} pairs" if len(first) < len(mappings) else "All pairs"
    pairs = table(["source", "target", "score", "confidence"], rows, shown) if len(first) else ""
    return table([], figures, "Alignment") + pairs


def _names(graph: KnowledgeGraph, labels: pa.ChunkedArray, wanted: str | None) -> list[str]:
    """Readable names of entities; a label that is no entity of the graph stays as it is."""
    ids = graph.find(labels)
    known = np.where(ids < 0, 0, ids).astype(np.int32)
    names = readable(entity_names(graph, name_predicates([], wanted), known)).to_pylist()
    return [
        name if found >= 0 else label
        for name, found, label in zip(names, ids, labels.to_pylist(), strict=True)
    ]
