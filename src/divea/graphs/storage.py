"""Task folders in divea's own layout: memory-mapped arrays that open in milliseconds.

Processes that open the same folder share one copy of the arrays in memory.

TASK/task.json            format and version
TASK/seeds.npy            int32, two columns
TASK/source/, TASK/target/
    entities.arrow        labels, in the order of ids
    relations.arrow
    triples.npy           int32, three columns
    attributes.arrow      only if the graph has literals
    predicates.arrow      labels of the literals' predicates
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
        (temporary / "task.json").write_text(json.dumps(FORMAT) + "\n")


def load_task(folder: str | Path) -> AlignmentTask:
    """Open a task that `save_task` wrote; only its seeds are read, and all other arrays are memory-mapped.

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
        found = json.loads((folder / "task.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"not a divea task folder ({error})", path=folder) from error
    if found != FORMAT:
        raise InputError(f"has another format: {found}, and this release reads {FORMAT}", path=folder)
    seeds = _open_array(folder / "seeds.npy", columns=2)
    source, target = (open_graph_arrays(folder / side) for side in ("source", "target"))
    return AlignmentTask(source, target, Links.from_pairs(np.array(seeds)))


def write_graph_arrays(graph: KnowledgeGraph, folder: Path) -> None:
    """Write the arrays of one graph into an existing folder."""
    _write_arrow(folder / "entities.arrow", pa.table({"label": graph.entities}))
    _write_arrow(folder / "relations.arrow", pa.table({"label": graph.relations}))
    np.save(folder / "triples.npy", graph.triples)
    if graph.attributes is not None:
        _write_arrow(folder / "attributes.arrow", graph.attributes.table())
        _write_arrow(folder / "predicates.arrow", pa.table({"label": graph.attributes.predicate_labels}))


def open_graph_arrays(folder: Path) -> KnowledgeGraph:
    """The graph in a folder that `write_graph_arrays` filled, memory-mapped."""
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
    # One uncompressed batch can be memory-mapped as one contiguous array.
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
    if labels.null_count or not _has_valid_offsets(labels):
        raise InputError("is damaged (string offsets)", path=path)
    return labels


def _has_valid_offsets(labels: pa.Array) -> bool:
    """Whether the strings are inside their buffer.

    Arrow does not check the offsets that it reads, and wrong ones in a damaged file would crash the process.
    """
    try:
        labels.validate()
        _, offset_buffer, data = labels.buffers()
        if not len(labels):
            return True
        offsets = np.frombuffer(offset_buffer, dtype=np.int64, count=len(labels) + 1)
    except (pa.ArrowInvalid, ValueError):
        return False
    return bool(
        offsets[0] == 0 and (np.diff(offsets) >= 0).all() and offsets[-1] <= (data.size if data else 0)
    )


def _open_array(path: Path, columns: int) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy parses the header as Python, so a damaged one may raise anything
        raise InputError(f"is damaged ({type(error).__name__})", path=path) from error
    if array.ndim != 2 or array.shape[1] != columns or array.dtype != np.int32:
        raise InputError(f"expected int32 numbers in {columns} columns", path=path)
    return array
