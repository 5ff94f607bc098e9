"""Opens run directories: a new run, one to continue, or one that another run takes results from."""

from __future__ import annotations

from pathlib import Path

from divea.errors import InputError
from divea.graphs import AlignmentTask, load_task, save_task
from divea.io import is_temporary, reported
from divea.runs.checksums import REJECTED, task_checksums
from divea.runs.directory import RunDirectory
from divea.runs.folders import replace_folder
from divea.runs.layout import LOCK, SIGNATURE, TASK, is_run
from divea.runs.lock import Lock
from divea.runs.manifest import Manifest, stored_manifest


def open_run(path: Path, task: AlignmentTask, wanted: Manifest) -> RunDirectory:
    """Start a run, or continue one. A run with another manifest is refused, and the error says what differs.

    Parameters
    ----------
    wanted
        The manifest that the run should have.
    """
    _refuse_other_folders(path)
    with reported(path):
        path.mkdir(parents=True, exist_ok=True)
    lock = Lock(path)
    try:
        # Another process may have written the manifest before this one got the lock.
        manifest = _agreed_manifest(path, wanted, stored_manifest(path))
        _keep_task(path, task, manifest)
        run = RunDirectory(path, lock, manifest)
        run.sweep()
        run.repair()
        return run
    except BaseException:
        lock.close()
        raise


def open_to_read(path: Path) -> RunDirectory:
    """Open an existing run that another one takes results from. Meanwhile, no process may change it."""
    manifest = Manifest.load(path)
    lock = Lock(path, shared=True)
    try:
        return RunDirectory(path, lock, manifest)
    except BaseException:
        lock.close()
        raise


def _refuse_other_folders(path: Path) -> None:
    """Raise InputError if the path exists and is neither a run nor an empty folder."""
    with reported(path):
        if not path.exists() and not path.is_symlink():
            return
        if not path.is_dir():
            raise InputError("is a file; a run is a folder", path=path)
        is_empty = all(_is_left_by_start(item) for item in path.iterdir())
    if not is_empty and not is_run(path):
        raise InputError("exists already, is not empty and is no run of divea; name a new folder", path=path)


def _is_left_by_start(path: Path) -> bool:
    """Whether a run that was killed while it started may have left this file."""
    if path.name == LOCK and path.is_file():
        return path.stat().st_size <= len(SIGNATURE) and SIGNATURE.startswith(path.read_bytes())
    return is_temporary(path.name)


def read_stored_task(run: Path, manifest: Manifest) -> AlignmentTask:
    """The task that a run holds. Raises InputError if it is not the task of the manifest."""
    try:
        task = load_task(run / TASK)
        found = task_checksums(task)
        # The manifest also has the checksums of files that features read.
        is_valid = found.items() <= manifest.task.items() and (REJECTED in found) == (
            REJECTED in manifest.task
        )
    except InputError:
        is_valid = False
    if not is_valid:
        raise InputError("is damaged; name the task again to repair it", path=run / TASK)
    return task


def _agreed_manifest(path: Path, wanted: Manifest, stored: Manifest | None) -> Manifest:
    """The run's manifest, which must be the wanted one; a missing or damaged one is written again."""
    if stored is None:
        # The journal says what each result was made from, so none of another manifest is used.
        wanted.save(path)
        return wanted
    differences = list(stored.differences(wanted))
    if differences:
        is_same_task = stored.differs_in_settings_only(wanted)
        what = "is a run with other settings" if is_same_task else "is a run of something else"
        raise InputError(
            f"{what} ({'; '.join(differences)}); name another folder to start a new run", path=path
        )
    return stored


def _keep_task(run: Path, task: AlignmentTask, manifest: Manifest) -> None:
    """Make sure that the run holds the task: save it again if it is missing or damaged."""
    try:
        read_stored_task(run, manifest)
    except InputError:
        replace_folder(run, TASK, lambda new: save_task(task, new))
