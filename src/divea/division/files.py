"""A division on disk: for other aligners, for people, and for divea itself.

OUT/subtasks.tsv                  one line per subtask: sizes, seeds, evidence, edges kept
OUT/jape/000/, OUT/openea/000/    the subtasks as task folders that other aligners read, with
    unmatched, candidates         the entities to match, and those to match them with
OUT/division.json                 format, shares and notes
OUT/arrays/*.npy                  the subtasks in the ids of the task, for `load_division`
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from divea.division.parallel import in_parallel
from divea.division.subtask import Division, Shares, Subtask
from divea.errors import InputError
from divea.formats.delimited import write_columns, write_numbers
from divea.formats.layouts import Layout
from divea.graphs import AlignmentTask, KnowledgeGraph
from divea.io import new_folder
from divea.registry import LAYOUTS
from divea.types import Ids

LAYOUTS_FOR_ALIGNERS = ("jape", "openea")
FORMAT = {"format": "divea division", "version": 1}
_LISTS = ("source_entities", "target_entities", "unmatched", "candidates")


def write_division(
    division: Division,
    task: AlignmentTask,
    folder: str | Path,
    *,
    layouts: Iterable[str] = LAYOUTS_FOR_ALIGNERS,
    table: pa.Table | None = None,
) -> None:
    """Write a division as a new folder, complete or not at all.

    Parameters
    ----------
    layouts
        The layouts in which subtasks are written for other aligners; none for divea's own arrays alone.
    table
        Summary of the subtasks, for subtasks.tsv.
    """
    names = list(layouts)
    for name in names:
        if name not in LAYOUTS_FOR_ALIGNERS:
            raise InputError(f"unknown layout {name!r}; choose from {', '.join(LAYOUTS_FOR_ALIGNERS)}")
    with new_folder(folder) as temporary:
        _write_arrays(division, temporary)
        if table is not None:
            _write_table(temporary / "subtasks.tsv", table)
        if names:
            for _ in in_parallel(lambda one: _write_subtask(one, task, temporary, names), division.subtasks):
                pass


def _write_subtask(subtask: Subtask, task: AlignmentTask, folder: Path, layouts: list[str]) -> None:
    local = subtask.local(task)
    # Other aligners make an embedding for every relation listed, so only those in use are listed.
    local = AlignmentTask(_with_used_relations(local.source), _with_used_relations(local.target), local.seeds)
    for name in layouts:
        place = folder / name / f"{subtask.index:03}"
        place.mkdir(parents=True)
        layout: Layout = LAYOUTS.load(name)()
        layout.write(local, place)
        _write_roles(subtask, local, place, by_id=name == "jape")


def _with_used_relations(graph: KnowledgeGraph) -> KnowledgeGraph:
    used = np.flatnonzero(np.bincount(graph.triples[:, 1], minlength=graph.num_relations))
    number = np.zeros(graph.num_relations, dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    triples = graph.triples.copy()
    triples[:, 1] = number[triples[:, 1]]
    return KnowledgeGraph(graph.entities, graph.relations.take(pa.array(used)), triples)


def _write_roles(subtask: Subtask, local: AlignmentTask, place: Path, by_id: bool) -> None:
    """Write unmatched entities and candidates, by id or by label as the layout does."""
    unmatched = np.searchsorted(subtask.source_entities, subtask.unmatched)
    candidates = np.searchsorted(subtask.target_entities, subtask.candidates)
    for name, ids, graph, first in (
        ("unmatched", unmatched, local.source, 0),
        ("candidates", candidates, local.target, local.source.num_entities),
    ):
        if by_id:
            write_numbers(place / name, (ids + first)[:, None])
        else:
            write_columns(place / name, pa.table({name: graph.entities.take(pa.array(ids))}), header=False)


def _write_table(path: Path, table: pa.Table) -> None:
    lines = ["\t".join(table.column_names)]
    for row in table.to_pylist():
        lines.append(
            "\t".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values())
        )
    path.write_text("\n".join(lines) + "\n")


def _write_arrays(division: Division, folder: Path) -> None:
    (folder / "arrays").mkdir()
    for name in _LISTS:
        lists: list[Ids] = [getattr(subtask, name) for subtask in division.subtasks]
        joined = np.concatenate([*lists, np.zeros(0, dtype=np.int32)])
        np.save(folder / "arrays" / f"{name}.npy", joined.astype(np.int32))
        np.save(
            folder / "arrays" / f"{name}_ends.npy", np.cumsum([len(ids) for ids in lists], dtype=np.int64)
        )
    np.save(folder / "arrays" / "groups.npy", division.groups)
    about = {
        **FORMAT,
        "subtasks": len(division.subtasks),
        "shares": asdict(division.shares) if division.shares else None,
        "notes": list(division.notes),
    }
    (folder / "division.json").write_text(json.dumps(about, indent=2) + "\n")


def load_division(folder: str | Path, task: AlignmentTask) -> Division:
    """Open a division that `write_division` wrote; `task` is the task that it divides."""
    folder = Path(folder)
    try:
        about = json.loads((folder / "division.json").read_text())
        if {key: about.pop(key) for key in FORMAT} != FORMAT:
            raise ValueError(f"another format, this release reads {FORMAT}")
        groups = np.load(folder / "arrays" / "groups.npy", allow_pickle=False)
        columns = {name: _load_lists(folder / "arrays", name, about["subtasks"]) for name in _LISTS}
        notes = tuple(str(note) for note in about["notes"])
        shares = Shares(**about["shares"]) if about["shares"] else None
    except Exception as error:  # numpy evaluates array headers: a damaged one may raise anything
        raise InputError(f"not a divea division ({error})", path=folder) from error
    if len(groups) != task.source.num_entities:
        raise InputError(
            f"divides a source of {len(groups)} entities, but the task has {task.source.num_entities}",
            path=folder,
        )
    for name in _LISTS:
        graph = task.target if name in ("target_entities", "candidates") else task.source
        for ids in columns[name]:
            if len(ids) and not 0 <= ids.min() <= ids.max() < graph.num_entities:
                raise InputError(f"{name} holds ids that the task does not have", path=folder)
    subtasks = tuple(
        Subtask.of(index, task, **{name: columns[name][index] for name in _LISTS})
        for index in range(about["subtasks"])
    )
    return Division(subtasks, groups, notes, shares)


def _load_lists(folder: Path, name: str, count: int) -> list[Ids]:
    joined = np.load(folder / f"{name}.npy", allow_pickle=False)
    ends = np.load(folder / f"{name}_ends.npy", allow_pickle=False)
    if joined.ndim != 1 or joined.dtype != np.int32 or ends.shape != (count,):
        raise ValueError(f"{name} is damaged")
    return np.split(joined, ends[:-1]) if len(ends) else []
