"""Reads and writes graphs, mappings and task folders in the common formats."""

from divea.formats.graph_files import read_graph, write_graph
from divea.formats.mapping_files import mapping_table, read_mappings, write_mappings
from divea.formats.task_folders import read_links, read_task, read_task_files, write_task

__all__ = [
    "mapping_table",
    "read_graph",
    "read_links",
    "read_mappings",
    "read_task",
    "read_task_files",
    "write_graph",
    "write_mappings",
    "write_task",
]
