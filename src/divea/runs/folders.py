"""Replaces the task folder or a division of a run, and leaves the files in it that divea did not write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from divea.errors import InputError
from divea.io import reported, sync, temporary_path
from divea.runs.layout import files_of


def replace_folder(
    run: Path, folder: str, write: Callable[[Path], None], before: Callable[[Path], None] | None = None
) -> None:
    """Write the task folder or a division of a run again, and leave files in it that divea did not write.

    Parameters
    ----------
    write
        Writes the new folder, beside the old one.
    before
        Called with the new folder before it takes the place of the old one.
    """
    final = run / folder
    new = temporary_path(final)
    try:
        with reported(final, new):
            write(new)
            if before is not None:
                before(new)
            if final.exists() or final.is_symlink():
                _refuse_links(final)
                for path in files_of(final, folder):
                    path.unlink()
                _move_into(new, final)
            else:
                new.rename(final)
            sync(final.parent)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _move_into(new: Path, final: Path) -> None:
    """Move all files of a folder to the same places in another one."""
    _refuse_links(final)
    for path in sorted(new.iterdir()):
        if path.is_dir():
            (final / path.name).mkdir(exist_ok=True)
            _move_into(path, final / path.name)
        else:
            path.replace(final / path.name)
    sync(final)


def _refuse_links(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        raise InputError("is no folder of this run; move it away", path=folder)
