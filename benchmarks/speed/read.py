"""Reading a graph file next to the bare parser of the same file.

The files hold the same generated graph: TSV and N-Triples grouped by subject, as dumps are, and a shuffled
TSV as the worst case, because every label must then be looked up. The parser is the fastest plain reader of
the library that divea parses with: pyarrow's threaded `read_csv`, and pyoxigraph's `parse` iterated to the
end. Reading is all of divea's work: parse, give ids to entities and relations, sort, and save arrays.

Aim: at most 3 times the parser's time, and peak memory of at most 4 times the saved arrays.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv
from pyoxigraph import RdfFormat, parse

from benchmarks.common import MIB, Figures, Needs, Spread, add_rounds, in_turns, measure_in_child
from divea import read_graph, write_graph
from divea.graphs.storage import write_graph_arrays
from divea.graphs.synth import SynthConfig, synthesise

NEEDS = Needs("none", "CPU", "5 min")

TRIPLES_PER_ENTITY = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--triples", type=int, default=5_000_000)
    add_rounds(parser, 3)


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    table = figures.table(
        "reading",
        {
            "file": "",
            "size": "MiB",
            "triples": "",
            "parser": "s",
            "divea": "s",
            "time ratio": "",
            "peak memory": "MiB",
            "saved arrays": "MiB",
            "memory ratio": "",
        },
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in write_files(Path(folder), options.triples).items():
            works = {
                "parser": partial(measure_in_child, prepare, path.suffix, path, Path(folder)),
                "divea": partial(measure_in_child, prepare, "divea", path, Path(folder)),
            }
            found = in_turns(works, options.rounds)
            parser, ours = found["parser"], found["divea"]
            triples, saved = ours.results[0]
            table.add(
                {
                    "file": kind,
                    "size": path.stat().st_size / MIB,
                    "triples": triples,
                    "parser": parser.seconds,
                    "divea": ours.seconds,
                    "time ratio": ours.times(parser),
                    "peak memory": ours.memory,
                    "saved arrays": saved / MIB,
                    "memory ratio": Spread.of(one.memory / saved for one in ours.measurements),
                }
            )
    return figures


def write_files(folder: Path, triples: int) -> dict[str, Path]:
    graph = synthesise(SynthConfig(entities=triples // TRIPLES_PER_ENTITY)).task.source
    names = {"TSV": "graph.tsv", "N-Triples": "graph.nt", "TSV, shuffled": "shuffled.tsv"}
    files = {kind: folder / name for kind, name in names.items()}
    write_graph(graph, files["TSV"])
    write_graph(graph, files["N-Triples"])
    lines = files["TSV"].read_bytes().splitlines(keepends=True)[1:]
    order = np.random.default_rng(0).permutation(len(lines))
    files["TSV, shuffled"].write_bytes(b"".join(lines[at] for at in order))
    return files


def prepare(name: str, path: Path, folder: Path) -> Callable[[], tuple[int, int]]:
    """Work on a file, after the same work on its first lines, so that all libraries are loaded."""
    work = {"divea": read_and_save, ".nt": parse_n_triples, ".tsv": parse_tsv}[name]
    with tempfile.TemporaryDirectory(dir=folder) as small, path.open("rb") as lines:
        start = Path(small) / path.name
        start.write_bytes(b"".join(islice(lines, 100)))
        work(start, folder)
    return partial(work, path, folder)


def parse_tsv(path: Path, folder: Path) -> tuple[int, int]:
    columns = ["head", "relation", "tail"]
    table = csv.read_csv(
        path,
        csv.ReadOptions(column_names=columns),
        csv.ParseOptions(delimiter="\t", quote_char=False),
        csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.string())),
    )
    return table.num_rows, 0


def parse_n_triples(path: Path, folder: Path) -> tuple[int, int]:
    return sum(1 for _ in parse(path=path, format=RdfFormat.N_TRIPLES)), 0


def read_and_save(path: Path, folder: Path) -> tuple[int, int]:
    """The number of triples, and the bytes of the saved arrays."""
    graph = read_graph(path)
    with tempfile.TemporaryDirectory(dir=folder) as arrays:
        write_graph_arrays(graph, Path(arrays))
        return graph.num_triples, sum(file.stat().st_size for file in Path(arrays).iterdir())
