"""A process that has everything loaded and runs `divea` in children that can be killed at will.

A child starts in milliseconds, so hundreds of crashes fit into a test. Orders come as JSON lines on stdin:
{"arguments": [...], "at": n, "how": "before" | "torn" | "after"} kills the child's whole process group at its
n-th journal line; {"arguments": [...], "after": seconds} at a moment; {"arguments": [...]} lets it end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from importlib import import_module
from typing import Any


class Crasher:
    """The process, from the side of a test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.run.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def __call__(self, arguments: list[object], **when: object) -> int:
        """Exit code of the command, or minus the signal that ended it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"arguments": [str(a) for a in arguments], **when}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


def _kill_group() -> None:
    os.killpg(0, signal.SIGKILL)
    time.sleep(60)


def _die_at_line(number: int, how: str) -> None:
    from divea.run import journal

    append = journal.Journal.append
    lines = 0

    def dying(self: journal.Journal, entry: journal.Entry) -> None:
        nonlocal lines
        lines += 1
        if lines == number and how == "torn":
            with self.path.open("ab") as file:
                file.write(json.dumps({"file": entry.file}).encode()[:-5])
        if lines == number and how != "after":
            _kill_group()
        append(self, entry)
        if lines == number:
            _kill_group()

    journal.Journal.append = dying  # type: ignore[method-assign]


def _child(order: dict[str, Any]) -> None:
    from divea.cli.app import main

    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    if "at" in order:
        _die_at_line(order["at"], order["how"])
    sys.argv = ["divea", *order["arguments"]]
    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        os._exit(code)


def _serve() -> None:
    # Loaded, not used: what has run threads does not bear being forked.
    for module in (
        "divea.cli.app",
        "divea.cli.progress",
        "divea.formats",
        "divea.models.label_propagation",
        "divea.run.align",
        "divea.run.executors.inline",
        "pymetis",
        "scipy.optimize",
    ):
        import_module(module)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _child(order)
        if "after" in order:
            threading.Timer(order["after"], _kill, [child]).start()
        _, status = os.waitpid(child, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        print(code, flush=True)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
