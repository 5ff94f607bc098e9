"""Reads tasks from a folder in any layout or from separate files, and writes them as folders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from divea.errors import InputError
from divea.formats.graph_files import read_graph, read_graph_to_align
from divea.formats.layouts import Layout
from divea.formats.mapping_files import read_mappings
from divea.formats.name_files import add_names, without_brackets
from divea.formats.stream import reading
from divea.graphs import AlignmentTask, KnowledgeGraph, Links, load_task, save_task
from divea.io import new_folder, usable_path
from divea.registry import LAYOUTS
from divea.wording import worded

NATIVE = "divea"
"""The name of divea's own layout: memory-mapped arrays, see `divea.graphs.storage`."""


def read_task(
    folder: str | Path,
    seeds: str | Path | None = None,
    *,
    skip_unknown_seeds: bool = False,
    source_names: str | Path | None = None,
    target_names: str | Path | None = None,
    skip_unknown_names: bool = False,
) -> AlignmentTask:
    """Read a task folder: divea's own, JAPE/DBP15K, OpenEA, Parquet, or the layout of a plug-in.

    Test links in the folder are not opened.

    Parameters
    ----------
    seeds
        A file of links in any format that `read_mappings` reads, with labels or with the folder's own ids. By
        default the seeds of the folder are used; a folder without seeds gives a task without seeds.
    skip_unknown_seeds
        Leave out seeds that name unknown entities instead of refusing them.
    source_names, target_names
        Files of names (TSV, CSV or Parquet with the columns entity and name), which become literals of the
        graphs. They are preferred to other names.
    skip_unknown_names
        Leave out names of unknown entities instead of refusing them.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from divea.graphs.planted import planted_pair
    >>> with TemporaryDirectory() as folder:
    ...     _ = write_task(planted_pair().task, f"{folder}/task", layout="openea")
    ...     read_task(f"{folder}/task").source
    KnowledgeGraph(80 entities, 5 relations, 397 triples)
    """
    folder = usable_path(folder)
    rejected = Links.from_pairs([])
    if is_native(folder):
        task = load_task(folder)
        source, target, links, rejected = task.source, task.target, task.seeds, task.rejected
    else:
        layout = layout_of(folder)
        source, target = layout.read_graphs(folder)
        links = Links.from_pairs([])
        seeds = seeds or layout.seeds_file(folder)
    if seeds is not None:
        links = resolve_links(seeds, source, target, folder=folder, skip_unknown=skip_unknown_seeds)
    task = task_of(source, target, links, seeds, rejected)
    return with_names(task, source_names, target_names, skip_unknown=skip_unknown_names)


def read_task_files(
    source: str | Path,
    target: str | Path,
    seeds: str | Path | None = None,
    *,
    skip_unknown_seeds: bool = False,
    keep_schema: bool = False,
    source_names: str | Path | None = None,
    target_names: str | Path | None = None,
    skip_unknown_names: bool = False,
    add_note: Callable[[str], None] | None = None,
) -> AlignmentTask:
    """Read a task from two graph files and a file of seeds.

    Parameters
    ----------
    source, target
        Files in any format that `read_graph` reads.
    seeds
        A file of links in any format that `read_mappings` reads; None for a task without seeds.
    skip_unknown_seeds
        Leave out seeds that name unknown entities instead of refusing them.
    keep_schema
        Align the classes and properties of RDF files too; by default they are left out, with the triples
        about them.
    source_names, target_names, skip_unknown_names
        Files of names; see `read_task`.
    add_note
        Called with a sentence for each graph of which something was left out.
    """
    left, right = (_read_graph(path, keep_schema, add_note) for path in (source, target))
    links = Links.from_pairs([])
    if seeds is not None:
        links = resolve_links(seeds, left, right, skip_unknown=skip_unknown_seeds)
    task = task_of(left, right, links, seeds)
    return with_names(task, source_names, target_names, skip_unknown=skip_unknown_names)


def _read_graph(
    path: str | Path, keep_schema: bool, add_note: Callable[[str], None] | None
) -> KnowledgeGraph:
    if keep_schema:
        return read_graph(path)
    graph, left_out = read_graph_to_align(path)
    if left_out is not None and add_note is not None:
        keep = worded(command="--keep-schema", python="keep_schema=True")
        add_note(f"{path}: {left_out} are left out; {keep} keeps them")
    return graph


def task_of(
    source: KnowledgeGraph,
    target: KnowledgeGraph,
    links: Links,
    seeds: str | Path | None,
    rejected: Links | None = None,
) -> AlignmentTask:
    """The task; errors name where its seeds come from."""
    try:
        return AlignmentTask(source, target, links, rejected=rejected or Links.from_pairs([]))
    except InputError as error:
        raise InputError(str(error), path=str(seeds)) from error


