"""Reads and writes one knowledge graph in one file, in any of the formats."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from divea.errors import InputError
from divea.formats.delimited import first_row, read_columns, write_columns
from divea.formats.output import formula_free, require_spreadsheet
from divea.formats.parquet import column_names, read_label_columns
from divea.formats.rdf import SYNTAX, read_rdf, write_ntriples
from divea.formats.schema import without_schema
from divea.formats.sniff import GRAPH_HEADERS, kind_of, suffix_of
from divea.graphs import GraphBuilder, KnowledgeGraph
from divea.graphs.labels import LABEL
from divea.io import new_file, usable_path
from divea.wording import worded

COLUMNS = GRAPH_HEADERS[0]
"""The columns of the tables of triples that divea writes."""

_RECORDS = 10
"""The fewest rows that can look like records without any number in them."""


def read_graph(path: str | Path) -> KnowledgeGraph:
    """Read a knowledge graph from N-Triples, N-Quads, Turtle, TriG, RDF/XML, TSV, CSV or Parquet.

    The format is recognised by the content and, if that does not decide, by the name. Files compressed with
    gzip, bzip2, xz or zstandard are decompressed. A TSV or CSV file has three columns, head, relation and
    tail, with or without a header. Literals of RDF become attributes, and the names of graphs are left out.

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
    path = usable_path(path)
    kind = kind_of(path)
    if kind in SYNTAX:
        return read_rdf(path, kind)
    if kind in ("sssom", "oaei"):
        raise InputError("contains mappings, not a graph", path=path)
    graph = read_parquet_triples(path) if kind == "parquet" else _read_table(path)
    if graph.num_triples == 0:
        raise InputError("contains no triples", path=path)
    return graph


def read_graph_to_align(path: str | Path) -> tuple[KnowledgeGraph, str | None]:
    """Read a graph; of an RDF file, without its schema. Also returns what was left out, None if nothing.

    See `without_schema`. Raises InputError if nothing else is in the file.
    """
    graph = read_graph(path)
    return to_align(graph, path) if kind_of(Path(path)) in SYNTAX else (graph, None)


def to_align(graph: KnowledgeGraph, path: str | Path) -> tuple[KnowledgeGraph, str | None]:
    """A graph of RDF without its schema, and what was left out; see `without_schema`.

    Raises InputError if nothing is left.

    Parameters
    ----------
    path
        Where the graph comes from, for messages.
    """
    kept, left_out = without_schema(graph)
    if kept.num_entities == 0:
        keep = worded(command="--keep-schema", python="keep_schema=True")
        raise InputError(f"contains only classes and properties; {keep} aligns them", path=path)
    return kept, left_out


def is_graph_header(columns: list[str]) -> bool:
    """Whether a first row names the columns of triples."""
    return tuple(column.strip().lower() for column in columns) in GRAPH_HEADERS


def _read_table(path: Path) -> KnowledgeGraph:
    builder = GraphBuilder()
    header = is_graph_header(first_row(path))
    is_first = True
    for batch in read_columns(path, COLUMNS, header=header, dictionary=("relation",)):
        if is_first and not header and len(batch) > 2:
            _refuse_other_table(batch, path)
        is_first = False
        builder.add_triples(*batch.columns)
    return builder.build()


def _refuse_other_table(batch: pa.RecordBatch, path: Path) -> None:
    """Raise InputError if the first rows of a table are the names and rows of other columns, not triples.

    In a file of triples, a name of the first row appears again sooner or later, above all its relation. A
    first row of names that never do is a header if all values below one of its ends are numbers, as in
    `id,name,year`; or if every row has a head of its own that is no tail, and most have a relation of their
    own: as triples, such rows would not even be a graph.
    """
    heads, relations, tails = (column.cast(LABEL) for column in batch.columns)
    first = [column[0].as_py() for column in (heads, relations, tails)]
    below = [column[1:] for column in (heads, relations, tails)]
    names = pa.array(first, LABEL)
    if any(pc.any(pc.is_in(column, value_set=names)).as_py() for column in below) or _has_number(names):
        return
    is_record = looks_like_records(heads, relations, tails)
    if is_record or any(_has_number(column, all_rows=True) for column in (below[0], below[2])):
        shown = ", ".join(name[:40] for name in first)
        raise InputError(
            f"the first row ({shown}) names other columns than a graph has: head, relation and tail, "
            "with or without a header",
            path=path,
        )


