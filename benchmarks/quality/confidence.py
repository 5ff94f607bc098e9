"""Expected against measured precision, from few seeds to many.

Each run is one of `divea align --precision P` with this many of the data set's seeds, drawn by the random
seed; all other links of the set judge it. "Expected" is the mean confidence of the pairs in the mappings,
with a 90 % interval. Precision is measured by ends: a pair counts half for each end that has a link. Open
protocol.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.common import SETS, DataSet, Figures, Needs, Value, add_data, add_device, add_settings
from divea.api import Alignment
from divea.config import Settings, parse_assignment
from divea.errors import CalibrationError
from divea.graphs import AlignmentTask, Links
from divea.resources.limits import Limits
from divea.runs.align import align_in
from divea.runs.layout import CALIBRATION

NEEDS = Needs("DBP15K, D-Y or others", "CPU or GPU", "20 s a run (GPU)")

_SALT = 0x5EED


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, list(SETS), ["zh-en", "fr-en", "D-Y"])
    add_device(parser)
    parser.add_argument("--seeds", type=int, nargs="+", default=[30, 100, 300, 1000])
    parser.add_argument("--random-seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--precision", type=float, default=0.9)
    add_settings(parser, "subtasks=5 confidence.folds=10")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    names = ("method", "judged pairs", "pairs", "expected", "low", "high", "by ends", "recall")
    units = dict.fromkeys(("data", "seeds", "random seed", *names), "")
    table = figures.table("precision", units)
    for name in options.sets:
        data_set = DataSet(name, options.data)
        task = data_set.task()
        links = Links.from_pairs(np.concatenate([task.seeds.pairs, data_set.test_links(task).pairs]))
        for count in options.seeds:
            for random_seed in options.random_seeds:
                row: dict[str, Value] = {"data": name, "seeds": count, "random seed": random_seed}
                changes = {"random_seed": random_seed, **dict(map(parse_assignment, options.set))}
                settings = Settings.of(
                    None, {"confidence.precision": options.precision, "features": "none", **changes}
                )
                table.add({**row, **measure(task, links, count, settings, options.device)})
    return figures


def measure(
    task: AlignmentTask, links: Links, count: int, settings: Settings, device: str
) -> dict[str, Value]:
    """Align with this many seeds, and compare with all other links."""
    order = np.random.default_rng([settings.random_seed, _SALT]).permutation(len(links))
    seeds, others = (Links.from_pairs(links.pairs[part]) for part in (order[:count], order[count:]))
    small = AlignmentTask(task.source, task.target, seeds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        try:
            failed = align_in(path, lambda: small, settings, limits=Limits(device))
        except CalibrationError as error:
            return {"method": f"refused: {error}"}
        if failed:
            raise RuntimeError(failed[0].reason)
        found = json.loads((path / CALIBRATION).read_text())
        pairs = Alignment(path).evaluate(others).pairs
    low, high = found["interval"] or (None, None)
    return {
        "method": found["method"],
        "judged pairs": found["judged_pairs"],
        "pairs": pairs.given,
        "expected": found["expected_precision"],
        "low": low,
        "high": high,
        "by ends": pairs.end_precision if pairs.given else None,
        "recall": pairs.recall,
    }
