"""The log of a run: one JSON line per event, with its time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from divea.io import append_line, read_lines
from divea.runs.layout import LOG

Listener = Callable[..., None]
"""Called with the name of an event and its facts: `listener("solved", iteration=0, subtasks=[3])`."""


class Log:
    """Appends events to RUN/log.jsonl, and passes them on to a listener."""

    def __init__(self, folder: Path, listener: Listener | None = None):
        self._path = folder / LOG
        self._listener = listener

    def __call__(self, event: str, **facts: Any) -> None:
        append_line(self._path, {"time": round(time.time(), 3), "event": event, **facts}, durable=False)
        if self._listener is not None:
            self._listener(event, **facts)

    def pass_on(self, event: str, **facts: Any) -> None:
        """Pass an event on to the listener without writing it: nobody needs it later."""
        if self._listener is not None:
            self._listener(event, **facts)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run; torn or damaged lines are left out."""
    return [line for line in read_lines(folder / LOG) if isinstance(line.get("event"), str)]
