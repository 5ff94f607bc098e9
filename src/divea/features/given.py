"""Given vectors: computed elsewhere, by any program, and read from a file for each graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from divea.config import FeatureSettings
from divea.errors import InputError
from divea.features.base import Feature
from divea.formats.stream import reading
from divea.formats.vectors import read_vectors, vector_files
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.features import EntityVectors, all_ids
from divea.io import checksum, file_checksum, usable_path
from divea.resources.machine import total_memory
from divea.types import Ids

_BYTES = 2
"""Bytes of a float16."""


class Given(Feature):
    """Vectors that the user computed elsewhere; the similarity of two entities is their cosine.

    Entities without a vector have a vector of zeros. Vectors of labels that are no entities are ignored, and
    `notes` says how many; a file in which no label is an entity is refused.

    Parameters
    ----------
    source, target
        The file of each graph; see `divea.formats.vectors.read_vectors`. A relative path is relative to the
        working directory.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> graph = KnowledgeGraph.from_triples([("Rome", "near", "Ostia")])
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder, "cities.npy")
    ...     np.save(path, np.array([[3.0, 4.0], [2.0, 0.0]]))
    ...     _ = path.with_suffix(".txt").write_text("Rome\\nOslo\\n")
    ...     given = Given(path, path)
    ...     vectors = given.compute(AlignmentTask(graph, graph))
    >>> vectors.source[graph.find(["Rome", "Ostia"])].round(1).tolist()
    [[0.60009765625, 0.7998046875], [0.0, 0.0]]
    >>> given.notes[0].split(": ")[1]
    '1 of 2 vectors belong to no source entity and are ignored; 1 of 2 source entities have a vector'
    """

    name = "given"

    def __init__(self, source: str | Path, target: str | Path):
        self.source, self.target = usable_path(source), usable_path(target)
        self.notes: tuple[str, ...] = ()
        """What was ignored or missing in the last call, one sentence for each graph."""

    @classmethod
    def from_settings(cls, settings: FeatureSettings) -> Self:
        paths = []
        for side, path in (("source", settings.given.source), ("target", settings.given.target)):
            if not path:
                raise InputError(
                    f"features.given.{side} is not set: the feature 'given' needs a file of vectors for "
                    "each graph"
                )
            paths.append(path)
        return cls(*paths)

    def compute(
        self,
        task: AlignmentTask,
        known: Links | None = None,
        *,
        random_seed: int = 0,
        device: str = "cpu",
        memory: int | None = None,
    ) -> EntityVectors:
        self.notes = ()
        source = self._rows(self.source, task, "source")
        target = self._rows(self.target, task, "target")
        if source.shape[1] != target.shape[1]:
            raise InputError(
                f"vectors have {target.shape[1]} dimensions, those of {self.source} have {source.shape[1]}",
                path=self.target,
            )
        return EntityVectors(self.name, *all_ids(task), source, target)

    def checksums(self) -> dict[str, str]:
        """The checksum of the content behind each setting, so that a run notices a file that has changed."""
        sides = {"features.given.source": self.source, "features.given.target": self.target}
        return {
            setting: checksum(*map(_file_checksum, vector_files(path))) for setting, path in sides.items()
        }

    def _rows(self, path: Path, task: AlignmentTask, side: str) -> npt.NDArray[np.float16]:
        """The vectors of all entities of one graph, as rows of length one."""
        graph, other = (task.source, task.target) if side == "source" else (task.target, task.source)
        rows = np.zeros((0, 0), np.float16)
        has_vector = np.zeros(graph.num_entities, dtype=bool)
        read = 0
        for labels, vectors in read_vectors(path):
            if not read:
                rows = _zeros(graph.num_entities, vectors.shape[1], path)
            read += len(labels)
            ids = graph.find(labels)
            is_known = ids >= 0
            ids = ids[is_known]
            _require_one_each(ids, has_vector, graph, path)
            has_vector[ids] = True
            rows[ids] = _unit(vectors[is_known])
        found = int(has_vector.sum())
        if not found:
            raise InputError(_no_entity(path, graph, other, side), path=path)
        self._note(path, side, read, found, graph.num_entities)
        return rows

    def _note(self, path: Path, side: str, read: int, found: int, entities: int) -> None:
        """Keep a sentence about what was ignored or missing, if anything was."""
        parts = []
        if found < read:
            parts.append(f"{read - found} of {read} vectors belong to no {side} entity and are ignored")
        if found < entities:
            parts.append(f"{found} of {entities} {side} entities have a vector")
        if parts:
            self.notes += (f"{path}: {'; '.join(parts)}",)


def _zeros(entities: int, dimensions: int, path: Path) -> npt.NDArray[np.float16]:
    """Rows of zeros. Raises InputError if this machine cannot hold them."""
    needed, most = entities * dimensions * _BYTES, total_memory()
    if needed > most:
        raise InputError(
            f"{dimensions} dimensions for {entities} entities take {needed / 1e9:.1f} GB, and this machine "
            f"has {most / 1e9:.1f} GB of memory",
            path=path,
        )
    return np.zeros((entities, dimensions), np.float16)


def _unit(vectors: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float16]:
    """The vectors with length one, so that float16 can hold them whatever their scale; zeros stay zeros."""
    rows = vectors.astype(np.float64)
    # Divided by their largest number first: the square of a large one would not be finite.
    rows /= _positive(np.abs(rows).max(axis=1, keepdims=True, initial=0))
    rows /= _positive(np.sqrt(np.square(rows).sum(axis=1, keepdims=True)))
    return rows.astype(np.float16)


def _positive(numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.where(numbers == 0, 1, numbers)


def _require_one_each(ids: Ids, has_vector: npt.NDArray[np.bool_], graph: KnowledgeGraph, path: Path) -> None:
    """Raise InputError if an entity appears twice in a batch, or has a vector from an earlier one."""
    is_repeated = has_vector[ids]
    if not is_repeated.any():
        is_repeated = np.ones(len(ids), dtype=bool)
        is_repeated[np.unique(ids, return_index=True)[1]] = False
    if is_repeated.any():
        raise InputError(f"{graph.label(ids[is_repeated][:1])[0]!r} has two vectors", path=path)


def _no_entity(path: Path, graph: KnowledgeGraph, other: KnowledgeGraph, side: str) -> str:
    """What is wrong with a file in which no label is an entity of its graph."""
    labels, _ = next(iter(read_vectors(path)))
    if (other.find(labels) >= 0).any():
        return (
            f"no label is an entity of the {side} graph, but some are of the other one: swap "
            "features.given.source and features.given.target"
        )
    shown = ", ".join(map(repr, graph.entities[:1].to_pylist())) or "none"
    return f"no label is an entity of the {side} graph: the file has {labels[0].as_py()!r}, the graph {shown}"


def _file_checksum(path: Path) -> str:
    found = file_checksum(path)
    if found is None:
        with reading(path):
            path.stat()
        raise InputError("cannot be read", path=path)
    return found
