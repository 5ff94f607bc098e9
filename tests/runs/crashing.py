"""A process with everything loaded that runs `divea` in children, which can be killed at any moment.

A child starts in milliseconds, so hundreds of crashes fit into a test. Orders arrive as JSON lines on stdin:
{"arguments": [...], "at": n, "how": "before" | "torn" | "line" | "after"} kills the child's process group at
its n-th journal line: before it is written, in the middle of it, after it, or after the file that it names is
in its place. {"arguments": [...], "after": seconds} kills it after a time. {"arguments": [...], "below":
folder, "call": n, "error": number, "mode": 1 | 2 | 3} has the n-th system call fail that writes below a
folder (see bad_disk.c). {"arguments": [...]} lets it end.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

NOT_FIRED = 77
"""Exit code of a child that made fewer calls than the one that should fail."""


class Crasher:
    """The process, as a test uses it."""

    def __init__(self, library: Path | None = None) -> None:
        """With the library that `bad_disk.c` is compiled to, system calls can fail."""
        preload = {} if library is None else {"LD_PRELOAD": str(library)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.runs.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **preload},
        )

    def __call__(self, arguments: list[object], **when: object) -> int:
        """Run a command, and return its exit code or minus the signal that ended it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"arguments": [str(a) for a in arguments], **when}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.stdin.close()  # type: ignore[union-attr]
        self._process.wait()


def _kill_own_group() -> None:
    os.killpg(0, signal.SIGKILL)
    time.sleep(60)


def _die_at_line(number: int, how: str) -> None:
    from divea.runs.directory import RunDirectory
    from divea.runs.journal import Entry, Journal

    append = Journal.append
    lines = 0

    def append_and_die(self: Journal, entry: Entry) -> None:
        nonlocal lines
        lines += 1
        if lines == number and how == "torn":
            with self.path.open("ab") as file:
                file.write(json.dumps({"file": entry.file}).encode()[:-5])
        if lines == number and how in ("before", "torn"):
            _kill_own_group()
        append(self, entry)
        if lines == number and how == "line":
            _kill_own_group()

    def dying(commit: Callable[..., None]) -> Callable[..., None]:
        def commit_and_die(*arguments: Any) -> None:
            commit(*arguments)
            if lines == number:
                _kill_own_group()

        return commit_and_die

    Journal.append = append_and_die  # type: ignore[method-assign]
    for name in ("commit", "commit_division"):
        setattr(RunDirectory, name, dying(getattr(RunDirectory, name)))


def _arm_bad_disk(below: str, call: int, error: int, mode: int) -> None:
    ctypes.CDLL(None).bad_disk_arm(below.encode(), ctypes.c_long(call), error, mode)


def _run_child(order: dict[str, Any]) -> None:
    from divea.cli.app import main

    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    if "at" in order:
        _die_at_line(order["at"], order["how"])
    if "call" in order:
        _arm_bad_disk(order["below"], order["call"], order["error"], order["mode"])
    sys.argv = ["divea", *order["arguments"]]
    code = 1
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        if "call" in order and not ctypes.CDLL(None).bad_disk_fired():
            code = NOT_FIRED
        os._exit(code)


def _serve() -> None:
    # Only loaded and not used: a process that has run threads cannot be forked safely.
    for module in (
        "divea.cli.app",
        "divea.runs.progress",
        "divea.division.divea",
        "divea.executors.inline",
        "divea.features.attributes",
        "divea.formats",
        "divea.models.label_propagation",
        "divea.runs.align",
        "pandas",  # pyarrow imports it where it is installed
        "pymetis",
        "scipy.optimize",
        "sparse_dot_topn",
    ):
        with suppress(ImportError):
            import_module(module)
    if "LD_PRELOAD" not in os.environ:
        os.fsync = lambda handle: None  # as in conftest.py
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            _run_child(order)
        if "after" in order:
            threading.Timer(order["after"], _kill_group, [child]).start()
        _, status = os.waitpid(child, 0)
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        print(code, flush=True)


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _serve()
