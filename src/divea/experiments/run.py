"""Runs cells in parallel processes. Each cell is a run directory, so a stopped experiment continues."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from divea.errors import InputError
from divea.executors.worker import end_with_parent_process
from divea.experiments.cell import Cell
from divea.experiments.run_cell import read_metrics, run_cell
from divea.resources.machine import cores
from divea.wording import worded

Metrics = dict[str, dict[str, Any]]
"""Key of a cell -> its figures."""


def run_folder(out: Path, cell: Cell) -> Path:
    """The run directory of a cell."""
    return out / "runs" / cell.key


def finished_cells(cells: Sequence[Cell], out: Path) -> Metrics:
    """The figures of the cells that are finished."""
    found = {cell.key: read_metrics(run_folder(out, cell)) for cell in cells}
    return {key: metrics for key, metrics in found.items() if metrics is not None}


def run_cells(
    cells: Sequence[Cell],
    out: Path,
    *,
    data: Path,
    device: str,
    jobs: int,
    report: Callable[[Cell, dict[str, Any]], None],
) -> tuple[Metrics, list[str]]:
    """Run the cells that are not finished yet; returns the figures of all cells, and what failed.

    A cell that fails does not affect the others, and is tried again by the next call.
    """
    metrics = finished_cells(cells, out)
    missing = list({cell.key: cell for cell in cells if cell.key not in metrics}.values())
    failures: list[str] = []
    if not missing:
        return metrics, failures
    threads = max(1, cores() // jobs)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_start_worker, initargs=(threads,)
    ) as pool:
        running = {
            pool.submit(run_cell, cell, run_folder(out, cell), data=data, device=device, jobs=jobs): cell
            for cell in missing
        }
        try:
            for done in as_completed(running):
                cell = running[done]
                try:
                    metrics[cell.key] = done.result()
                except BrokenProcessPool:
                    again = worded(
                        command="repeat the command with fewer --jobs", python="call again with fewer jobs"
                    )
                    raise InputError(
                        "a worker process ended, perhaps for lack of memory; finished cells are kept: "
                        + again
                    ) from None
                except Exception as error:
                    failures.append(f"{cell}: {type(error).__name__}: {error}")
                    continue
                report(cell, metrics[cell.key])
        except BaseException:
            # Ctrl-C and errors should not wait for cells that run for minutes.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
    return metrics, failures


def _start_worker(threads: int) -> None:
    """In a new worker: limit its threads, and end it when the main process ends."""
    import torch

    # Ctrl-C reaches workers too; the main process handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    end_with_parent_process()
