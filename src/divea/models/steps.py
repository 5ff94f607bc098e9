"""Reports from inside a model: how many of its training steps are done, for displays of progress.

A report changes nothing about the result. Without `reporting` around it, a report goes nowhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

REPORT_SECONDS = 1.0
"""Time between two reports, and before the first one; steps in between are not reported."""

Report = Callable[[int, int], None]
"""Called with the number of steps that are done, and the number of all steps."""

_current: ContextVar[Report | None] = ContextVar("report", default=None)


@contextmanager
def reporting(report: Report | None) -> Iterator[None]:
    """Have models within the block report their steps, about once a second; None for no reports.

    Examples
    --------
    >>> with reporting(lambda step, steps: print(f"{step} of {steps}")):
    ...     report_step(1, 2)  # too early for a report
    ...     time.sleep(REPORT_SECONDS)
    ...     report_step(2, 2)
    2 of 2
    """
    before = _current.set(None if report is None else _limited(report))
    try:
        yield
    finally:
        _current.reset(before)


def report_step(step: int, steps: int) -> None:
    """Report that `step` of `steps` training steps are done."""
    report = _current.get()
    if report is not None:
        report(step, steps)


def _limited(report: Report) -> Report:
    due = time.monotonic() + REPORT_SECONDS

    def limited(step: int, steps: int) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + REPORT_SECONDS
            report(step, steps)

    return limited
