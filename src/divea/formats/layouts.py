"""What every task folder layout can do, and the parts they share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa

from divea.graphs import AlignmentTask, KnowledgeGraph

SIDES = (1, 2)
"""The benchmark folders number their files: 1 is the source, 2 is the target."""


class Layout(Protocol):
    """A way in which people lay out two graphs and the links between them in one folder.

    A layout never reads test links: gold belongs to `divea.evaluation`.
    """

    name: str

    def recognises(self, folder: Path) -> bool:
        """Whether this folder is laid out so."""

    def read_graphs(self, folder: Path) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        """Source and target."""

    def seeds_file(self, folder: Path) -> Path | None:
        """Where the folder keeps its seeds, if it does."""

    def relabel(self, folder: Path, mappings: pa.Table) -> pa.Table:
        """Mappings with the folder's own ids, if it has such, turned into labels."""

    def write(self, task: AlignmentTask, folder: Path) -> list[str]:
        """Fill an empty folder; says what of the task the layout cannot hold."""


def lost(task: AlignmentTask, *, attributes: bool, isolated: bool) -> list[str]:
    """Sentences about what a layout leaves out: literals, entities that stand in no row, or both."""
    sentences = []
    for side, graph in (("source", task.source), ("target", task.target)):
        alone = graph.degrees == 0
        if graph.attributes is not None:
            if attributes:
                sentences.append(f"{len(graph.attributes)} attribute values of the {side} are left out")
            else:
                alone[graph.attributes.entities] = False
        if isolated and alone.any():
            sentences.append(f"{alone.sum()} {side} entities without a triple are left out")
    return sentences
