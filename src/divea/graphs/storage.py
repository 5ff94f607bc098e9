"""Task folders in divea's own layout: memory-mapped arrays, checked when they are opened.

Processes that open the same folder share one copy of the arrays in memory.

TASK/task.json            format and version
TASK/seeds.npy            int32, two columns
TASK/rejected.npy         the same, only if the task has rejected pairs
TASK/source/, TASK/target/
    entities.arrow        labels, in the order of ids
    relations.arrow
    triples.npy           int32, three columns
    attributes.arrow      only if the graph has literals
    predicates.arrow      labels of the literals' predicates
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.graphs.arrays import (
    open_array,
    open_columns,
    open_labels,
    read_description,
    require_ids,
    require_triples,
)
from divea.graphs.knowledge_graph import Attributes, KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.graphs.links import Links
from divea.graphs.task import AlignmentTask
from divea.io import new_folder

FORMAT = {"format": "divea task", "version": 1}
_REJECTED = "rejected.npy"

Fingerprint = tuple[int, ...]

_ATTRIBUTES = pa.schema({"entity": pa.int32(), "predicate": pa.int32(), "value": LABEL, "kind": LABEL})
_LANGUAGE = r"^@[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$"
"""A kind of literal that starts with @; see `Attributes`."""


def save_task(task: AlignmentTask, folder: str | Path) -> None:
    """Write a task as a new folder; if that fails, nothing is left behind.

    The same task gives the same bytes. `divea.write_task` writes other layouts as well.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from divea.graphs.planted import planted_pair
    >>> task = planted_pair().task
    >>> with TemporaryDirectory() as folder:
    ...     save_task(task, f"{folder}/task")
    ...     load_task(f"{folder}/task").seeds == task.seeds
    True
    """
    with new_folder(folder) as temporary:
        for side, graph in (("source", task.source), ("target", task.target)):
            (temporary / side).mkdir()
            write_graph_arrays(graph, temporary / side)
        np.save(temporary / "seeds.npy", task.seeds.pairs)
        if len(task.rejected):
            np.save(temporary / _REJECTED, task.rejected.pairs)
        (temporary / "task.json").write_text(json.dumps(FORMAT) + "\n")


def load_task(folder: str | Path) -> AlignmentTask:
    """Open a task that `save_task` wrote; its arrays are memory-mapped.

    Somebody else may have written the folder, so everything is checked before it is used: types, shapes and
    sizes, string offsets and UTF-8, ids, and the order of labels and triples. That reads the files once: a
    task of two million entities and eight million triples opens in less than a second. Raises InputError,
    which names the file.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from divea.graphs.planted import planted_pair
    >>> with TemporaryDirectory() as folder:
    ...     save_task(planted_pair().task, f"{folder}/task")
    ...     load_task(f"{folder}/task").source
    KnowledgeGraph(80 entities, 5 relations, 397 triples)
    """
    folder = Path(folder)
    try:
        found = read_description(folder / "task.json")
    except InputError as error:
        raise InputError(f"not a divea task folder ({error})", path=folder) from error
    if found != FORMAT:
        raise InputError(f"has another format; this release reads {FORMAT}", path=folder / "task.json")
    source, target = (open_graph_arrays(folder / side) for side in ("source", "target"))
    seeds = _open_links(folder / "seeds.npy", source, target)
    rejected = Links.from_pairs([])
    if os.path.lexists(folder / _REJECTED):
        rejected = _open_links(folder / _REJECTED, source, target)
    try:
        return AlignmentTask(source, target, seeds, rejected=rejected)
    except InputError as error:
        raise InputError(str(error), path=folder / "seeds.npy") from error


def _open_links(path: Path, source: KnowledgeGraph, target: KnowledgeGraph) -> Links:
    pairs = open_array(path, np.int32, columns=2)
    require_ids(pairs[:, 0], source.num_entities, path, "source entity")
    require_ids(pairs[:, 1], target.num_entities, path, "target entity")
    return Links.from_pairs(np.array(pairs))


@dataclass(frozen=True)
class StoredTask:
    """A task and the folder that holds it. A process that is sent one opens the folder itself, once."""

    task: AlignmentTask
    folder: Path

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return open_stored, (self.folder.resolve(),)


def open_stored(folder: Path) -> StoredTask:
    """The task in a folder that `save_task` wrote; the latest one stays open for the next call."""
    return _open_stored(folder, fingerprint(folder))


@lru_cache(maxsize=1)
def _open_stored(folder: Path, _: Fingerprint) -> StoredTask:
    return StoredTask(load_task(folder), folder)


def fingerprint(folder: Path) -> Fingerprint:
    """Distinguishes a stored task from others that are stored in the same folder on other machines, or were
    at other times. It is empty if the folder holds no task."""
    names = ("source/triples.npy", "target/triples.npy", "seeds.npy", "task.json")
    try:
        found = [(folder / name).stat() for name in names]
    except OSError:
        return ()
    return tuple(number for stat in found for number in (stat.st_size, stat.st_mtime_ns))


def write_graph_arrays(graph: KnowledgeGraph, folder: Path) -> None:
    """Write the arrays of one graph into an existing folder."""
    _write_arrow(folder / "entities.arrow", pa.table({"label": graph.entities}))
    _write_arrow(folder / "relations.arrow", pa.table({"label": graph.relations}))
    np.save(folder / "triples.npy", np.ascontiguousarray(graph.triples, dtype=np.int32))
    if graph.attributes is not None:
        _write_arrow(folder / "attributes.arrow", graph.attributes.table())
        _write_arrow(folder / "predicates.arrow", pa.table({"label": graph.attributes.predicate_labels}))


def open_graph_arrays(folder: Path) -> KnowledgeGraph:
    """The graph in a folder that `write_graph_arrays` filled, memory-mapped; checked as in `load_task`."""
    entities, relations = open_labels(folder / "entities.arrow"), open_labels(folder / "relations.arrow")
    triples = open_array(folder / "triples.npy", np.int32, columns=3)
    require_triples(triples, len(entities), len(relations), folder / "triples.npy")
    attributes = None
    if os.path.lexists(folder / "attributes.arrow"):
        attributes = _open_attributes(folder, len(entities))
    return KnowledgeGraph(entities, relations, triples, attributes)


def _open_attributes(folder: Path, num_entities: int) -> Attributes:
    path = folder / "attributes.arrow"
    predicate_labels = open_labels(folder / "predicates.arrow")
    entities, predicates, values, kinds = open_columns(path, _ATTRIBUTES)
    attributes = Attributes(entities.to_numpy(), predicates.to_numpy(), predicate_labels, values, kinds)
    require_ids(attributes.entities, num_entities, path, "entity")
    require_ids(attributes.predicates, len(predicate_labels), path, "predicate")
    kinds = pc.unique(kinds)
    languages = kinds.filter(pc.starts_with(kinds, "@"))
    is_language = pc.match_substring_regex(languages, _LANGUAGE)
    if not pc.all(is_language, min_count=0).as_py():
        shown = languages.filter(pc.invert(is_language))[0].as_py()[:80]
        raise InputError(f"{shown!r} is no language", path=path)
    return attributes


def _write_arrow(path: Path, table: pa.Table) -> None:
    # One uncompressed batch can be memory-mapped as one contiguous array.
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
