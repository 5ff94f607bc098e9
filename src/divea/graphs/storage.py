"""Graphs and tasks on disk as memory-mapped arrays: opened in milliseconds, shared by processes.

TASK/task.json            format and version
TASK/seeds.npy            int32, two columns
TASK/source/, TASK/target/
    entities.arrow        labels, in id order
    relations.arrow
    triples.npy           int32, three columns
    attributes.arrow      only where there are literals
    predicates.arrow
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from divea.errors import InputError
from divea.graphs.builder import as_one_array
from divea.graphs.knowledge_graph import Attributes, KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.graphs.links import Links
from divea.graphs.task import AlignmentTask
from divea.io import new_folder

FORMAT = {"format": "divea task", "version": 1}


def save_task(task: AlignmentTask, folder: str | Path) -> None:
    """Write a task as a new folder, whole or not at all."""
    with new_folder(folder) as aside:
        for side, graph in (("source", task.source), ("target", task.target)):
            (aside / side).mkdir()
            write_graph_arrays(graph, aside / side)
        np.save(aside / "seeds.npy", task.seeds.pairs)
        (aside / "task.json").write_text(json.dumps(FORMAT) + "\n")


def load_task(folder: str | Path) -> AlignmentTask:
    """Open a task that `save_task` wrote, without reading its arrays into memory."""
    folder = Path(folder)
    try:
        found = json.loads((folder / "task.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"not a divea task folder ({error})", path=folder) from error
    if found != FORMAT:
        raise InputError(f"written in another format: {found}, this release reads {FORMAT}", path=folder)
    seeds = _open_array(folder / "seeds.npy", columns=2)
    source, target = (open_graph_arrays(folder / side) for side in ("source", "target"))
    return AlignmentTask(source, target, Links.from_pairs(np.array(seeds)))


def write_graph_arrays(graph: KnowledgeGraph, folder: Path) -> None:
    """The arrays of one graph, into a folder that exists."""
    _write_arrow(folder / "entities.arrow", pa.table({"label": graph.entities}))
    _write_arrow(folder / "relations.arrow", pa.table({"label": graph.relations}))
    np.save(folder / "triples.npy", graph.triples)
    if graph.attributes is not None:
        _write_arrow(folder / "attributes.arrow", graph.attributes.table())
        _write_arrow(folder / "predicates.arrow", pa.table({"label": graph.attributes.predicate_labels}))


def open_graph_arrays(folder: Path) -> KnowledgeGraph:
    """One graph, memory-mapped."""
    attributes = None
    if (folder / "attributes.arrow").exists():
        rows = _open_arrow(folder / "attributes.arrow")
        attributes = Attributes(
            as_one_array(rows["entity"]).to_numpy(),
            as_one_array(rows["predicate"]).to_numpy(),
            _open_labels(folder / "predicates.arrow"),
            as_one_array(rows["value"]),
            as_one_array(rows["kind"]),
        )
    return KnowledgeGraph(
        _open_labels(folder / "entities.arrow"),
        _open_labels(folder / "relations.arrow"),
        _open_array(folder / "triples.npy", columns=3),
        attributes,
    )


def _write_arrow(path: Path, table: pa.Table) -> None:
    # One batch, uncompressed: such a file maps into memory as one contiguous array.
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)


def _open_arrow(path: Path) -> pa.Table:
    try:
        return pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be opened: {error}", path=path) from error


def _open_labels(path: Path) -> pa.Array:
    table = _open_arrow(path)
    if table.schema != pa.schema({"label": LABEL}):
        raise InputError("expected one column of labels", path=path)
    labels = as_one_array(table["label"])
    _check_offsets(labels, path)
    return labels


def _check_offsets(labels: pa.Array, path: Path) -> None:
    """Arrow trusts the offsets of strings; wrong ones from a damaged file would crash the process."""
    try:
        labels.validate()
        _, offsets, data = labels.buffers()
        at = np.frombuffer(offsets, dtype=np.int64, count=len(labels) + 1) if len(labels) else np.zeros(1)
        sound = at[0] == 0 and (np.diff(at) >= 0).all() and at[-1] <= (data.size if data else 0)
    except (pa.ArrowInvalid, ValueError):
        sound = False
    if not sound or labels.null_count:
        raise InputError("is damaged (string offsets)", path=path)


def _open_array(path: Path, columns: int) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy parses the header as Python: a damaged one raises anything
        raise InputError(f"is damaged ({type(error).__name__})", path=path) from error
    if array.ndim != 2 or array.shape[1] != columns or array.dtype != np.int32:
        raise InputError(f"expected int32 numbers in {columns} columns", path=path)
    return array
