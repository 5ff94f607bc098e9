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
from divea.graphs.arrays import open_array, read_description, require_ids
from divea.graphs.ids import contains
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
    np.save(folder / "arrays" / "groups.npy", division.groups.astype(np.int32))
    about = {
        **FORMAT,
        "subtasks": len(division.subtasks),
        "shares": asdict(division.shares) if division.shares else None,
        "notes": list(division.notes),
    }
    (folder / "division.json").write_text(json.dumps(about, indent=2) + "\n")


def load_division(folder: str | Path, task: AlignmentTask) -> Division:
    """Open a division that `write_division` wrote; `task` is the task that it divides.

    Somebody else may have written the folder, so types, sizes and ids are checked before they are used. The
    task may have other seeds than the one that was divided: anchors are not checked. Raises InputError, which
    names the file.
    """
    folder = Path(folder)
    path = folder / "division.json"
    try:
        about = read_description(path)
    except InputError as error:
        raise InputError(f"not a divea division ({error})", path=folder) from error
    if not isinstance(about, dict) or {key: about.get(key) for key in FORMAT} != FORMAT:
        raise InputError(f"has another format; this release reads {FORMAT}", path=path)
    shares, notes = _shares(about.get("shares"), path), about.get("notes")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise InputError("notes is not a list of texts", path=path)
    arrays = folder / "arrays"
    groups = open_groups(folder, task)
    lists = {name: _open_lists(arrays, name, task) for name in _LISTS}
    count = about.get("subtasks")
    if any(len(lists[name]) != count for name in _LISTS):
        raise InputError(f"subtasks: {count!r} is not the number of lists in arrays", path=path)
    subtasks = tuple(
        Subtask.of(index, task, **{name: lists[name][index] for name in _LISTS})
        for index in range(len(lists["unmatched"]))
    )
    _require_subtasks(subtasks, np.array(groups), arrays)
    return Division(subtasks, np.array(groups), tuple(notes), shares)


def open_groups(folder: Path, task: AlignmentTask) -> Ids:
    """The subtask of each source entity in a division on disk, -1 for none; mapped, and checked for its size.

    Parameters
    ----------
    task
        The task that the division divides.
    """
    groups = open_array(folder / "arrays" / "groups.npy", np.int32)
    if len(groups) != task.source.num_entities:
        raise InputError(
            f"divides a source of {len(groups)} entities, but the task has {task.source.num_entities}",
            path=folder,
        )
    return groups


def _shares(found: object, path: Path) -> Shares | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        raise InputError("shares is not an object", path=path)
    source, connecting = found.get("source"), found.get("connecting")
    if not isinstance(source, int | float) or not isinstance(connecting, int | float):
        raise InputError("shares has no numbers source and connecting", path=path)
    try:
        return Shares(source, connecting)
    except InputError as error:
        raise InputError(str(error), path=path) from error


def _open_lists(folder: Path, name: str, task: AlignmentTask) -> list[Ids]:
    """A list of entities for each subtask."""
    path, ends_path = folder / f"{name}.npy", folder / f"{name}_ends.npy"
    joined, ends = open_array(path, np.int32), np.array(open_array(ends_path, np.int64))
    graph = task.target if name in ("target_entities", "candidates") else task.source
    require_ids(joined, graph.num_entities, path, "entity")
    # Lists that overlap would make a small file large.
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends])
    if (starts[1:] < starts[:-1]).any() or starts[-1] != len(joined):
        raise InputError(f"is damaged (its lists do not fit {path.name})", path=ends_path)
    return np.split(joined, ends[:-1]) if len(ends) else []


def _require_subtasks(subtasks: tuple[Subtask, ...], groups: Ids, folder: Path) -> None:
    """Raise InputError if a subtask breaks the contract that `check_division` checks, anchors aside."""
    if len(groups) and not -1 <= groups.min() <= groups.max() < len(subtasks):
        raise InputError(f"has parts outside -1..{len(subtasks) - 1}", path=folder / "groups.npy")
    matched_here = np.sort(
        np.concatenate([np.zeros(0, dtype=np.int32), *(one.unmatched for one in subtasks)])
    )
    if (matched_here[1:] == matched_here[:-1]).any():
        raise InputError("holds an entity twice", path=folder / "unmatched.npy")
    for subtask in subtasks:
        for name, roles, entities in (
            ("source_entities", subtask.unmatched, subtask.source_entities),
            ("target_entities", subtask.candidates, subtask.target_entities),
        ):
            path = folder / f"{name}.npy"
            if (entities[1:] == entities[:-1]).any():
                raise InputError(f"subtask {subtask.index} holds an entity twice", path=path)
            if not contains(entities, roles).all():
                raise InputError(f"subtask {subtask.index} lacks entities that it matches", path=path)
        if (subtask.candidates[1:] == subtask.candidates[:-1]).any():
            path = folder / "candidates.npy"
            raise InputError(f"subtask {subtask.index} holds an entity twice", path=path)