def with_names(
    task: AlignmentTask,
    source_names: str | Path | pa.Table | None,
    target_names: str | Path | pa.Table | None,
    *,
    skip_unknown: bool = False,
) -> AlignmentTask:
    """The task with names as literals of its graphs.

    See `read_task` for the parameters; names may also be tables with the columns entity and name.
    """
    source, target = task.source, task.target
    if source_names is not None:
        source = add_names(
            task.source, source_names, skip_unknown=skip_unknown, other=task.target, argument="source_names"
        )
    if target_names is not None:
        target = add_names(
            task.target, target_names, skip_unknown=skip_unknown, other=task.source, argument="target_names"
        )
    return replace(task, source=source, target=target)


def read_links(path: str | Path, task: AlignmentTask, folder: str | Path | None = None) -> Links:
    """Read links between the two graphs of a task.

    Parameters
    ----------
    path
        A file in any format that `read_mappings` reads.
    folder
        The task folder that the graphs were read from, if the links use its ids.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from divea.graphs.planted import planted_pair
    >>> task = planted_pair().task
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "links.csv"
    ...     _ = path.write_text("left3,right5\\nleft1,right8\\n")
    ...     read_links(path, task)
    Links(2)
    """
    return resolve_links(path, task.source, task.target, folder=folder)


def resolve_links(
    path: str | Path,
    source: KnowledgeGraph,
    target: KnowledgeGraph,
    *,
    folder: str | Path | None = None,
    skip_unknown: bool = False,
) -> Links:
    """Read links between two graphs; see `read_links` and `Links.from_labels` for the parameters."""
    mappings = read_mappings(path)
    if folder is not None and not is_native(Path(folder)):
        mappings = layout_of(Path(folder)).relabel(Path(folder), mappings)
    return links_between(
        mappings["source"], mappings["target"], source, target, path=path, skip_unknown=skip_unknown
    )


def links_between(
    left: pa.Array | pa.ChunkedArray,
    right: pa.Array | pa.ChunkedArray,
    source: KnowledgeGraph,
    target: KnowledgeGraph,
    *,
    path: str | Path,
    skip_unknown: bool = False,
) -> Links:
    """Links from two columns of labels, row by row; raises InputError if there are none.

    See `Links.from_labels` for the parameters.
    """
    left, right = without_brackets(left, source), without_brackets(right, target)
    links = Links.from_labels(left, right, source, target, skip_unknown=skip_unknown, path=path)
    if len(links) == 0:
        raise InputError("no link names entities of both graphs", path=path)
    return links


def write_task(task: AlignmentTask, folder: str | Path, layout: str = NATIVE) -> list[str]:
    """Write a task as a new folder; if that fails, nothing is left behind.

    Returns a sentence for each thing that the layout cannot hold.

    Parameters
    ----------
    layout
        divea, jape, openea, parquet, or the layout of a plug-in. Only divea holds everything.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> graph = KnowledgeGraph.from_triples([("Rome", "capital of", "Italy")], extra_entities=["Oslo"])
    >>> with TemporaryDirectory() as folder:
    ...     write_task(AlignmentTask(graph, graph), f"{folder}/task", layout="openea")
    ['1 source entities without a triple are left out', '1 target entities without a triple are left out']
    """
    folder = usable_path(folder)
    if layout == NATIVE:
        save_task(task, folder)
        return []
    if layout not in LAYOUTS.names():
        raise InputError(f"unknown layout {layout!r}; choose from {', '.join((NATIVE, *LAYOUTS.names()))}")
    writer: Layout = LAYOUTS.load(layout)()
    with new_folder(folder) as temporary:
        notes = writer.write(task, temporary)
    count = len(task.rejected)
    return [*notes, f"{count} rejected pairs are left out"] if count else notes


def is_native(folder: Path) -> bool:
    """Whether a folder has divea's own layout."""
    with reading(folder):
        return (folder / "task.json").is_file()


def layout_of(folder: Path) -> Layout:
    """The layout of a folder that does not have divea's own layout."""
    with reading(folder):
        if not folder.exists():
            raise InputError("no such folder", path=folder)
        if not folder.is_dir():
            two = worded(command="use --source and --target", python="divea.make_task takes two graphs")
            raise InputError(f"is a file; a task is a folder, or {two}", path=folder)
        for layout in _layouts():
            if layout.recognises(folder):
                return layout
        if is_native(folder / "task"):
            raise InputError(f"is not a task folder, but has one: {folder / 'task'}", path=folder)
    raise InputError(
        "not a task folder: expected task.json (divea), triples_1 and ent_ids_1 (JAPE), "
        "rel_triples_1 (OpenEA) or triples_1.parquet, each with its _2",
        path=folder,
    )


def folder_around(path: str | Path) -> Path | None:
    """The nearest task folder around a file, if its layout is not divea's own.

    Links in the file may use the ids of that folder.
    """
    with reading(Path(path)):
        for folder in Path(path).absolute().parents:
            if any(layout.recognises(folder) for layout in _layouts()):
                return folder
    return None


def _layouts() -> list[Layout]:
    return [LAYOUTS.load(name)() for name in LAYOUTS.names()]
