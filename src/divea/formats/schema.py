"""The schema of an RDF graph: its classes and properties, which are not entities to align."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from divea.graphs import Attributes, KnowledgeGraph
from divea.graphs.labels import as_labels

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_OWL = "http://www.w3.org/2002/07/owl#"
_VOCABULARIES = (_RDF, _RDFS, _OWL, "http://www.w3.org/2001/XMLSchema#")
"""Namespaces that contain nothing but schema."""

_TYPE = f"{_RDF}type"
_RELATIONS_OF_SCHEMA = [
    *(_RDFS + name for name in ("subClassOf", "subPropertyOf", "domain", "range")),
    *(_OWL + name for name in ("equivalentClass", "equivalentProperty", "disjointWith", "disjointUnionOf")),
    *(_OWL + name for name in ("complementOf", "inverseOf", "propertyDisjointWith", "onProperty", "onClass")),
    *(_OWL + name for name in ("someValuesFrom", "allValuesFrom")),
]
"""Relations with a class or property at both ends."""
_CLASSES_OF_SCHEMA = [
    *(_RDFS + name for name in ("Class", "Datatype", "ContainerMembershipProperty")),
    *(_OWL + name for name in ("Class", "DataRange", "DeprecatedClass", "Ontology", "Restriction")),
    f"{_RDF}Property",
    *(
        f"{_OWL}{kind}Property"
        for kind in (
            *("Annotation", "Asymmetric", "Datatype", "Deprecated", "Functional", "InverseFunctional"),
            *("Irreflexive", "Object", "Ontology", "Reflexive", "Symmetric", "Transitive"),
        )
    ),
]
"""Classes of classes and of properties."""


def without_schema(graph: KnowledgeGraph) -> tuple[KnowledgeGraph, str | None]:
    """The graph without classes and properties and without the triples about them, and what was left out.

    Classes are the objects of rdf:type. Properties are the relations and attributes of the graph. Whatever
    has a type such as owl:Class or rdf:Property, is at an end of a relation such as rdfs:subClassOf, or is a
    term of RDF, RDFS, OWL or XML Schema itself, is schema too. An entity that has only a type stays.

    Examples
    --------
    >>> graph = KnowledgeGraph.from_triples([("x:Rome", "x:in", "x:Italy"), ("x:Rome", _TYPE, "x:City")])
    >>> without_schema(graph)
    (KnowledgeGraph(2 entities, 1 relations, 1 triples), '1 classes and properties and 1 triples about them')
    """
    is_schema = _is_schema(graph)
    left_out = int(is_schema.sum())
    if not left_out:
        return graph, None
    kept = _selected(graph, ~is_schema)
    triples = graph.num_triples - kept.num_triples
    return kept, f"{left_out} classes and properties and {triples} triples about them"


def _is_schema(graph: KnowledgeGraph) -> npt.NDArray[np.bool_]:
    """Whether each entity is a term of the schema."""
    heads, relations, tails = graph.triples.T
    is_schema = np.zeros(graph.num_entities, dtype=bool)
    for namespace in _VOCABULARIES:
        is_schema |= _mask(pc.starts_with(graph.entities, namespace))
    names = [graph.relations, *([] if graph.attributes is None else [graph.attributes.predicate_labels])]
    for labels in names:
        is_schema |= _is_one_of(graph.entities, labels)
    is_type = _mask(pc.equal(graph.relations, _TYPE))[relations]
    is_schema[tails[is_type]] = True
    is_class_of_schema = _is_one_of(graph.entities, as_labels(_CLASSES_OF_SCHEMA))
    is_schema[heads[is_type & is_class_of_schema[tails]]] = True
    joins_schema = _is_one_of(graph.relations, as_labels(_RELATIONS_OF_SCHEMA))[relations]
    is_schema[heads[joins_schema]] = True
    is_schema[tails[joins_schema]] = True
    return is_schema


def _is_one_of(labels: pa.Array, wanted: pa.Array) -> npt.NDArray[np.bool_]:
    return _mask(pc.is_in(labels, value_set=wanted))


def _mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return mask


def _selected(graph: KnowledgeGraph, is_kept: npt.NDArray[np.bool_]) -> KnowledgeGraph:
    """The graph of these entities, with their attributes, the triples between them and their relations.

    Labels stay in the order of their hashes, so this is the graph that a file without the others would give.
    """
    new_id = np.cumsum(is_kept, dtype=np.int32) - 1
    triples = graph.triples[is_kept[graph.heads] & is_kept[graph.tails]]
    used = np.zeros(graph.num_relations, dtype=bool)
    used[triples[:, 1]] = True
    triples = np.stack(
        [new_id[triples[:, 0]], (np.cumsum(used, dtype=np.int32) - 1)[triples[:, 1]], new_id[triples[:, 2]]],
        axis=1,
    )
    return KnowledgeGraph(
        graph.entities.filter(pa.array(is_kept)),
        graph.relations.filter(pa.array(used)),
        triples,
        None if graph.attributes is None else _attributes_of(graph.attributes, is_kept, new_id),
        graph.repeated_triples,
    )


def _attributes_of(
    attributes: Attributes, is_kept: npt.NDArray[np.bool_], new_id: npt.NDArray[np.int32]
) -> Attributes | None:
    rows = is_kept[attributes.entities]
    if not rows.any():
        return None
    used = np.zeros(len(attributes.predicate_labels), dtype=bool)
    used[attributes.predicates[rows]] = True
    return Attributes(
        new_id[attributes.entities[rows]],
        (np.cumsum(used, dtype=np.int32) - 1)[attributes.predicates[rows]],
        attributes.predicate_labels.filter(pa.array(used)),
        attributes.values.filter(pa.array(rows)),
        attributes.kinds.filter(pa.array(rows)),
    )
