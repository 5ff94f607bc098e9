"""One process at a time in a run directory."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from divea.errors import InputError
from divea.io import reported
from divea.runs.layout import LOCK


class Lock:
    """Held until it is closed, or until the process ends in any way: the system releases it."""

    def __init__(self, folder: Path):
        self.folder = folder
        with reported(folder):
            self._file = (folder / LOCK).open("ab")
        for pause in (0.2, 0.2, 0):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(pause)  # `is_locked` of another process may hold it for an instant
        self._file.close()
        raise InputError("another process is working on this run", path=folder)

    def check(self) -> None:
        """Raise InputError if the run directory was removed or replaced."""
        try:
            is_ours = os.path.samestat(os.fstat(self._file.fileno()), (self.folder / LOCK).stat())
        except OSError:
            is_ours = False
        if not is_ours:
            raise InputError("the run directory was removed or replaced during the run", path=self.folder)

    def close(self) -> None:
        """Release the lock."""
        self._file.close()


def is_locked(folder: Path) -> bool:
    """Whether a process is working on a run."""
    try:
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
