"""The protocol that every layout of task folders implements, and what the layouts share."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pyarrow as pa

from divea.graphs import AlignmentTask, KnowledgeGraph

SIDES = (1, 2)
"""The numbers in the file names of benchmark folders: 1 for the source, 2 for the target."""


class Layout(Protocol):
    """A layout of task folders: how two graphs and the links between them are stored as files.

    A layout never reads test links; only `divea.evaluation` does.
    """

    name: str
    """The name that `divea convert --to` and `divea.write_task` accept."""

    def recognises(self, folder: Path) -> bool:
        """Whether a folder has this layout."""

    def read_graphs(self, folder: Path) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        """The source and the target graph."""

    def seeds_file(self, folder: Path) -> Path | None:
        """The file of the folder's seeds; None if the folder has none."""

    def relabel(self, folder: Path, mappings: pa.Table) -> pa.Table:
        """Mappings with the folder's own ids replaced by labels.

        A layout without such ids returns the mappings as they are.
        """

    def write(self, task: AlignmentTask, folder: Path) -> list[str]:
        """Write a task into an empty folder.

        Returns a sentence for each thing that the layout cannot hold; see `omissions`.
        """


def omissions(task: AlignmentTask, *, attributes: bool, isolated: bool) -> list[str]:
    """A sentence for each thing of a task that a layout cannot hold.

    Parameters
    ----------
    attributes
        The layout has no attributes.
    isolated
        The layout has no entities that are neither in a triple nor in an attribute that it holds.
    """
    sentences = []
    for side, graph in (("source", task.source), ("target", task.target)):
        is_isolated = graph.degrees == 0
        if graph.attributes is not None:
            if attributes:
                sentences.append(f"{len(graph.attributes)} attribute values of the {side} are left out")
            else:
                is_isolated[graph.attributes.entities] = False
        if isolated and is_isolated.any():
            sentences.append(f"{is_isolated.sum()} {side} entities without a triple are left out")
    return sentences
