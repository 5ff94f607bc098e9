"""Expected against true precision at every threshold from .5 to .99.

Each set is aligned once with its own seeds, and judged by its test links. The expected precision at a
threshold is the mean confidence of the pairs above it; the true one is counted by ends. The gap is the
largest difference over thresholds. `--plot` draws both, which needs matplotlib: `pip install
'divea[plots]'`. Open protocol.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.common import SETS, DataSet, Figures, Needs, add_data, add_device, add_settings
from divea.api import align
from divea.config import parse_assignment
from divea.evaluation import true_curve
from divea.graphs import AlignmentTask, Links
from divea.runs.evidence import read_evidence
from divea.runs.layout import EVIDENCE

NEEDS = Needs("DBP15K, D-Y or others", "CPU or GPU", "20 s a set (GPU)")

THRESHOLDS = np.round(np.arange(0.5, 0.995, 0.01), 2)

Numbers = npt.NDArray[np.float64]
Curves = dict[tuple[str, int], tuple[Numbers, Numbers]]
"""Expected and true precision of each set and split."""


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, list(SETS), ["zh-en", "fr-en", "D-Y"])
    add_device(parser)
    parser.add_argument("--splits", type=int, nargs="+", default=[0], help="of DBP15K")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="as docs/images/expected-precision.png")
    add_settings(parser, "features=none")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    names = ("data", "split", "pairs", "expected", "true", "gap", "threshold of the gap")
    table = figures.table("expected and true precision", dict.fromkeys(names, ""))
    curves: Curves = {}
    for name in options.sets:
        for split in options.splits if name in ("zh-en", "fr-en") else [0]:
            data_set = DataSet(name, options.data, split=split)
            task = data_set.task()
            changes = dict(map(parse_assignment, options.set))
            with tempfile.TemporaryDirectory() as folder:
                align(task, out=Path(folder) / "run", device=options.device, **changes)
                found = compare(task, Path(folder) / "run", data_set.test_links(task))
            pairs, expected, true = found
            gap = np.abs(expected - true)
            worst = int(np.nanargmax(gap))
            table.add(
                {
                    "data": name,
                    "split": split,
                    "pairs": int(pairs[0]),
                    "expected": float(expected[0]),
                    "true": float(true[0]),
                    "gap": float(gap[worst]),
                    "threshold of the gap": float(THRESHOLDS[worst]),
                }
            )
            curves[name, split] = expected, true
    if options.plot is not None:
        plot(curves, options.plot)
    return figures


def compare(task: AlignmentTask, run: Path, gold: Links) -> tuple[npt.NDArray[np.int64], Numbers, Numbers]:
    """The number of pairs above each threshold, and their expected and true precision."""
    evidence = read_evidence(run / EVIDENCE, task)
    confidence = np.array(evidence.confidence)
    found = true_curve(Links(evidence.source, evidence.target), confidence, gold, THRESHOLDS)
    expected = np.array([confidence[confidence >= threshold].mean() for threshold in THRESHOLDS])
    return found.pairs, expected, found.precision


def plot(curves: Curves, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sets = list(dict.fromkeys(name for name, _ in curves))
    figure, panels = plt.subplots(
        1, len(sets), figsize=(4 * len(sets), 4), sharey=True, squeeze=False, layout="constrained"
    )
    for (name, split), (expected, true) in curves.items():
        panel = panels[0, sets.index(name)]
        panel.plot(THRESHOLDS, expected, color=f"C{split}", label=f"split {split}: expected")
        panel.plot(THRESHOLDS, true, color=f"C{split}", linestyle="--", label=f"split {split}: true")
        panel.set(title=name, xlabel="confidence threshold")
    panels[0, 0].set_ylabel("precision of the pairs above it")
    panels[0, 0].legend(fontsize="x-small")
    figure.savefig(path, dpi=110)
    plt.close(figure)
