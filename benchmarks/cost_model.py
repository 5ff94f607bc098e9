"""Measures what a subtask costs a model in memory and time, and fits the table of `divea plan`.

    python benchmarks/cost_model.py PAIR --device cuda

PAIR is a folder of `divea synth` (30K entities will do). Subtasks of growing size are cut from it and
embedded; peak memory and time are fitted by least squares to  fixed + a entities + b triples.  A trained
model is timed over two small numbers of steps, whose difference counts for all of them. Each measurement
is a process of its own. On the CPU, one thread's own time counts, so that other jobs do not.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import nnls

SIZES = (2_000, 5_000, 10_000, 15_000)
FEW, MORE = 5, 25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pair", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", nargs="+", default=["rrea", "gcn-align", "dual-amn", "label-propagation"])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.pair, options.one[0], int(options.one[1]), options.device)))
        return
    for model in options.models:
        rows = []
        for size in options.sizes:
            command = [sys.executable, __file__, str(options.pair), "--device", options.device]
            done = subprocess.run(
                [*command, "--one", model, str(size)], check=True, capture_output=True, text=True
            )
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(model, rows[-1], flush=True)
        fit(model, rows)


def measure(pair: Path, name: str, size: int, device: str) -> dict[str, float]:
    import torch

    from divea.division import DivEA
    from divea.graphs import load_task
    from divea.models import resolve_model

    whole = load_task(pair / "task")
    parts = -(-2 * whole.source.num_entities // size)
    task = DivEA(parts, size, delta1=0.45, delta2=0.0).divide(whole).subtasks[0].local(whole)
    clock = time.perf_counter if device == "cuda" else time.process_time
    if device == "cpu":
        torch.set_num_threads(1)
    model = resolve_model(name)
    steps = getattr(model.options, "steps", None)

    def timed(**options: int) -> float:
        chosen = resolve_model(name, **options)
        began = clock()
        chosen.embed(task, device=device)
        if device == "cuda":
            torch.cuda.synchronize()
        return clock() - began

    before = 0 if device == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    # The first call of a process also loads kernels, which takes seconds on a GPU.
    if steps is None:
        if device == "cuda":
            timed()
        seconds = timed()
    else:
        timed(steps=FEW)
        few, more = timed(steps=FEW), timed(steps=MORE)
        seconds = few + (more - few) * (steps - FEW) / (MORE - FEW)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    entities = task.source.num_entities + task.target.num_entities
    triples = task.source.num_triples + task.target.num_triples
    return {"entities": entities, "triples": triples, "bytes": peak, "seconds": seconds}


def fit(model: str, rows: list[dict[str, float]]) -> None:
    inputs = np.array([[1, row["entities"], row["triples"]] for row in rows])
    for what in ("bytes", "seconds"):
        values = np.array([row[what] for row in rows])
        # Relative errors count, so that small subtasks are predicted as well as large ones.
        (fixed, entities, triples), _ = nnls(inputs / values[:, None], np.ones(len(rows)))
        error = np.abs(inputs @ [fixed, entities, triples] / values - 1).max()
        print(f"{model}: {what} = {fixed:.3g} + {entities:.3g} entities + {triples:.3g} triples", end="")
        print(f" (worst error {error:.0%})", flush=True)


if __name__ == "__main__":
    main()
