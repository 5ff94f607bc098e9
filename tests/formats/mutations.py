"""Good files of every format, and random ways to spoil them, for the fuzz tests."""

from __future__ import annotations

import bz2
import gzip
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from divea import (
    AlignmentTask,
    KnowledgeGraph,
    Links,
    read_graph,
    read_task,
    write_graph,
    write_mappings,
    write_task,
)
from divea.formats import mapping_table, read_mappings

Reader = Callable[[Path], object]

_GRAPH = KnowledgeGraph.from_triples(
    [(f"http://e.example/{i}", f"r{i % 3}", f'name "{i * 7 % 40}"') for i in range(60)]
)
_MAPPINGS = mapping_table(
    [f"http://e.example/{i}" for i in range(30)],
    [f"é{i}" for i in range(30)],
    [i / 20 for i in range(30)],
    [i / 30 for i in range(30)],
    range(1, 31),
)
_TASK = AlignmentTask(_GRAPH, _GRAPH, Links.from_pairs([(i, i) for i in range(20)]))
_TOKENS = [
    b"\t", b"\n", b"\r", b"\0", b'"', b",", b"<", b">", b"\xff", b"\xef\xbb\xbf", b"\\u00", b"#", b" .",
    b"@prefix", b"'''", b"<?xml", b"&x;", b"-1", b"1e999", b"nan", b"_:", b"PAR1", b"{", b"\xed\xa0\x80",
    b"<!ENTITY x \"&e;&e;\">", b"<![CDATA[", b"<!--", b"<<( ", b"*a", b"&a ", b"9" * 5000, b"[" * 2000,
    b"\\ud800", b"2024-13-45", b"%", b"|", b"rank=", b"source", b"target", b"=", b"\xe2\x80\xa8",
    b"{\"@id\":",
]  # fmt: skip


_XML = """<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY e "http://e.example/" >]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.example/">
<e:C rdf:about="&e;1"><e:r><rdf:Description rdf:about="&e;2" e:n="x"/></e:r>
<e:n xml:lang="en">name</e:n></e:C>
<rdf:Description rdf:about="&e;2"><e:l rdf:parseType="Collection"><e:C/></e:l>
<e:x rdf:parseType="Literal"><b>&amp;</b></e:x></rdf:Description></rdf:RDF>
"""
_QUADS = '<x:a> <x:r> <x:b> <x:g> .\n<x:b> <x:n> "caf\\u00E9"@en <x:g> .\n_:a <x:r> <x:b> .\n' * 9
_TRIG = '@prefix x: <x:> .\nx:g { x:a x:r x:b , ( x:c [ x:n """1""" ] ) . }\nGRAPH _:g { x:a x:n 1.5 }\n' * 3
_SSSOM = """# curie_map: {x: "http://x.example/", y: 'http://y.example/'}
# mapping_date: 2024-01-02
# creator_id: [a, b]
subject_id\tsubject_label\tpredicate_id\tobject_id\tconfidence\tother
x:1\tone\tskos:exactMatch\ty:a\t0.5\t"a\tb"
x:2\ttwo\towl:sameAs\ty:b\t\tx=1|y=2
"""


def good_files(folder: Path) -> list[tuple[str, Path, Path, Reader]]:
    """Write good files; returns for each its name, the argument of its reader, its path, and the reader.

    The argument of a reader is the file itself, or the task folder that contains it.
    """
    found: list[tuple[str, Path, Path, Reader]] = []
    for suffix in (".nt", ".ttl", ".tsv", ".csv", ".parquet"):
        path = folder / f"graph{suffix}"
        write_graph(_GRAPH, path)
        found.append((f"graph {suffix}", path, path, read_graph))
    for suffix in (".sssom.tsv", ".tsv", ".csv", ".parquet", ".nt", ".rdf"):
        path = folder / f"mappings{suffix}"
        write_mappings(_MAPPINGS, path)
        found.append((f"mappings {suffix}", path, path, read_mappings))
    for suffix, content in ((".rdf", _XML), (".nq", _QUADS), (".trig", _TRIG)):
        path = folder / f"graph{suffix}"
        path.write_text(content)
        found.append((f"graph {suffix}", path, path, read_graph))
    path = folder / "foreign.sssom.tsv"
    path.write_text(_SSSOM)
    found.append(("foreign .sssom.tsv", path, path, read_mappings))
    text = (folder / "graph.tsv").read_bytes()
    compressed = {
        "gz": gzip.compress(text),
        "bz2": bz2.compress(text),
        "xz": lzma.compress(text),
        "zst": pa.compress(text, "zstd", asbytes=True),
    }
    for suffix, data in compressed.items():
        path = folder / f"graph.tsv.{suffix}"
        path.write_bytes(data)
        found.append((f"graph .{suffix}", path, path, read_graph))
    for layout in ("divea", "jape", "openea", "parquet"):
        root = folder / layout
        write_task(_TASK, root, layout)
        for path in sorted(root.rglob("*")):
            if path.is_file():
                found.append((f"{layout} {path.relative_to(root)}", root, path, read_task))
    return found


def spoil(data: bytes, chance: random.Random) -> bytes:
    """The data with one to four random edits: delete, repeat, flip a bit, insert, cut off or overwrite."""
    edited = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(edited) + 1)
        end = min(len(edited), at + chance.choice([1, 4, 40, 4000]))
        match chance.randrange(6):
            case 0:
                del edited[at:end]
            case 1:
                edited[at:at] = edited[at:end]
            case 2 if at < len(edited):
                edited[at] ^= 1 << chance.randrange(8)
            case 3:
                edited[at:at] = chance.choice(_TOKENS)
            case 4:
                del edited[at:]
            case _:
                edited[at:end] = bytes(chance.randrange(256) for _ in range(end - at))
    return bytes(edited)
