"""The lock of a run directory, in which only one process works at a time."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from divea.errors import InputError
from divea.io import open_to_write, reported, require_regular
from divea.runs.layout import LOCK, SIGNATURE


class Lock:
    """A lock that is held until it is closed, or until the process ends: the system then releases it.

    Parameters
    ----------
    shared
        Whether other processes may hold it too, as long as all of them only read.
    """

    def __init__(self, folder: Path, *, shared: bool = False):
        self.folder = folder
        self._kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        with reported(folder / LOCK):
            self._file = os.fdopen(open_to_write(folder / LOCK, os.O_RDWR | os.O_CREAT), "r+b", buffering=0)
        try:
            self._acquire()
            if not shared:
                self._sign()
        except BaseException:
            self._file.close()
            raise

    def _acquire(self) -> None:
        for pause in (0.2, 0.2, 0):
            try:
                fcntl.flock(self._file, self._kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(pause)  # `is_locked` of another process may hold it for an instant
            except OSError as error:
                without = error.errno in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
                what = "this file system has no locks, which a run needs" if without else "cannot be locked"
                raise InputError(f"{what} ({error.strerror})", path=self.folder / LOCK) from error
        raise InputError("another process is working on this run", path=self.folder)

    def _sign(self) -> None:
        """Write the signature if it is missing or damaged."""
        with reported(self.folder / LOCK):
            if self._file.read() != SIGNATURE:
                self._file.seek(0)
                self._file.write(SIGNATURE)
                self._file.truncate()
                os.fsync(self._file.fileno())

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
        require_regular(folder / LOCK)
        with (folder / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, InputError):
        return False
    return False
