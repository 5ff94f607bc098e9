"""Knowledge graphs from objects: tables, graphs of rdflib and networkx, and Python triples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from divea.errors import InputError
from divea.formats.attribute_objects import add_attributes, add_values, rows_of
from divea.formats.graph_files import looks_like_records, read_graph, read_graph_to_align, to_align
from divea.formats.label_columns import labels_of_column
from divea.formats.python_values import is_missing, labels_of
from divea.formats.rdf import graph_of_statements
from divea.formats.sniff import GRAPH_HEADERS
from divea.formats.table_objects import ROWS, TableObject, is_a, one_array
from divea.graphs import GraphBuilder, KnowledgeGraph

RELATION_ATTRIBUTES = ("relation", "predicate", "label", "type")
"""Edge attributes of networkx that name a relation; the first that any edge has counts for all edges."""

UNCERTAIN_ATTRIBUTES = ("label", "type")
"""Those of them that often describe an edge in another way."""


def graph_of(given: Any, attributes: Any = None, *, where: str, keep_schema: bool = False) -> KnowledgeGraph:
    """The knowledge graph of an object or a file.

    Parameters
    ----------
    given
        A `KnowledgeGraph`; a file that `read_graph` reads; a table with the columns head, relation and tail,
        or three columns in this order; a graph of rdflib or networkx; or an iterable of triples.
    attributes
        Further literals of the entities; see `add_attributes`.
    where
        The argument that the graph was given as, for messages.
    keep_schema
        Keep the classes and properties of RDF files and of graphs of rdflib.

    Examples
    --------
    >>> graph = graph_of([("Rome", "capital of", "Italy")], {"Rome": {"founded": -753}}, where="source")
    >>> graph, graph.attributes.values.to_pylist()
    (KnowledgeGraph(2 entities, 1 relations, 1 triples), ['-753'])
    """
    graph = _read(given, where, keep_schema)
    if attributes is not None:
        builder = _builder_of(graph)
        add_attributes(builder, attributes, f"{where}_attributes")
        graph = replace(builder.build(), repeated_triples=graph.repeated_triples)
    if not graph.num_entities:
        raise InputError("contains no triples", path=where)
    return graph


def _read(given: Any, where: str, keep_schema: bool) -> KnowledgeGraph:
    if isinstance(given, KnowledgeGraph):
        return given
    if isinstance(given, str | Path):
        return read_graph(given) if keep_schema else read_graph_to_align(given)[0]
    if is_a(given, "rdflib", "Graph"):
        graph = graph_of_statements(_statements(given, where), where)
        return graph if keep_schema or not graph.num_entities else to_align(graph, where)[0]
    builder = GraphBuilder()
    table = TableObject.of(given, where)
    if table is not None:
        _add_table(builder, table)
    elif is_a(given, "networkx", "Graph"):
        _add_networkx(builder, given, where)
    else:
        other = "a file, a table, a graph of rdflib or networkx"
        rows = rows_of(given, GRAPH_HEADERS[0], where, other)
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        builder.add_triples(*(labels_of(column, where) for column in columns))
    return builder.build()


def _builder_of(graph: KnowledgeGraph) -> GraphBuilder:
    """A builder with everything that a graph has."""
    builder = GraphBuilder()
    builder.add_entities(graph.entities)
    heads, relations, tails = (pa.array(column.copy()) for column in graph.triples.T)
    builder.add_triples(
        pa.DictionaryArray.from_arrays(heads, graph.entities),
        pa.DictionaryArray.from_arrays(relations, graph.relations),
        pa.DictionaryArray.from_arrays(tails, graph.entities),
    )
    if (known := graph.attributes) is not None:
        builder.add_attributes(
            pa.DictionaryArray.from_arrays(pa.array(known.entities), graph.entities),
            pa.DictionaryArray.from_arrays(pa.array(known.predicates), known.predicate_labels),
            known.values,
            known.kinds,
        )
    return builder


def _add_table(builder: GraphBuilder, table: TableObject) -> None:
    triples = table.labels(GRAPH_HEADERS)
    if table.find(GRAPH_HEADERS) is None and looks_like_records(*map(one_array, triples.columns)):
        raise InputError(
            f"the columns {', '.join(table.names)} look like those of records, not of triples; "
            f"give records as {table.where}_attributes, or name the columns head, relation and tail",
            path=table.where,
        )
    for batch in triples.to_batches(max_chunksize=ROWS):
        builder.add_triples(
            *(labels_of_column(batch[name], name, table.where) for name in triples.column_names)
        )


def _statements(given: Any, where: str) -> Iterator[Any]:
    """The triples of an rdflib graph as terms of pyoxigraph, as its parser would give them for a file."""
    from pyoxigraph import BlankNode, Literal, NamedNode, Triple

    def term(of: Any) -> Any:
        if is_a(of, "rdflib", "URIRef"):
            return NamedNode(str(of))
        if is_a(of, "rdflib", "BNode"):
            return BlankNode(str(of))
        if not is_a(of, "rdflib", "Literal"):
            raise ValueError(f"{type(of).__name__} is no term of RDF")
        if of.language is not None:
            return Literal(str(of), language=str(of.language))
        return Literal(str(of), datatype=None if of.datatype is None else NamedNode(str(of.datatype)))

    # A dataset has several graphs; their names are left out, as those of a file are.
    rows = given.quads() if hasattr(given, "quads") else given.triples((None, None, None))
    for subject, predicate, object_, *_ in rows:
        try:
            yield Triple(term(subject), term(predicate), term(object_))
        except (ValueError, TypeError) as error:
            raise InputError(f"not valid RDF: {error}", path=where) from error


def _add_networkx(builder: GraphBuilder, given: Any, where: str) -> None:
    """Add nodes with their attributes, and edges. An undirected edge becomes a triple in each direction.

    The order of its ends means nothing, so a single triple would depend on how the graph was made.
    """
    nodes = list(given.nodes)
    labels = labels_of(nodes, where)
    if pc.count_distinct(labels).as_py() < len(nodes):
        raise InputError("two nodes have the same label: an integer and its text", path=where)
    builder.add_entities(labels)
    edges = [(*edge[:2], edge[-1]) for edge in given.edges(data=True)]
    relations = labels_of(_relations(given, [data for *_, data in edges], where), where)
    heads, tails = (labels_of([edge[at] for edge in edges], where) for at in (0, 1))
    builder.add_triples(heads, relations, tails)
    if not given.is_directed():
        is_other = pc.not_equal(heads, tails)
        builder.add_triples(*(column.filter(is_other) for column in (tails, relations, heads)))
    add_values(
        builder,
        ((node, name, value) for node, data in given.nodes(data=True) for name, value in data.items()),
        where,
    )


def _relations(given: Any, data_of_edges: list[dict[Any, Any]], where: str) -> list[Any]:
    """The relation of each edge: the value of an attribute or, in a multigraph, the key of the edge.

    Keys that are text name the relations of a multigraph, unless an attribute certainly does.
    """
    keys = [key for *_, key in given.edges(keys=True)] if given.is_multigraph() else []
    has_keys = len(keys) == len(data_of_edges) > 0 and all(isinstance(key, str) for key in keys)
    used = Counter(name for data in data_of_edges for name in RELATION_ATTRIBUTES if name in data)
    name = next((name for name in RELATION_ATTRIBUTES if used[name]), None)
    if name is not None and not (has_keys and name in UNCERTAIN_ATTRIBUTES):
        found = [data.get(name) for data in data_of_edges]
        missing = sum(map(is_missing, found))
        if missing:
            raise InputError(f"{missing} of {len(found)} edges have no attribute '{name}'", path=where)
        return found
    if data_of_edges and not has_keys:
        raise InputError(
            "the edges have no relation: name it in the edge attribute 'relation', or as the key of a "
            "multigraph",
            path=where,
        )
    return keys
