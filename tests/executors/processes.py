"""Processes that tests start, watch and kill."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def is_alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_until(has_happened: Callable[[], object], seconds: float = 90) -> None:
    """Wait until the function returns something true, and fail if that takes too long."""
    end = time.monotonic() + seconds
    while not has_happened():
        assert time.monotonic() < end, f"it did not happen within {seconds} s"
        time.sleep(0.02)
