"""divea aligns the entities of two large knowledge graphs by dividing the job into subtasks.

>>> import divea
>>> task = divea.read_task("path/to/folder")  # doctest: +SKIP
>>> divea.align(task, subtasks=5).save("mappings.tsv")  # doctest: +SKIP

What stands in `__all__` is the public surface; it is imported when first used, so that
`import divea` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from divea.alignment.settings import Settings
    from divea.errors import InputError
    from divea.formats import read_graph, read_links, read_task, write_graph, write_mappings, write_task
    from divea.graphs import AlignmentTask, KnowledgeGraph, Links

__version__ = "0.1.0.dev0"

_HOME = {
    # By name alone: it may see gold, so nothing that predicts may import it.
    "Alignment": "divea.api",
    "align": "divea.api",
    "Settings": "divea.alignment.settings",
    "AlignmentTask": "divea.graphs",
    "InputError": "divea.errors",
    "KnowledgeGraph": "divea.graphs",
    "Links": "divea.graphs",
    "read_graph": "divea.formats",
    "read_links": "divea.formats",
    "read_task": "divea.formats",
    "write_graph": "divea.formats",
    "write_mappings": "divea.formats",
    "write_task": "divea.formats",
}

__all__ = [
    "Alignment",
    "AlignmentTask",
    "InputError",
    "KnowledgeGraph",
    "Links",
    "Settings",
    "align",
    "read_graph",
    "read_links",
    "read_task",
    "write_graph",
    "write_mappings",
    "write_task",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'divea' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
