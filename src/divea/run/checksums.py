"""Checksums: of files, to find damage; of tasks and jobs, to know whether a result belongs to them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa

from divea.division import Subtask
from divea.graphs import AlignmentTask, KnowledgeGraph, Links
from divea.graphs.labels import LABEL
from divea.run.jobs import Job

_SIZE = 16


def file_checksum(path: Path) -> str | None:
    """Of a file's bytes, or of the names and bytes of a folder's files; None where it cannot be read."""
    if path.is_dir():
        files = sorted(item for item in path.rglob("*") if item.is_file())
        return text_checksum(*(f"{item.relative_to(path)} {file_checksum(item)}" for item in files))
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=_SIZE)).hexdigest()
    except OSError:
        return None


def task_checksums(task: AlignmentTask) -> dict[str, str]:
    """Of each part of a task, by a name that a user understands."""
    return {
        "source graph": _of_graph(task.source),
        "target graph": _of_graph(task.target),
        "seeds": _of(task.seeds.pairs),
    }


def job_checksum(job: Job) -> str:
    """Of all that decides a job's result but the graphs."""
    plain = {
        item.name: getattr(job, item.name)
        for item in fields(job)
        if item.name not in ("subtasks", "pseudo_seeds")
    }
    parts: list[str | np.ndarray] = [json.dumps(plain, sort_keys=True), *_links(job.pseudo_seeds)]
    for subtask in job.subtasks:
        parts += _subtask(subtask)
    return _of(*parts)


def text_checksum(*texts: str) -> str:
    """Of some texts in this order."""
    return _of(*texts)


def _subtask(subtask: Subtask) -> list[str | np.ndarray]:
    lists = (subtask.source_entities, subtask.target_entities, subtask.unmatched, subtask.candidates)
    return [str(subtask.index), *lists, *_links(subtask.seeds)]


def _links(links: Links) -> list[np.ndarray]:
    return [links.source, links.target]


def _of_graph(graph: KnowledgeGraph) -> str:
    parts = [*_labels(graph.entities), *_labels(graph.relations), np.asarray(graph.triples)]
    if (literals := graph.attributes) is not None:
        parts += [literals.entities, literals.predicates]
        for labels in (literals.predicate_labels, literals.values, literals.kinds):
            parts += _labels(labels.cast(LABEL))
    return _of(*parts)


def _labels(labels: pa.Array) -> list[np.ndarray]:
    """Where each label ends, and their bytes; the same for a slice as for a copy of it."""
    if not len(labels):
        return [np.zeros(0, np.int64), np.zeros(0, np.uint8)]
    _, offsets, data = labels.buffers()
    ends = np.frombuffer(offsets, np.int64)[labels.offset : labels.offset + len(labels) + 1]
    text = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return [ends - ends[0], text[ends[0] : ends[-1]]]


def _of(*parts: str | np.ndarray) -> str:
    """Each part with its length, so that no two lists of parts look alike."""
    digest = hashlib.blake2b(digest_size=_SIZE)
    for part in parts:
        data = (
            part.encode() if isinstance(part, str) else np.ascontiguousarray(part).view(np.uint8).reshape(-1)
        )
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)  # type: ignore[arg-type]
    return digest.hexdigest()
