"""Tasks in: a folder in any layout, or separate files. Tasks out: a folder in any layout."""

from __future__ import annotations

from pathlib import Path

from divea.errors import InputError
from divea.formats.graph_files import read_graph
from divea.formats.layouts import Layout
from divea.formats.mapping_files import read_mappings
from divea.graphs import AlignmentTask, KnowledgeGraph, Links, load_task, save_task
from divea.io import new_folder
from divea.registry import LAYOUTS

NATIVE = "divea"
"""Our own layout: memory-mapped arrays, see `divea.graphs.storage`."""


def read_task(
    folder: str | Path, seeds: str | Path | None = None, *, skip_unknown_seeds: bool = False
) -> AlignmentTask:
    """Read a task folder: divea's own, JAPE/DBP15K, OpenEA, or Parquet.

    `seeds` is a file of links in any format that `read_mappings` takes, or in the folder's own
    ids; without it the folder's seeds are taken, and none where it has none. Test links that
    lie in the folder are not opened.
    """
    folder = Path(folder)
    if is_native(folder):
        task = load_task(folder)
        source, target, own = task.source, task.target, task.seeds
    else:
        layout = layout_of(folder)
        source, target = layout.read_graphs(folder)
        own = Links.from_pairs([])
        seeds = seeds or layout.seeds_file(folder)
    if seeds is not None:
        own = resolve_links(seeds, source, target, folder=folder, skip_unknown=skip_unknown_seeds)
    return _task(source, target, own, seeds)


def read_task_files(
    source: str | Path,
    target: str | Path,
    seeds: str | Path | None = None,
    *,
    skip_unknown_seeds: bool = False,
) -> AlignmentTask:
    """Read a task from two graph files and a file of seeds."""
    left, right = read_graph(source), read_graph(target)
    if seeds is None:
        return AlignmentTask(left, right)
    links = resolve_links(seeds, left, right, skip_unknown=skip_unknown_seeds)
    return _task(left, right, links, seeds)


def _task(source: KnowledgeGraph, target: KnowledgeGraph, links: Links, path: object) -> AlignmentTask:
    try:
        return AlignmentTask(source, target, links)
    except InputError as error:
        # The task knows what is wrong with the seeds; the file they came from is known here.
        raise InputError(str(error), path=str(path)) from error


def read_links(path: str | Path, task: AlignmentTask, folder: str | Path | None = None) -> Links:
    """Read links between the two graphs of a task; `folder` explains ids that are its own."""
    return resolve_links(path, task.source, task.target, folder=folder)


def resolve_links(
    path: str | Path,
    source: KnowledgeGraph,
    target: KnowledgeGraph,
    *,
    folder: str | Path | None = None,
    skip_unknown: bool = False,
) -> Links:
    """Links of a file, resolved against two graphs."""
    mappings = read_mappings(path)
    if folder is not None and not is_native(Path(folder)):
        mappings = layout_of(Path(folder)).relabel(Path(folder), mappings)
    links = Links.from_labels(
        mappings["source"], mappings["target"], source, target, skip_unknown=skip_unknown, path=path
    )
    if len(links) == 0:
        raise InputError("no link names entities of both graphs", path=path)
    return links


def write_task(task: AlignmentTask, folder: str | Path, layout: str = NATIVE) -> list[str]:
    """Write a task as a new folder; returns a sentence for each thing the layout cannot hold."""
    if layout == NATIVE:
        save_task(task, folder)
        return []
    if layout not in LAYOUTS.names():
        raise InputError(f"unknown layout {layout!r}; choose from {', '.join((NATIVE, *LAYOUTS.names()))}")
    writer: Layout = LAYOUTS.load(layout)()
    with new_folder(folder) as temporary:
        return writer.write(task, temporary)


def is_native(folder: Path) -> bool:
    """Whether a folder is one of our own."""
    return (folder / "task.json").is_file()


def _layouts() -> list[Layout]:
    return [LAYOUTS.load(name)() for name in LAYOUTS.names()]


def folder_around(path: str | Path) -> Path | None:
    """The task folder, not of our own layout, that a file lies in at any depth: it explains its ids."""
    for folder in Path(path).absolute().parents:
        if any(layout.recognises(folder) for layout in _layouts()):
            return folder
    return None


def layout_of(folder: Path) -> Layout:
    """The layout of a folder that is not our own."""
    if not folder.exists():
        raise InputError("no such folder", path=folder)
    if not folder.is_dir():
        raise InputError("is a file; a task is a folder, or use --source and --target", path=folder)
    for layout in _layouts():
        if layout.recognises(folder):
            return layout
    raise InputError(
        "no task folder: expected task.json (divea), triples_1 and ent_ids_1 (JAPE), "
        "rel_triples_1 (OpenEA) or triples_1.parquet, each with its _2",
        path=folder,
    )
