"""Runs cells in parallel processes and keeps each finished one, so that a stopped run goes on.

`cells.jsonl` has one line per finished cell, on disk before the next is counted as done. A line that a
crash cut short is left out, and its cell runs again.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Any

from divea.errors import InputError
from divea.reproduce.cell import Cell

Records = dict[str, dict[str, Any]]
"""Key of a cell -> what was measured."""


def load(path: Path) -> Records:
    """The finished cells; the last record of a key counts."""
    found: Records = {}
    if not path.exists():
        return found
    for line in path.read_bytes().splitlines():
        try:
            record = json.loads(line)
            found[Cell(**record["cell"]).key] = record
        except (ValueError, TypeError, KeyError):
            continue
    return found


def run_cells(
    cells: Sequence[Cell],
    path: Path,
    *,
    data: Path,
    device: str,
    jobs: int,
    say: Callable[[Cell, dict[str, Any]], None],
) -> tuple[Records, list[str]]:
    """Run the cells that are not on file yet; the records of all, and what failed.

    A cell that fails leaves the others alone, and is tried again by the next run.
    """
    records = load(path)
    missing = list({cell.key: cell for cell in cells if cell.key not in records}.values())
    failures: list[str] = []
    if not missing:
        return records, failures
    threads = max(1, (os.cpu_count() or 1) // jobs)
    context = multiprocessing.get_context("spawn")
    with (
        _open_at_line_start(path) as log,
        ProcessPoolExecutor(jobs, mp_context=context, initializer=_start, initargs=(threads,)) as pool,
    ):
        running = {pool.submit(_measure, cell, data, device): cell for cell in missing}
        try:
            for done in as_completed(running):
                cell = running[done]
                try:
                    measured = done.result()
                except BrokenProcessPool:
                    raise InputError(
                        "a worker process ended, perhaps for want of memory; finished cells are kept: "
                        "give the same command again, with fewer --jobs"
                    ) from None
                except Exception as error:
                    failures.append(f"{cell}: {type(error).__name__}: {error}")
                    continue
                record = {"cell": asdict(cell), "jobs": jobs, **measured}
                log.write((json.dumps(record) + "\n").encode())
                log.flush()
                os.fsync(log.fileno())
                records[cell.key] = record
                say(cell, record)
        except BaseException:
            # Whatever stops us here, Ctrl-C above all, is not to wait for cells that run for minutes.
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise
    return records, failures


def _open_at_line_start(path: Path) -> Any:
    """The file to append to, after a line that was cut short is ended."""
    path.parent.mkdir(parents=True, exist_ok=True)
    log = path.open("ab+")
    if log.tell():
        log.seek(-1, os.SEEK_END)
        if log.read(1) != b"\n":
            log.write(b"\n")
    return log


def _start(threads: int) -> None:
    """In a new worker: its share of the cores, and no life beyond its parent's.

    Ctrl-C reaches workers too; what they were doing is the parent's to say, without their tracebacks.
    """
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)

    torch.set_num_threads(threads)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent.join()
    os._exit(1)


def _measure(cell: Cell, data: Path, device: str) -> dict[str, Any]:
    from divea.reproduce.measure import measure

    return measure(cell, data, device)
