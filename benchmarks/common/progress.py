"""Lines of progress."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Print a line of progress to standard error; standard output is for the record."""
    print(text, file=sys.stderr, flush=True)
