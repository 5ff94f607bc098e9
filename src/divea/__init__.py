"""divea aligns the entities of two large knowledge graphs by dividing the job into subtasks.

>>> import divea
>>> task = divea.read_task("path/to/folder")  # doctest: +SKIP
>>> divea.align(task, subtasks=5).save("mappings.tsv")  # doctest: +SKIP

The names in `__all__` are the public interface. Each is imported when it is first used, so that `import
divea` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from divea.lazy import lazy_exports

if TYPE_CHECKING:
    from divea.api import Alignment, align
    from divea.config import Settings
    from divea.curation.suggest import suggest
    from divea.errors import InputError
    from divea.explanations import Explanation
    from divea.formats import read_graph, read_links, read_task, write_graph, write_mappings, write_task
    from divea.formats.make_task import make_task
    from divea.graphs import AlignmentTask, KnowledgeGraph, Links

__version__ = "0.2.0"

__all__ = [
    "Alignment",
    "AlignmentTask",
    "Explanation",
    "InputError",
    "KnowledgeGraph",
    "Links",
    "Settings",
    "align",
    "make_task",
    "read_graph",
    "read_links",
    "read_task",
    "suggest",
    "write_graph",
    "write_mappings",
    "write_task",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "Alignment": "divea.api",
        "AlignmentTask": "divea.graphs",
        "Explanation": "divea.explanations",
        "InputError": "divea.errors",
        "KnowledgeGraph": "divea.graphs",
        "Links": "divea.graphs",
        "Settings": "divea.config",
        "align": "divea.api",
        "make_task": "divea.formats.make_task",
        "read_graph": "divea.formats",
        "read_links": "divea.formats",
        "read_task": "divea.formats",
        "suggest": "divea.curation",
        "write_graph": "divea.formats",
        "write_mappings": "divea.formats",
        "write_task": "divea.formats",
    },
)
