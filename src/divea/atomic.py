"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from divea.errors import InputError

FLUSHED_TOGETHER = 8
"""Files forced to the disk at a time: 1,800 files of 220 kB take .35 s so, and .75 s one by one."""


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Fill a folder aside and move it into place when the block ends without an error.

    A folder that already holds something is refused: we never mix with, or delete, what is not
    ours.
    """
    final = Path(path)
    if final.exists() and (not final.is_dir() or any(final.iterdir())):
        raise InputError("exists already and is not empty; name a new folder", path=final)
    aside = _aside(final)
    with reported(final):
        aside.mkdir(parents=True)
    try:
        with reported(final):
            yield aside
            with ThreadPoolExecutor(FLUSHED_TOGETHER) as pool:
                list(pool.map(_flush, [aside, *aside.rglob("*")]))
            aside.rename(final)
            _flush(final.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def new_file(path: str | Path) -> Iterator[Path]:
    """Write a file aside and move it into place when the block ends without an error."""
    final = Path(path)
    if final.is_dir():
        raise InputError("is a folder; name a file to write", path=final)
    aside = _aside(final)
    try:
        with reported(final):
            final.parent.mkdir(parents=True, exist_ok=True)
            yield aside
            _flush(aside)
            aside.replace(final)
            _flush(final.parent)
    except BaseException:
        with suppress(OSError):
            aside.unlink()
        raise


def _aside(final: Path) -> Path:
    # The suffixes stay last: writers choose compression and format by them.
    return final.with_name(f".{os.getpid()}.partial.{final.name}")


def sweep(folder: Path) -> None:
    """Remove what processes that were killed left aside; nobody may be at work in the folder."""
    for path in sorted(folder.rglob(".*.partial.*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextmanager
def reported(final: Path) -> Iterator[None]:
    """Disk full, permission denied and the like are the user's to mend: say them in one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=final) from error


def _flush(path: Path) -> None:
    """Force a file, or the list of a folder's files, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
