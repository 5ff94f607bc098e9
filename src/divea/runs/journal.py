"""The journal of a run: one line per committed file, with its checksum.

A file counts if its line is there and its bytes have the checksum of the line; anything else in the folder
does not. Lines are only appended, and each is synced to the disk. A line that was cut off or damaged does
not count, and its file is made again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from divea.io import append_line, cut_torn_line, read_lines
from divea.runs.layout import JOURNAL


@dataclass(frozen=True)
class Entry:
    """A committed file."""

    file: str
    """Its path in the run directory; a file is opened only if divea itself gives such a name."""
    checksum: str
    made_from: str
    """A checksum of everything that the file was made from: a result is valid for its own job only."""


class Journal:
    """The lines of a journal, and the place to append to."""

    def __init__(self, folder: Path):
        self.path = folder / JOURNAL
        self.entries = {entry.file: entry for entry in read_journal(folder)}

    def repair(self) -> None:
        """Remove what a crash left of the last line."""
        cut_torn_line(self.path)

    def append(self, entry: Entry) -> None:
        """Add a line; it is on the disk when this returns."""
        append_line(self.path, asdict(entry), durable=True)
        self.entries[entry.file] = entry


def read_journal(folder: Path) -> list[Entry]:
    """The valid lines of a folder's journal; an empty list if there is none."""
    entries = (_entry(line) for line in read_lines(folder / JOURNAL))
    return [entry for entry in entries if entry is not None]


def _entry(line: dict[str, Any]) -> Entry | None:
    try:
        entry = Entry(**line)
    except TypeError:
        return None
    return entry if all(isinstance(value, str) for value in line.values()) else None
