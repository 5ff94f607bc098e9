"""One process at a time in a run directory."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from divea.atomic import reported
from divea.errors import InputError

NAME = "lock"


class Lock:
    """Held until closed, or until the process ends, however it ends: the system gives it back."""

    def __init__(self, folder: Path):
        self.folder = folder
        with reported(folder):
            self._file = (folder / NAME).open("ab")
        for patience in (0.2, 0.2, 0):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(patience)  # `is_locked` holds it for an instant
        self._file.close()
        raise InputError("another process is at work on this run", path=folder)

    def check(self) -> None:
        """Refuse to go on in a folder that was removed, or put in the place of ours."""
        try:
            ours = os.path.samestat(os.fstat(self._file.fileno()), (self.folder / NAME).stat())
        except OSError:
            ours = False
        if not ours:
            raise InputError("the run directory was removed or replaced while at work", path=self.folder)

    def close(self) -> None:
        """Let others in."""
        self._file.close()


def is_locked(folder: Path) -> bool:
    """Whether a process is at work on a run."""
    try:
        with (folder / NAME).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
