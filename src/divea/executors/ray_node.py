"""What a node of a Ray cluster does: it solves jobs, and applies functions to pieces of ranked lists."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from divea.executors.attempt import attempt
from divea.executors.base import Done, Failed, FailureKind
from divea.executors.job import Job
from divea.graphs import AlignmentTask
from divea.graphs.storage import Fingerprint, fingerprint, open_stored

KILL_SECONDS = 10.0
"""Time between the timeout of a job that Python cannot interrupt and the end of its worker."""


@dataclass(frozen=True)
class Order:
    """What a node is sent along with a job."""

    folder: Path
    fingerprint: Fingerprint
    position: int
    timeout: float | None
    in_pieces: bool
    results_folder: Path | None


def call_on_node(folder: Path, expected: Fingerprint, function: bytes, item: bytes) -> tuple[Any] | None:
    """Apply a function on a node; None if the node does not see the run directory.

    Ray itself sends Python objects between its processes as pickles; nothing is unpickled from a disk.
    """
    if fingerprint(folder) != expected:
        return None
    return (pickle.loads(function)(pickle.loads(item)),)  # noqa: S301


def run_on_node(order: Order, job: Job, graphs: list[Any]) -> Done | Failed | None:
    """Run a job on a node; None if the node does not see the graphs."""
    try:
        with _time_limit(order.timeout):
            sees_run = fingerprint(order.folder) == order.fingerprint
            if graphs:
                import ray

                task: AlignmentTask = ray.get(graphs[0])
            elif sees_run:
                task = open_stored(order.folder).task
            else:
                return None
            results_folder = order.results_folder if sees_run else None
            return attempt(
                task, order.position, job, in_pieces=order.in_pieces, results_folder=results_folder
            )
    except _TimeIsUp:
        kind = FailureKind.TIMEOUT
        reason = f"{kind}: the job took longer than {order.timeout:g} s"
        return Failed(order.position, kind, reason, f"{reason}\n{traceback.format_exc()}")


class _TimeIsUp(BaseException):
    """A job has reached its timeout; not an Exception, so that nothing on the way handles it."""


def _raise_time_is_up(number: int, frame: FrameType | None) -> NoReturn:
    raise _TimeIsUp


_WATCHDOG = """
import os, select, sys
if not select.select([0], [], [], float(sys.argv[1]))[0]:
    os.kill(int(sys.argv[2]), 9)
"""
"""A program that kills a process unless its standard input closes in time."""


@contextmanager
def _time_limit(seconds: float | None) -> Iterator[None]:
    """Raise `_TimeIsUp` within the block when the time is up.

    Another process kills this one a little later, in case it is stopped or hangs in a library.
    """
    if seconds is None:
        yield
        return
    command = [sys.executable, "-S", "-c", _WATCHDOG, str(seconds + KILL_SECONDS), str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE):
        before = signal.signal(signal.SIGALRM, _raise_time_is_up)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
