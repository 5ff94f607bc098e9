"""divea: aligns the entities of two large knowledge graphs by division into subtasks."""

from divea.errors import InputError
from divea.graphs import AlignmentTask, KnowledgeGraph, Links

__all__ = ["AlignmentTask", "InputError", "KnowledgeGraph", "Links"]
