"""The folder layout of the OpenEA benchmark: labels in plain tables.

rel_triples_1, rel_triples_2            head, relation, tail
attr_triples_1, attr_triples_2          entity, attribute, value (optional)
721_5fold/1/train_links                 source, target: the seeds of the first fold (optional)
ent_links, 721_5fold/*/test_links       links that only `divea.evaluation` reads
"""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa

from divea.formats.delimited import read_columns, write_columns
from divea.formats.layouts import SIDES, omissions
from divea.graphs import AlignmentTask, Attributes, GraphBuilder, KnowledgeGraph
from divea.graphs.labels import as_labels

_SEEDS = Path("721_5fold") / "1" / "train_links"
# "value", "value"@en or "value"^^<datatype>; any other text is a plain string.
_QUOTED = re.compile(r'"(.*)"(?:@([A-Za-z0-9-]+)|\^\^<?([^<>"]+)>?)?\Z', re.DOTALL)
_ESCAPE_OF = {"\\": "\\\\", '"': '\\"', "\t": "\\t", "\n": "\\n", "\r": "\\r", "\0": "\\0"}
_CHARACTER_OF = {escape: character for character, escape in _ESCAPE_OF.items()}


class OpenEA:
    """The layout of the OpenEA benchmark; the module's docstring lists its files."""

    name = "openea"

    def recognises(self, folder: Path) -> bool:
        return all((folder / f"rel_triples_{side}").is_file() for side in SIDES)

    def read_graphs(self, folder: Path) -> tuple[KnowledgeGraph, KnowledgeGraph]:
        source, target = (_read_side(folder, side) for side in SIDES)
        return source, target

    def seeds_file(self, folder: Path) -> Path | None:
        path = folder / _SEEDS
        return path if path.is_file() else None

    def relabel(self, folder: Path, mappings: pa.Table) -> pa.Table:
        return mappings

    def write(self, task: AlignmentTask, folder: Path) -> list[str]:
        from divea.formats.graph_files import triple_labels

        for graph, side in zip((task.source, task.target), SIDES, strict=True):
            write_columns(folder / f"rel_triples_{side}", triple_labels(graph), header=False)
            if graph.attributes is not None:
                rows = _attribute_rows(graph, graph.attributes)
                write_columns(folder / f"attr_triples_{side}", rows, header=False)
        if len(task.seeds):
            (folder / _SEEDS).parent.mkdir(parents=True)
            source, target = task.seeds.labels(task.source, task.target)
            write_columns(folder / _SEEDS, pa.table({"source": source, "target": target}), header=False)
        return omissions(task, attributes=False, isolated=True)


def _read_side(folder: Path, side: int) -> KnowledgeGraph:
    builder = GraphBuilder()
    path = folder / f"rel_triples_{side}"
    for batch in read_columns(path, ("head", "relation", "tail"), dictionary=("relation",)):
        builder.add_triples(*batch.columns)
    attributes = folder / f"attr_triples_{side}"
    if attributes.is_file():
        columns = ("entity", "attribute", "value")
        for batch in read_columns(attributes, columns, dictionary=("attribute",), optional=("value",)):
            values, kinds = zip(*map(_parse_value, batch["value"].to_pylist()), strict=True)
            builder.add_attributes(batch["entity"], batch["attribute"], as_labels(values), as_labels(kinds))
    return builder.build()


def _parse_value(text: str) -> tuple[str, str]:
    """A value and its kind, as in `Attributes`.

    >>> _parse_value('"Roma"@it'), _parse_value("42")
    (('Roma', '@it'), ('42', ''))
    """
    match = _QUOTED.match(text)
    if match is None:
        return text, ""
    value, language, datatype = match.groups()
    value = re.sub(r'\\[\\"tnr0]', lambda escape: _CHARACTER_OF[escape[0]], value)
    return value, f"@{language}" if language else datatype or ""


def _format_value(value: str, kind: str) -> str:
    """The text that `_parse_value` reads as this value and kind; quoted only if it must be."""
    if not kind and not _QUOTED.match(value) and not re.search("[\t\n\r\0]", value):
        return value
    quoted = '"' + "".join(_ESCAPE_OF.get(character, character) for character in value) + '"'
    return quoted if not kind else quoted + kind if kind.startswith("@") else f"{quoted}^^<{kind}>"


def _attribute_rows(graph: KnowledgeGraph, attributes: Attributes) -> pa.Table:
    pairs = zip(attributes.values.to_pylist(), attributes.kinds.to_pylist(), strict=True)
    return pa.table(
        {
            "entity": graph.entities.take(pa.array(attributes.entities)),
            "attribute": attributes.predicate_labels.take(pa.array(attributes.predicates)),
            "value": as_labels([_format_value(value, kind) for value, kind in pairs]),
        }
    )
