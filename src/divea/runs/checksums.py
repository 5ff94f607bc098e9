"""Checksums of tasks and jobs: they tell whether a stored result belongs to them."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from divea.division import Subtask
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.labels import LABEL
from divea.io import checksum, file_checksum
from divea.runs.layout import files_of

if TYPE_CHECKING:
    from divea.executors import Job

REJECTED = "rejected pairs"
"""The name of the checksum of the rejected pairs. A task without them has none, as in earlier releases."""


def task_checksums(task: AlignmentTask) -> dict[str, str]:
    """The checksum of each part of a task, by a name that a user understands."""
    found = {
        "source graph": _graph_checksum(task.source),
        "target graph": _graph_checksum(task.target),
        "seeds": checksum(task.seeds.pairs),
    }
    if len(task.rejected):
        found[REJECTED] = checksum(task.rejected.pairs)
    return found


def folder_checksum(place: Path, folder: str) -> str:
    """The checksum of the names and bytes of the files in a task or division folder that divea wrote.

    Parameters
    ----------
    place
        Where the folder is.
    folder
        Its path in a run, which ends in `TASK` or `DIVISION`.
    """
    files = files_of(place, folder)
    return checksum(*(f"{path.relative_to(place).as_posix()} {file_checksum(path)}" for path in files))


def job_checksum(job: Job) -> str:
    """The checksum of everything that decides a job's result, except for the task."""
    plain = {
        item.name: getattr(job, item.name)
        for item in fields(job)
        if item.name not in ("subtasks", "pseudo_seeds", "features", "model")
    }
    plain["model"] = job.model.resolved().plain()
    parts: list[str | np.ndarray] = [json.dumps(plain, sort_keys=True), *_links(job.pseudo_seeds)]
    for subtask in job.subtasks:
        parts += _subtask(subtask)
    for feature in job.features:
        parts += [f"{feature.name} {feature.weight!r}", *feature.arrays]
    return checksum(*parts)


def divided_further(made_from: str) -> str:
    """The `made_from` of results for which memory ran out: they differ from those with more memory."""
    return checksum(made_from, "divided further")


def _subtask(subtask: Subtask) -> list[str | np.ndarray]:
    lists = (subtask.source_entities, subtask.target_entities, subtask.unmatched, subtask.candidates)
    return [str(subtask.index), *lists, *_links(subtask.seeds)]


def _links(links: Links) -> list[np.ndarray]:
    return [links.source, links.target]


def _graph_checksum(graph: KnowledgeGraph) -> str:
    parts = [*_labels(graph.entities), *_labels(graph.relations), np.asarray(graph.triples)]
    if (attributes := graph.attributes) is not None:
        parts += [attributes.entities, attributes.predicates]
        for labels in (attributes.predicate_labels, attributes.values, attributes.kinds):
            parts += _labels(labels.cast(LABEL))
    return checksum(*parts)


def _labels(labels: pa.Array) -> list[np.ndarray]:
    """Where each label ends, and the bytes of all; the same for a slice as for a copy of it."""
    if not len(labels):
        return [np.zeros(0, np.int64), np.zeros(0, np.uint8)]
    _, offsets, data = labels.buffers()
    ends = np.frombuffer(offsets, np.int64)[labels.offset : labels.offset + len(labels) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return [ends - ends[0], text[ends[0] : ends[-1]]]
