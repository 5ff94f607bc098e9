"""Reads and writes one knowledge graph in one file, in any of the formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import first_row, read_columns, write_columns
from divea.formats.parquet import column_names, read_label_columns
from divea.formats.rdf import SYNTAX, read_rdf, write_ntriples
from divea.formats.sniff import GRAPH_HEADERS, kind_of, suffix_of
from divea.graphs import GraphBuilder, KnowledgeGraph
from divea.io import new_file

COLUMNS = GRAPH_HEADERS[0]
"""The columns of the tables of triples that divea writes."""


def read_graph(path: str | Path) -> KnowledgeGraph:
    """Read a knowledge graph from N-Triples, Turtle, RDF/XML, TSV, CSV or Parquet.

    The format is recognised by the content and, if that does not decide, by the name. Files compressed with
    gzip, bzip2, xz or zstandard are decompressed. A TSV or CSV file has three columns, head, relation and
    tail, with or without a header. Literals of RDF become attributes.

    Raises InputError if the file cannot be read; the message names the line if it is known.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = Path(folder) / "graph.csv"
    ...     _ = path.write_text("head,relation,tail\\nRome,capital of,Italy\\nMilan,city in,Italy\\n")
    ...     read_graph(path)
    KnowledgeGraph(3 entities, 2 relations, 2 triples)
    """
    path = Path(path)
    kind = kind_of(path)
    if kind in SYNTAX:
        return read_rdf(path, kind)
    if kind in ("sssom", "oaei"):
        raise InputError("contains mappings, not a graph", path=path)
    graph = read_parquet_triples(path) if kind == "parquet" else _read_table(path)
    if graph.num_triples == 0:
        raise InputError("contains no triples", path=path)
    return graph


def is_graph_header(columns: list[str]) -> bool:
    """Whether a first row names the columns of triples."""
    return tuple(column.strip().lower() for column in columns) in GRAPH_HEADERS


def _read_table(path: Path) -> KnowledgeGraph:
    builder = GraphBuilder()
    header = is_graph_header(first_row(path))
    for batch in read_columns(path, COLUMNS, header=header, dictionary=("relation",)):
        builder.add_triples(*batch.columns)
    return builder.build()


def read_parquet_triples(path: Path) -> KnowledgeGraph:
    """Read triples from a Parquet file with the columns of one of `GRAPH_HEADERS`, among others."""
    found = column_names(path)
    names = next((header for header in GRAPH_HEADERS if set(header) <= set(found)), COLUMNS)
    builder = GraphBuilder()
    for heads, relations, tails in read_label_columns(path, names):
        builder.add_triples(heads, relations, tails)
    return builder.build()


def triple_labels(graph: KnowledgeGraph) -> pa.Table:
    """The triples as a table of labels with the columns head, relation and tail."""
    heads, relations, tails = (pa.array(np.ascontiguousarray(column)) for column in graph.triples.T)
    columns = graph.entities.take(heads), graph.relations.take(relations), graph.entities.take(tails)
    return pa.table(dict(zip(COLUMNS, columns, strict=True)))


def write_graph(graph: KnowledgeGraph, path: str | Path) -> None:
    """Write a graph to a file; if that fails, no file is left behind.

    The suffix selects the format: .nt, .ttl, .tsv, .csv or .parquet. Except after .parquet, a second suffix
    .gz, .bz2, .xz or .zst compresses the file. Only .nt and .ttl hold literals. No format holds entities
    without triples; a divea task folder holds both.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> graph = KnowledgeGraph.from_triples([("Rome", "capital of", "Italy")])
    >>> with TemporaryDirectory() as folder:
    ...     write_graph(graph, f"{folder}/graph.nt.gz")
    ...     read_graph(f"{folder}/graph.nt.gz") == graph
    True
    """
    path = Path(path)
    suffix = suffix_of(path)
    if suffix not in (".nt", ".ttl", ".tsv", ".csv", ".parquet"):
        raise InputError("unknown graph format: use .nt, .ttl, .tsv, .csv or .parquet", path=path)
    with new_file(path) as temporary:
        if suffix in (".nt", ".ttl"):
            # N-Triples is a subset of Turtle.
            write_ntriples(graph, temporary)
        elif suffix == ".parquet":
            pq.write_table(triple_labels(graph), temporary, compression="zstd")
        else:
            write_columns(temporary, triple_labels(graph), header=True)
