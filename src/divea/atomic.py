"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from divea.errors import InputError


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
    with _reported(final):
        aside.mkdir(parents=True)
    try:
        with _reported(final):
            yield aside
            _flush(aside)
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
        with _reported(final):
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


@contextmanager
def _reported(final: Path) -> Iterator[None]:
    """Disk full, permission denied and the like are the user's to mend: say them in one line."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=final) from error


def _flush(path: Path) -> None:
    """Force a file, or a folder and the files in it, to the disk."""
    for item in [path, *(path.rglob("*") if path.is_dir() else [])]:
        handle = os.open(item, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
