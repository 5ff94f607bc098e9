"""The log of a run: one JSON line for each thing that happened, with its time."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from divea.atomic import reported

NAME = "log.jsonl"

Tell = Callable[..., None]
"""Called with the name of an event and facts about it, as `tell("subtask", iteration=0, subtask=3)`."""


class Log:
    """Appends events to RUN/log.jsonl, and passes them on to whoever else listens."""

    def __init__(self, folder: Path, listener: Tell | None = None):
        self._path = folder / NAME
        self._listener = listener

    def __call__(self, event: str, **facts: Any) -> None:
        line = json.dumps({"time": round(time.time(), 3), "event": event, **facts})
        with reported(self._path), self._path.open("a") as file:
            file.write(line + "\n")
        if self._listener is not None:
            self._listener(event, **facts)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The events of a run, those of a torn or damaged line left out."""
    try:
        lines = (folder / NAME).read_bytes().split(b"\n")
    except OSError:
        return []
    events = (_event(line) for line in lines)
    return [event for event in events if event is not None]


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
