"""Runs a cell in a run directory and measures it. Gold is read after the run has finished, and nowhere
else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import Any

from divea.config import DivisionSettings, Settings, combine_settings
from divea.division import SBP
from divea.errors import InputError, SubtaskError
from divea.evaluation import RankMetrics, coverage, listed_ranks, read_gold
from divea.executors import ExecutorSettings
from divea.experiments.cell import Cell
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.io import file_checksum
from divea.loop.confidence import hold_back
from divea.loop.loop import Iteration
from divea.resources.limits import Limits
from divea.resources.machine import cores
from divea.runs.align import align_in
from divea.runs.journal import read_journal
from divea.runs.layout import METRICS
from divea.runs.log import read_log
from divea.runs.manifest import Manifest
from divea.runs.opening import open_run, read_stored_task


def data_folder(data: Path, pair: str) -> Path:
    """The folder of a data set: in the data folder, or among its DBP15K sets."""
    for folder in (data / pair, data / "dbp15k" / pair):
        if (folder / "splits").is_dir():
            return folder
    raise InputError(f"no data set {pair!r} with a folder of splits", path=data)


def split_folder(folder: Path, percent: int, split: int) -> Path:
    """The folder of a split's seeds and test links."""
    return folder / "splits" / str(percent) / str(split)


NAME_FILES = {"zh_en": "names_1.tsv", "ja_en": "names_1.tsv"}
"""Translated names of the left graph, by data set; the names of other graphs are the ends of their IRIs."""


@lru_cache(maxsize=4)
def read_split(folder: Path, percent: int, split: int, *, with_names: bool = False) -> AlignmentTask:
    """The task of a split. Test links are not read; files of names only if they are asked for."""
    names = NAME_FILES.get(folder.name) if with_names else None
    seeds = split_folder(folder, percent, split) / "sup_ent_ids"
    return read_task(folder, seeds, source_names=folder / names if names else None)


SBP_SIZES = {("zh_en", 5): 9421, ("ja_en", 5): 10323, ("fr_en", 5): 9594}
"""The S that the paper's code gives to DivEA when it is compared with SBP."""


def run_cell(cell: Cell, run: Path, *, data: Path, device: str, jobs: int = 1) -> dict[str, Any]:
    """Align in the run directory `run`, or continue there; returns and keeps the cell's figures.

    Parameters
    ----------
    data
        The folder of the data sets.
    jobs
        Cells that run at the same time and share the cores.
    """
    folder = data_folder(data, cell.pair)
    task, held_out = _task(cell, folder)
    iterations: list[Iteration] = []
    _reset_gpu_peak(device)
    failed = align_in(
        run,
        lambda: task,
        cell_settings(cell, task),
        limits=Limits(device, subtasks_per_job=None if cell.stacked else 1),
        executor=_executor(device, jobs),
        observe=iterations.append,
        folder=str(folder),
    )
    if failed:
        raise SubtaskError(failed[0].reason)
    gold = held_out
    if gold is None:
        gold = read_gold(split_folder(folder, cell.percent, cell.split) / "ref_ent_ids", task, folder)
    manifest = Manifest.load(run)
    metrics = {
        "iterations": [_quality(iteration, gold) for iteration in iterations],
        "links": len(gold),
        **_costs(run, manifest, iterations),
        "device": _device_name(manifest.device),
        "jobs": jobs,
    }
    with closing(open_run(run, read_stored_task(run, manifest), manifest)) as opened:
        text = json.dumps(metrics, indent=2) + "\n"
        opened.commit(METRICS, manifest.identity, lambda path: _write(path, text))
    return metrics


FIGURES = (
    "coverage",
    "together",
    "H@1",
    "H@5",
    "H@10",
    "MRR",
    "pseudo_seeds",
    "subtasks",
    "mean_size",
    "largest",
)
"""What is measured in each iteration of a cell."""

COSTS = ("seconds", "division_seconds", "solving_seconds", "subtask_seconds", "memory_mib")
"""What is measured of a cell that was not interrupted."""


def read_metrics(run: Path) -> dict[str, Any] | None:
    """The figures of a finished cell; None if there are none, or the file is not what the journal says."""
    checksums = {entry.file: entry.checksum for entry in read_journal(run)}
    if METRICS not in checksums or file_checksum(run / METRICS) != checksums[METRICS]:
        return None
    try:
        found = json.loads((run / METRICS).read_text())
    except (OSError, ValueError, RecursionError):
        return None
    return found if _is_complete(found) else None


