"""What runs in a worker process of the local executor."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from divea.graphs import AlignmentTask
from divea.graphs.storage import load_task


def main(descriptor: int, number: int) -> None:
    """Do the jobs that come through the pipe until it is closed."""
    # Ctrl-C goes to the whole group: the parent hears it too, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    faulthandler.enable()
    from divea.run.executors.attempt import attempt  # takes seconds, which are no job's

    connection = Connection(descriptor)
    opened: tuple[Path, AlignmentTask] | None = None
    while True:
        try:
            position, folder, job, timeout, in_pieces = connection.recv()
        except EOFError:
            return
        # What is printed from here on, by a library in the face of death, is the log of the job.
        os.ftruncate(sys.stdout.fileno(), 0)
        with watched(timeout):
            if job.device != "cpu":
                _take_gpu(number)
            if opened is None or opened[0] != folder:
                opened = folder, load_task(folder)
            result = attempt(opened[1], position, job, in_pieces=in_pieces)
        connection.send(result)


@contextmanager
def watched(timeout: float | None) -> Iterator[None]:
    """Ends the process, with the place where it hangs on stderr, if it stays within for too long."""
    if timeout is not None:
        # This watch does not need the interpreter's lock, which a hung library may hold.
        faulthandler.dump_traceback_later(timeout, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _take_gpu(number: int) -> None:
    import torch

    torch.cuda.set_device(number % torch.cuda.device_count())


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
