"""Both graphs as one: linked entities become one node, so that a partition puts both into the same part."""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.sparse import csr_array, vstack

from divea.division.blocks import row_blocks
from divea.division.groups import renumbered
from divea.division.partition import partition
from divea.graphs import AlignmentTask, Links
from divea.graphs.ids import marked
from divea.resources.row_blocks import in_threads
from divea.types import Ids


def partition_jointly(
    task: AlignmentTask, links: Links, parts: int, random_seed: int, partitioner: str = "metis"
) -> tuple[Ids, Ids]:
    """The part of every source and of every target entity; linked entities share one.

    Parts are balanced on the unmatched entities of both graphs together, which a subtask must hold. A part
    without unmatched source entities is dropped: its entities get -1.
    """
    node, size = merged_nodes(task, links)
    merged = merged_adjacency(task, node, size)
    weights = np.zeros(size, dtype=np.int64)
    weights[task.unmatched_source] += 1
    np.add.at(weights, node[task.unmatched_target], 1)
    part = partition(merged, parts, weights, method=partitioner, random_seed=random_seed)
    is_unmatched_source = np.zeros(size, dtype=np.int64)
    is_unmatched_source[task.unmatched_source] = 1
    part = renumbered(part, is_unmatched_source)
    return part[: task.source.num_entities], part[node]


def merged_nodes(task: AlignmentTask, links: Links) -> tuple[Ids, int]:
    """The node of every target entity in the merged graph, and the number of nodes.

    A linked target entity is the node of its source; the other target entities follow after the sources.
    """
    sources = task.source.num_entities
    is_free = ~marked(links.target, task.target.num_entities)
    free = int(is_free.sum())
    node = np.zeros(task.target.num_entities, dtype=np.int32)
    node[is_free] = sources + np.arange(free, dtype=np.int32)
    node[links.target] = links.source
    return node, sources + free


def merged_adjacency(task: AlignmentTask, node: Ids, size: int) -> csr_array:
    """The number of triples between any two nodes, computed in blocks of rows on all cores."""
    order = np.argsort(node, kind="stable").astype(np.int32)
    merge = partial(_merged_rows, task=task, node=node, order=order, ends=node[order], size=size)
    return vstack(list(in_threads(merge, list(row_blocks(size)))), format="csr")


def _merged_rows(
    rows: slice, *, task: AlignmentTask, node: Ids, order: Ids, ends: Ids, size: int
) -> csr_array:
    """The rows of some nodes. `order` are the target entities by node, and `ends` their nodes."""
    numbers = np.arange(rows.start, min(rows.stop, size) + 1, dtype=np.int32)
    # Target entities of a node are consecutive, and so are their triples, which together are the node's row.
    first = np.searchsorted(ends, numbers)
    target = task.target.adjacency[order[first[0] : first[-1]]]
    of_target = csr_array(
        (target.data, node.take(target.indices), target.indptr[first - first[0]]),
        shape=(len(numbers) - 1, size),
    )
    of_target.sum_duplicates()
    source = task.source.adjacency[rows.start : rows.stop]
    # Nodes of target entities alone have no row there.
    ends_of_rows = np.full(len(numbers), source.indptr[-1], dtype=source.indptr.dtype)
    ends_of_rows[: len(source.indptr)] = source.indptr
    of_source = csr_array((source.data, source.indices, ends_of_rows), shape=of_target.shape)
    merged = of_source + of_target
    row = np.repeat(numbers[:-1], np.diff(merged.indptr))
    is_loop = row == merged.indices
    if is_loop.any():
        merged.data[is_loop] = 0
        merged.eliminate_zeros()
    return merged
