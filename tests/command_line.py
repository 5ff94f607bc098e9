"""Runs the `divea` command as a user would, in this process or in a fresh one."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from unittest.mock import patch

from divea.cli.app import main


@dataclass(frozen=True)
class Ended:
    """The exit code of a command, and what it printed."""

    code: int
    out: str
    err: str
    shown: str
    """Both streams in the order of writing, as a terminal shows them."""


class Stream(io.StringIO):
    """Keeps what is written, and writes it to another stream as well."""

    def __init__(self, other: io.StringIO):
        super().__init__()
        self._other = other

    def write(self, text: str) -> int:
        self._other.write(text)
        return super().write(text)


def divea(*arguments: object) -> Ended:
    """Run the command in this process."""
    shown = io.StringIO()
    out, err = Stream(shown), Stream(shown)
    code = 0
    with (
        patch.object(sys, "argv", ["divea", *map(str, arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = 0 if end.code is None else int(end.code)
    return Ended(code, out.getvalue(), err.getvalue(), shown.getvalue())


def python(code: str) -> str:
    """What a fresh Python process prints when it runs this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def imported_by(arguments: Iterable[object], modules: Iterable[str]) -> tuple[int, list[str]]:
    """The exit code of the command in a fresh process, and which of these modules it imported."""
    code = f"""
import contextlib, io, json, sys
from divea.cli.app import main

sys.argv = {["divea", *map(str, arguments)]!r}
code = 0
with contextlib.redirect_stdout(io.StringIO()):
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
print(json.dumps([code, [name for name in {list(modules)!r} if name in sys.modules]]))
"""
    exit_code, imported = json.loads(python(code))
    return exit_code, imported
