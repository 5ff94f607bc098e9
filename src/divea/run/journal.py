"""The journal of a run: one line for each file that was committed, with its checksum.

A file counts when its line is there and its bytes have the checksum that the line says; whatever else lies
in the folder does not. Lines are only ever appended, and flushed to the disk one by one. A line that was cut
off, or damaged, is no line: what it stood for is done again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from divea.atomic import reported

NAME = "journal.jsonl"


@dataclass(frozen=True)
class Entry:
    """A committed file."""

    file: str
    """Its path in the run directory, as divea names it; never used to open anything."""
    checksum: str
    made_from: str
    """Checksum of all that it was made from: a result is only good for the job that it is of."""


class Journal:
    """The lines of a journal, and the place to append to."""

    def __init__(self, folder: Path):
        self.path = folder / NAME
        self.entries = {entry.file: entry for entry in read_journal(folder)}

    def mend(self) -> None:
        """Cut off what a crash left of a last line, so that the next line starts on its own."""
        with reported(self.path):
            if not self.path.exists():
                return
            text = self.path.read_bytes()
            if not text.endswith(b"\n"):
                os.truncate(self.path, text.rfind(b"\n") + 1)

    def append(self, entry: Entry) -> None:
        """Add a line, on the disk when this returns."""
        with reported(self.path), self.path.open("ab") as file:
            file.write(json.dumps(asdict(entry)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self.entries[entry.file] = entry


def read_journal(folder: Path) -> list[Entry]:
    """The sound lines of a folder's journal; none where there is none."""
    try:
        text = (folder / NAME).read_bytes()
    except OSError:
        return []
    entries = (_entry(line) for line in text.split(b"\n")[:-1])
    return [entry for entry in entries if entry is not None]


def _entry(line: bytes) -> Entry | None:
    try:
        entry = Entry(**json.loads(line))
    except (ValueError, TypeError):
        return None
    return entry if all(isinstance(value, str) for value in asdict(entry).values()) else None
