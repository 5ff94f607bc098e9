"""How well a preset aligns a data set: figures after every iteration, and how good its confidence is.

Every run is one of `divea align` with these settings, in a temporary run directory. Open protocol: every
source entity without a seed is matched with every candidate of its subtask. Coverage, H@k and MRR are over
all links that the result is compared with; an uncovered link is a miss. "Expected precision .95" stands for
the pairs above the confidence threshold at which held-back seeds predict this precision.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.compute as pc

from benchmarks.common import (
    DBP15K,
    MIB,
    SETS,
    DataSet,
    Figures,
    Needs,
    Value,
    add_data,
    add_device,
    add_links,
    add_settings,
    measure_in_child,
    task_and_links,
    task_for,
)
from divea.api import Alignment
from divea.config import Settings, parse_assignment
from divea.evaluation import AlignmentMetrics, evaluate_alignment
from divea.graphs import Links
from divea.loop.loop import Iteration
from divea.resources.limits import Limits
from divea.runs.align import align_in
from divea.runs.manifest import Manifest

NEEDS = Needs("DBP15K or others", "CPU or GPU", "1 min a run (GPU)")

PRECISION = 0.95
METRICS = ("coverage", "H@1", "H@5", "H@10", "MRR")


def add_options(parser: argparse.ArgumentParser) -> None:
    add_data(parser, list(SETS), ["zh-en", "fr-en"])
    add_links(parser)
    add_device(parser)
    parser.add_argument("--splits", type=int, nargs="+", default=[0], help="splits of DBP15K, 0 to 4")
    parser.add_argument("--percent", type=int, default=20, help="percentage of DBP15K's links that are seeds")
    parser.add_argument("--preset", default="best")
    parser.add_argument("-n", "--subtasks", type=int, default=5)
    parser.add_argument("-s", "--size", type=int, help="default: all entities divided by N")
    parser.add_argument("--random-seed", default="0", help="a number, or `split` for the split's number")
    add_settings(parser, "iterations=5 model=rrea model.rrea.steps=60")


def run(options: argparse.Namespace) -> Figures:
    figures = Figures()
    about = dict.fromkeys(("data", "split"), "")
    metrics = dict.fromkeys(METRICS, "")
    iterations = figures.table(
        "iterations", {**about, "iteration": "", "model": "", **metrics, "pseudo-seeds": "", "largest": ""}
    )
    costs = {"time": "s", "peak memory": "MiB"}
    results = figures.table("results", {**about, **metrics, "one-to-one H@1": "", **costs})
    pairs = {"least confidence": "", "pairs": "", "precision by ends": "", "by pairs": "", "recall": ""}
    confidence = figures.table("confidence", {**about, "expected precision": "", **pairs})
    found: dict[str, list[dict[str, Value]]] = {}
    for name in options.sets:
        for split in options.splits if name in DBP15K else [0]:
            data_set = DataSet(name, options.data, options.percent, split)
            settings = settings_of(options, split)
            row: dict[str, Value] = {"data": name, "split": split}
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "run"
                done = measure_in_child(prepare, data_set, options.links, settings, options.device, path)
                _, links = task_and_links(data_set, options.links)
                for iteration in done.result:
                    iterations.add({**row, **iteration_row(iteration, settings, links)})
                alignment = Alignment(path)
                result = {**row, **result_row(alignment, links), "time": done.seconds}
                for judged in confidence_rows(alignment, links):
                    confidence.add({**row, **judged})
            results.add(result)
            found.setdefault(name, []).append(result)
    add_means(figures, found)
    return figures


def settings_of(options: argparse.Namespace, split: int) -> Settings:
    changes = {"subtasks": options.subtasks, "size": options.size}
    changes["random_seed"] = split if options.random_seed == "split" else int(options.random_seed)
    # Figures of this benchmark are of structure alone, unless --set features=... says otherwise.
    changes = {"features": "none", **changes, **dict(map(parse_assignment, options.set))}
    settings = Settings.of(options.preset, changes)
    return Settings.of(settings, {"confidence.precision": PRECISION}) if settings.calibrates else settings


def prepare(
    data_set: DataSet, links: str, settings: Settings, device: str, path: Path
) -> Callable[[], list[Iteration]]:
    """Work that aligns in a run directory and returns its iterations."""
    task = task_for(data_set, links)

    def align() -> list[Iteration]:
        iterations: list[Iteration] = []
        limits = Limits(device)
        failed = align_in(path, lambda: task, settings, limits=limits, observe=iterations.append)
        if failed:
            raise RuntimeError(f"{len(failed)} subtasks could not be solved: {failed[0].reason}")
        return iterations

    return align


def metrics_row(metrics: AlignmentMetrics) -> dict[str, Value]:
    values = metrics.coverage, metrics.h1, metrics.h5, metrics.h10, metrics.mrr
    return dict(zip(METRICS, values, strict=True))


def iteration_row(iteration: Iteration, settings: Settings, links: Links) -> dict[str, Value]:
    metrics = evaluate_alignment(iteration.matches, Links.from_pairs([]), iteration.division, links)
    return {
        "iteration": iteration.number,
        "model": settings.model_at(iteration.number).name,
        **metrics_row(metrics),
        "pseudo-seeds": len(iteration.pseudo_seeds),
        "largest": max(subtask.size for subtask in iteration.division.subtasks),
    }


def result_row(alignment: Alignment, links: Links) -> dict[str, Value]:
    stages = Manifest.load(alignment.path).stages
    on_gpu = any(stage["peak_gpu_memory"] for stage in stages)
    memory = max(stage["peak_gpu_memory" if on_gpu else "peak_memory"] for stage in stages)
    every_pair = alignment.evaluate(links, min_confidence=0.0)
    return {
        **metrics_row(every_pair),
        "one-to-one H@1": every_pair.pairs.recall,
        "peak memory": memory / MIB,
    }


def confidence_rows(alignment: Alignment, links: Links) -> list[dict[str, Value]]:
    """The pairs of the mappings, and all pairs with a confidence of .5; none without confidence."""
    if not alignment.settings.calibrates:
        return []
    least = pc.min(alignment.mappings["confidence"]).as_py()
    judged = (
        (PRECISION, least, alignment.evaluate(links).pairs),
        (None, 0.5, alignment.evaluate(links, min_confidence=0.5).pairs),
    )
    return [
        {
            "expected precision": precision,
            "least confidence": threshold,
            "pairs": pairs.given,
            "precision by ends": pairs.end_precision,
            "by pairs": pairs.judged_precision,
            "recall": pairs.recall,
        }
        for precision, threshold, pairs in judged
    ]


def add_means(figures: Figures, found: dict[str, list[dict[str, Value]]]) -> None:
    for name, rows in found.items():
        if len(rows) > 1:
            for metric in METRICS:
                mean = float(np.mean([row[metric] for row in rows]))
                figures.add(f"{name}, mean of {len(rows)} splits, {metric}", mean)
