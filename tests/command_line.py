"""Runs the `divea` command as a user would, in this process."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest.mock import patch

from divea.cli.app import main


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def divea(*arguments: object) -> Ended:
    out, err = io.StringIO(), io.StringIO()
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
    return Ended(code, out.getvalue(), err.getvalue())
