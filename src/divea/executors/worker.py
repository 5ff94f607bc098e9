"""What a worker process of the local executor does, and what ends a process together with its parent."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from divea.graphs import AlignmentTask, load_task

if TYPE_CHECKING:
    from divea.executors.base import Steps

SHOW_AND_END = signal.SIGUSR1
"""The signal after which a worker writes where it is to its log, and ends."""


def run_jobs(descriptor: int, number: int) -> None:
    """Run the jobs that arrive through a socket until it closes.

    Parameters
    ----------
    descriptor
        The descriptor of the socket.
    number
        The number of the worker, which decides its GPU.
    """
    end_with_parent()
    faulthandler.enable()
    # It does not need the interpreter's lock, which a hanging library may hold.
    faulthandler.register(SHOW_AND_END, chain=True)
    from divea.executors.attempt import attempt  # the parent of this process has loaded it

    connection = Connection(descriptor)

    def send_steps(steps: Steps) -> None:
        # A parent that does not read must not delay the job.
        if select.select([], [connection], [], 0)[1]:
            with suppress(OSError):
                connection.send(steps)

    connection.send(None)  # ready
    opened: tuple[Path, AlignmentTask] | None = None
    while True:
        try:
            position, folder, job, in_pieces, results_folder = connection.recv()
        except EOFError:
            return
        # Output from here on belongs to this job's log.
        os.ftruncate(sys.stdout.fileno(), 0)
        if job.device != "cpu":
            _use_gpu(number)
        if opened is None or opened[0] != folder:
            opened = folder, load_task(folder)
        result = attempt(
            opened[1],
            position,
            job,
            in_pieces=in_pieces,
            on_steps=send_steps,
            results_folder=results_folder,
        )
        connection.send(result)


def _use_gpu(number: int) -> None:
    import torch

    torch.cuda.set_device(number % torch.cuda.device_count())


def end_with_parent() -> None:
    """End this process when its standard input closes, which happens when its parent dies."""
    threading.Thread(target=_exit_after, args=(sys.stdin.read,), daemon=True).start()


def end_with_parent_process() -> None:
    """End this process, which multiprocessing started, when its parent dies."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.join,), daemon=True).start()


def _exit_after(wait: Callable[[], object]) -> None:
    wait()
    os._exit(1)
