"""Knowledge graphs, links and alignment tasks as arrays: the data that all other packages work on."""

from divea.graphs.builder import GraphBuilder
from divea.graphs.knowledge_graph import Attributes, KnowledgeGraph
from divea.graphs.links import Links
from divea.graphs.storage import load_task, save_task
from divea.graphs.task import AlignmentTask

__all__ = [
    "AlignmentTask",
    "Attributes",
    "GraphBuilder",
    "KnowledgeGraph",
    "Links",
    "load_task",
    "save_task",
]
