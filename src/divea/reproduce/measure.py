"""Runs a cell and measures it. Gold is read here, and only after an iteration has made its predictions."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from divea.alignment.confidence import hold_back
from divea.alignment.loop import Iteration, Work, run_loop
from divea.alignment.settings import Settings
from divea.alignment.solve import Solved
from divea.division import division_strategy
from divea.errors import InputError
from divea.evaluation import RankMetrics, coverage, listed_ranks, read_gold
from divea.formats import read_task
from divea.graphs import AlignmentTask, Links
from divea.reproduce.cell import Cell
from divea.run.jobs import jobs_of, solve_job

SBP_SIZES = {("zh_en", 5): 9421, ("ja_en", 5): 10323, ("fr_en", 5): 9594}
"""S as the paper's code gives it to DivEA when compared with SBP."""


def measure(cell: Cell, data: Path, device: str) -> dict[str, Any]:
    """Quality per iteration, time and memory of one run."""
    folder = data_folder(data, cell.pair)
    task = _task(folder, cell.percent, cell.split)
    if cell.validation:
        # The same seeds for every method, whatever its random seed.
        task, gold = hold_back(task, cell.validation, cell.split)
    else:
        gold = read_gold(split_folder(folder, cell.percent, cell.split) / "ref_ent_ids", task, folder)
    settings = settings_of(cell, task)
    watch = _Watch(cell, settings, device, gold)
    run_loop(task, settings, watch.solve, watch.evaluate)
    return watch.record()


def data_folder(data: Path, pair: str) -> Path:
    """Where a data set lies: in the data folder, or among its DBP15K sets."""
    for folder in (data / pair, data / "dbp15k" / pair):
        if (folder / "splits").is_dir():
            return folder
    raise InputError(f"no data set {pair!r} with a folder of splits", path=data)


def split_folder(folder: Path, percent: int, split: int) -> Path:
    """Where the seeds and test links of a split lie."""
    return folder / "splits" / str(percent) / str(split)


@lru_cache(maxsize=4)
def _task(folder: Path, percent: int, split: int) -> AlignmentTask:
    return read_task(folder, split_folder(folder, percent, split) / "sup_ent_ids")


def settings_of(cell: Cell, task: AlignmentTask) -> Settings:
    """All settings of a cell. The random seed is the split, so that splits are independent runs."""
    size = _size(cell, task) if cell.sized else None
    given = {**cell.settings, "model": cell.model, "subtasks": cell.subtasks, "size": size}
    return Settings.of({"seed": cell.split, **given})


def _size(cell: Cell, task: AlignmentTask) -> int:
    """The mean size of the rival's subtasks, as the paper compares; SBP's depends on the graphs."""
    if cell.scale == "cps":
        return (task.source.num_entities + task.target.num_entities) // cell.subtasks
    if (cell.pair, cell.subtasks) in SBP_SIZES:
        return SBP_SIZES[cell.pair, cell.subtasks]
    rival = division_strategy("sbp", cell.subtasks, seed=cell.split).divide(task)
    return sum(subtask.size for subtask in rival.subtasks) // len(rival)


class _Watch:
    """Solves in this process, and takes notes of quality, time and memory."""

    def __init__(self, cell: Cell, settings: Settings, device: str, gold: Links):
        self.cell, self.settings, self.device, self.gold = cell, settings, device, gold
        self.iterations: list[dict[str, Any]] = []
        self.dividing = self.solving = 0.0
        self.began = self.mark = time.perf_counter()
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()

    def solve(self, work: Work) -> list[Solved]:
        # The loop divides between the end of one iteration and here, and does nothing else meanwhile.
        began = time.perf_counter()
        self.dividing += began - self.mark
        pieces = [work]
        if not self.cell.stacked:
            pieces = [replace(work, subtasks=(subtask,)) for subtask in work.subtasks]
        threads = torch.get_num_threads()
        solved = [
            found
            for piece in pieces
            for job in jobs_of(piece, self.settings, device=self.device, memory=None, threads=threads)
            for found in solve_job(work.task, job)
        ]
        self.solving += time.perf_counter() - began
        return solved

    def evaluate(self, iteration: Iteration) -> None:
        ranks = RankMetrics.of(listed_ranks(iteration.matches, self.gold))
        covered = coverage(iteration.division, self.gold)
        sizes = [subtask.size for subtask in iteration.division.subtasks]
        self.iterations.append(
            {
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
        )
        self.mark = time.perf_counter()

    def record(self) -> dict[str, Any]:
        """What a line of `cells.jsonl` says beside the cell."""
        subtasks = sum(iteration["subtasks"] for iteration in self.iterations)
        return {
            "iterations": self.iterations,
            "links": len(self.gold),
            "seconds": time.perf_counter() - self.began,
            "division_seconds": self.dividing,
            "solving_seconds": self.solving,
            "subtask_seconds": self.solving / subtasks,
            "memory_mib": _peak_memory(self.device) / (1 << 20),
            "device": _name(self.device),
        }


def _peak_memory(device: str) -> int:
    """Bytes: on a GPU of this run's tensors, on the CPU of this process so far."""
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _name(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return device