def looks_like_records(heads: pa.Array, relations: pa.Array, tails: pa.Array) -> bool:
    """Whether rows do not look like a graph: heads are distinct and no tails, and most relations distinct."""
    return bool(
        len(heads) >= _RECORDS
        and pc.count_distinct(heads).as_py() == len(heads)
        and not pc.any(pc.is_in(heads.cast(LABEL), value_set=tails.cast(LABEL))).as_py()
        and 2 * pc.count_distinct(relations).as_py() > len(heads)
    )


def _has_number(labels: pa.Array, *, all_rows: bool = False) -> bool:
    """Whether a label, or with `all_rows` every label, is a number."""
    is_number = pc.match_substring_regex(labels, r"^[+-]?[0-9]+([.,][0-9]+)?$")
    return bool((pc.all if all_rows else pc.any)(is_number).as_py())


def read_parquet_triples(path: Path) -> KnowledgeGraph:
    """Read triples from a Parquet file with the columns of one of `GRAPH_HEADERS`, among others."""
    found = column_names(path)
    names = next((header for header in GRAPH_HEADERS if set(header) <= set(found)), COLUMNS)
    builder = GraphBuilder()
    for heads, relations, tails in read_label_columns(path, names, keep=False):
        builder.add_triples(heads, relations, tails)
    return builder.build()


def triple_labels(graph: KnowledgeGraph) -> pa.Table:
    """The triples as a table of labels with the columns head, relation and tail."""
    heads, relations, tails = (pa.array(np.ascontiguousarray(column)) for column in graph.triples.T)
    columns = graph.entities.take(heads), graph.relations.take(relations), graph.entities.take(tails)
    return pa.table(dict(zip(COLUMNS, columns, strict=True)))


def write_graph(graph: KnowledgeGraph, path: str | Path, *, for_spreadsheet: bool = False) -> None:
    """Write a graph to a file; if that fails, no file is left behind.

    The suffix selects the format: .nt, .ttl, .tsv, .csv or .parquet. Except after .parquet, a second suffix
    .gz, .bz2, .xz or .zst compresses the file. Only .nt and .ttl hold literals. No format holds entities
    without triples; a divea task folder holds both.

    Parameters
    ----------
    for_spreadsheet
        Write a .tsv or .csv file that a spreadsheet can open safely; see `formula_free`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> graph = KnowledgeGraph.from_triples([("Rome", "capital of", "Italy")])
    >>> with TemporaryDirectory() as folder:
    ...     write_graph(graph, f"{folder}/graph.nt.gz")
    ...     read_graph(f"{folder}/graph.nt.gz") == graph
    True
    """
    path = usable_path(path)
    suffix = suffix_of(path)
    if suffix not in (".nt", ".ttl", ".tsv", ".csv", ".parquet"):
        raise InputError("unknown graph format: use .nt, .ttl, .tsv, .csv or .parquet", path=path)
    if for_spreadsheet:
        require_spreadsheet(path, suffix)
    with new_file(path) as temporary:
        if suffix in (".nt", ".ttl"):
            # N-Triples is a subset of Turtle.
            write_ntriples(graph, temporary)
        elif suffix == ".parquet":
            pq.write_table(triple_labels(graph), temporary, compression="zstd")
        else:
            table = triple_labels(graph)
            write_columns(temporary, formula_free(table) if for_spreadsheet else table, header=True)