def _is_complete(metrics: Any) -> bool:
    """Whether these are figures of a cell: somebody else may have written the file."""
    if not isinstance(metrics, dict) or not isinstance(metrics.get("iterations"), list):
        return False
    costs = [metrics.get(name, 0.0) for name in COSTS]
    rows = metrics["iterations"]
    figures = [row.get(name) if isinstance(row, dict) else None for row in rows for name in FIGURES]
    return bool(rows) and all(_is_number(value) for value in (metrics.get("links"), *costs, *figures))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < 1e15


def _task(cell: Cell, folder: Path) -> tuple[AlignmentTask, Links | None]:
    """The task, and the held-out seeds that take the place of the test links if the cell asks for it."""
    task = read_split(folder, cell.percent, cell.split, with_names=cell.uses_names)
    # The same seeds for every method, whatever its random seed.
    return hold_back(task, cell.validation, cell.split) if cell.validation else (task, None)


def cell_settings(cell: Cell, task: AlignmentTask) -> Settings:
    """All settings of a cell. The random seed is the split, so that splits are independent runs."""
    settings = dict(cell.settings)
    if cell.subtasks == 1:
        # One subtask is the whole graph.
        del settings["division"]
    if cell.is_sized:
        settings["size"] = _size(cell, task)
    own = {"model.name": cell.model, "subtasks": cell.subtasks, "random_seed": cell.split}
    return Settings.of(None, combine_settings(settings, own))


def _size(cell: Cell, task: AlignmentTask) -> int:
    """The mean size of the rival's subtasks, as in the paper; SBP's depends on the graphs."""
    if cell.scale == "cps":
        return (task.source.num_entities + task.target.num_entities) // cell.subtasks
    if (cell.pair, cell.subtasks) in SBP_SIZES:
        return SBP_SIZES[cell.pair, cell.subtasks]
    rival = SBP.from_settings(cell.subtasks, 0, DivisionSettings(), random_seed=cell.split).divide(task)
    return sum(subtask.size for subtask in rival.subtasks) // len(rival)


def _executor(device: str, jobs: int) -> ExecutorSettings:
    workers = max(cores() // jobs, 1)
    if device == "cpu" and workers > 1:
        return ExecutorSettings(name="local", workers=workers)
    return ExecutorSettings(name="inline")


def _quality(iteration: Iteration, gold: Links) -> dict[str, Any]:
    ranks = RankMetrics.of(listed_ranks(iteration.matches, gold))
    covered = coverage(iteration.division, gold)
    sizes = [subtask.size for subtask in iteration.division.subtasks]
    return {
        "coverage": covered.share,
        "together": covered.share_together,
        "H@1": ranks.h1,
        "H@5": ranks.h5,
        "H@10": ranks.h10,
        "MRR": ranks.mrr,
        "pseudo_seeds": len(iteration.pseudo_seeds),
        "subtasks": len(sizes),
        "mean_size": sum(sizes) / len(sizes),
        "largest": max(sizes),
    }


def _costs(run: Path, manifest: Manifest, iterations: Sequence[Iteration]) -> dict[str, float]:
    """Wall time and peak memory, from the stages of the run; none if it was interrupted."""
    if _starts(run) > 1:
        return {}
    seconds: dict[str, float] = {}
    for stage in manifest.stages:
        seconds[stage["stage"]] = seconds.get(stage["stage"], 0.0) + stage["seconds"]
    subtasks = sum(len(iteration.division) for iteration in iterations)
    peak = "peak_gpu_memory" if manifest.device == "cuda" else "peak_memory"
    solving = seconds.get("solve", 0.0)
    return {
        "seconds": sum(seconds.values()),
        "division_seconds": seconds.get("divide", 0.0),
        "solving_seconds": solving,
        "subtask_seconds": solving / max(subtasks, 1),
        "memory_mib": max((stage[peak] for stage in manifest.stages), default=0) / (1 << 20),
    }


def _starts(run: Path) -> int:
    """How often the run was started until it finished."""
    events = [event["event"] for event in read_log(run)]
    end = events.index("finished") if "finished" in events else len(events)
    return events[:end].count("started")


def _reset_gpu_peak(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.reset_peak_memory_stats()


def _device_name(device: str) -> str:
    if device == "cuda":
        import torch

        return torch.cuda.get_device_name()
    return device


def _write(path: Path, text: str) -> None:
    path.write_text(text)
