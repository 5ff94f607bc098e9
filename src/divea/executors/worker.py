"""What a worker process of the local executor does, and how a process ends together with its parent."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from divea.graphs.storage import open_stored
from divea.resources.limits import return_all_freed

if TYPE_CHECKING:
    from divea.executors.base import Steps
    from divea.executors.job import Job, Rehearsal

IDLE_SECONDS = 0.5
"""After this time without an order, a worker returns freed memory to the system."""

SHOW_AND_END = signal.SIGUSR1
"""The signal that makes a worker write its traceback to its log and end."""


@dataclass(frozen=True)
class JobOrder:
    """A job to be solved. The answer is `Done` or `Failed`; `Steps` may come before it."""

    position: int
    """The job's position among those given to the executor."""
    folder: Path
    """The folder of the task."""
    job: Job
    in_pieces: bool
    results_folder: Path | None


@dataclass(frozen=True)
class Call:
    """An item to be passed to a function; the answer is `Mapped`."""

    position: int
    function: Callable[[Any], object] | None
    """None for the function of the call before."""
    item: object


@dataclass(frozen=True)
class RehearsalOrder:
    """What to do while there is no job. There is no answer, and it does not matter if it fails."""

    folder: Path
    """The folder of the task, which is opened."""
    rehearsal: Rehearsal | None
    """None for a worker that will get function calls alone."""


@dataclass(frozen=True)
class Mapped:
    """What a function returned for an item, or the exception that it raised."""

    position: int
    value: Any
    error: Exception | None = None


def serve(descriptor: int, number: int) -> None:
    """Run the jobs and function calls that arrive through a socket, until it closes.

    Parameters
    ----------
    descriptor
        The descriptor of the socket.
    number
        The number of the worker, which decides its GPU.
    """
    end_with_parent()
    faulthandler.enable()
    # This handler does not need the interpreter's lock, which a hanging library may hold.
    faulthandler.register(SHOW_AND_END, chain=True)
    from divea.executors.attempt import attempt  # the parent of this process has loaded it

    connection = Connection(descriptor)

    def send_steps(steps: Steps) -> None:
        # A parent that does not read must not delay the job.
        if select.select([], [connection], [], 0)[1]:
            with suppress(OSError):
                connection.send(steps)

    function: Callable[[Any], object] | None = None
    connection.send(None)  # ready
    while True:
        if not connection.poll(IDLE_SECONDS):
            return_all_freed()
        try:
            order: JobOrder | Call | RehearsalOrder = connection.recv()
        except EOFError:
            return
        # Output from here on belongs to this order's log.
        os.ftruncate(sys.stdout.fileno(), 0)
        if isinstance(order, RehearsalOrder):
            with suppress(Exception):  # the first job will show what is wrong
                open_stored(order.folder)
                if order.rehearsal is not None:
                    if order.rehearsal.device != "cpu":
                        _use_gpu(number)
                    order.rehearsal()
            continue
        if isinstance(order, Call):
            function = order.function or function
            assert function is not None
            connection.send(_called(order.position, function, order.item))
            continue
        if order.job.device != "cpu":
            _use_gpu(number)
        result = attempt(
            open_stored(order.folder.resolve()).task,
            order.position,
            order.job,
            in_pieces=order.in_pieces,
            on_steps=send_steps,
            results_folder=order.results_folder,
        )
        connection.send(result)


def _called(position: int, function: Callable[[Any], object], item: object) -> Mapped:
    try:
        return Mapped(position, function(item))
    except Exception as error:
        return Mapped(position, None, _sendable(error))


def _sendable(error: Exception) -> Exception:
    """The error, or its text if it cannot be sent to another process."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (the parent does the same)
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


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
