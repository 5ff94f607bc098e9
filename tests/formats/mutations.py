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
)
_TASK = AlignmentTask(_GRAPH, _GRAPH, Links.from_pairs([(i, i) for i in range(20)]))
_TOKENS = [
    b"\t", b"\n", b"\r", b"\0", b'"', b",", b"<", b">", b"\xff", b"\xef\xbb\xbf", b"\\u00", b"#", b" .",
    b"@prefix", b"'''", b"<?xml", b"&x;", b"-1", b"1e999", b"nan", b"_:", b"PAR1", b"{", b"\xed\xa0\x80",
]  # fmt: skip


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
