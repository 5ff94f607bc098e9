"""Reading a graph file against the bare parser: time and peak memory, side by side in one run.

    python benchmarks/read.py [--lines 5000000] [--repeats 3]

Makes a TSV and an N-Triples file of the same generated graph, grouped by subject as dumps are,
and a shuffled TSV as the worst case. For each it times, in turn and each in a process of its
own, the parser alone (pyarrow's threaded `read_csv`; pyoxigraph's `parse`, iterated to the end)
and our whole reading: parse, give ids to both entity columns and the relations, sort, save.
The best of the repeats counts. Memory is the peak above that of the process after its imports.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

PLAIN_TSV = """
import pyarrow as pa, pyarrow.csv as csv
def work():
    types = dict.fromkeys("hrt", pa.string())
    table = csv.read_csv(path, csv.ReadOptions(column_names=list("hrt")),
                         csv.ParseOptions(delimiter="\\t", quote_char=False),
                         csv.ConvertOptions(column_types=types))
    return table.num_rows
"""
PLAIN_NT = """
from pyoxigraph import RdfFormat, parse
def work():
    count = 0
    for _ in parse(path=path, format=RdfFormat.N_TRIPLES):
        count += 1
    return count
"""
OURS = """
import tempfile
from pathlib import Path
from divea import read_graph
from divea.graphs.storage import write_graph_arrays
def work():
    graph = read_graph(path)
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        write_graph_arrays(graph, Path(folder))
        global encoded
        encoded = sum(file.stat().st_size for file in Path(folder).iterdir())
    return graph.num_triples
"""
MEASURE = r"""
import json, re, sys, time
from pathlib import Path
path, encoded = sys.argv[1], None
{code}
def highest():
    # Not ru_maxrss, which a new process inherits from the one that started it.
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
base = highest()
start = time.perf_counter()
rows = work()
seconds = time.perf_counter() - start
peak = highest() - base
print(json.dumps(dict(seconds=seconds, peak=peak * 1024, rows=rows, encoded=encoded)))
"""


def measure(code: str, path: Path) -> dict[str, float]:
    script = MEASURE.replace("{code}", code)
    command = [sys.executable, "-c", script, str(path)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def make_files(folder: Path, lines: int) -> dict[str, Path]:
    import numpy as np

    from divea import write_graph
    from divea.graphs.synth import SynthConfig, synthesise

    graph = synthesise(SynthConfig(entities=lines // 4)).task.source
    names = {"TSV": "graph.tsv", "N-Triples": "graph.nt", "TSV shuffled": "mixed.tsv"}
    files = {kind: folder / name for kind, name in names.items()}
    write_graph(graph, files["TSV"])
    write_graph(graph, files["N-Triples"])
    text = files["TSV"].read_bytes().splitlines(keepends=True)[1:]
    order = np.random.default_rng(0).permutation(len(text))
    files["TSV shuffled"].write_bytes(b"".join(text[i] for i in order))
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for kind, path in make_files(Path(folder), options.lines).items():
            plain_code = PLAIN_NT if kind == "N-Triples" else PLAIN_TSV
            runs = [(measure(plain_code, path), measure(OURS, path)) for _ in range(options.repeats)]
            plain, ours = (min(column, key=lambda run: run["seconds"]) for column in zip(*runs, strict=True))
            peak = max(run["peak"] for _, run in runs)
            print(
                f"{kind}: {ours['rows']} triples, {path.stat().st_size / 2**20:.0f} MiB; "
                f"parser {plain['seconds']:.2f} s, ours {ours['seconds']:.2f} s: "
                f"{ours['seconds'] / plain['seconds']:.2f}x; peak {peak / 2**20:.0f} MiB, "
                f"encoded {ours['encoded'] / 2**20:.0f} MiB: {peak / ours['encoded']:.2f}x",
                flush=True,
            )


if __name__ == "__main__":
    main()
