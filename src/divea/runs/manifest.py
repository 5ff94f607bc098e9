"""The manifest of a run: everything that decides its result, so that it can be continued or repeated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from divea.config import Settings
from divea.config.group import Group, flattened
from divea.errors import InputError
from divea.io import checksum, new_file, require_regular
from divea.runs.layout import FORMAT, MANIFEST


class Manifest(Group):
    """Everything that decides the result of a run.

    Runs whose manifests are equal, except for folders and `stages`, give the same tables.
    """

    settings: Settings
    """The effective settings. `division.delta1` may be null: the first division chooses it, and logs it."""
    device: Literal["cpu", "cuda"]
    threads: int = Field(ge=1)
    """Threads of torch in a job. With another number of threads, sums differ in the last bits."""
    memory: int | None = Field(ge=1)
    """Bytes that a job may take; None for no limit. It decides the size of batches and blocks."""
    subtasks_per_job: int | None = Field(default=None, ge=1)
    """The most subtasks that a GPU solves together; None for as many as fit."""
    task: dict[str, str]
    """Checksums of the parts of the task."""
    versions: dict[str, str]
    """Versions of the libraries that affect results."""
    processors: list[str] = Field(min_length=1)
    """The kinds of processors that the run was computed on, in order."""
    folder: str | None = None
    """The task folder as the user named it. It explains ids in a gold file, and affects no result."""
    refines: str | None = None
    """The identity of the run that this one refines, if it does."""
    folder_before: str | None = None
    """The folder of that run. It affects no result."""
    stages: list[dict[str, Any]] = Field(default_factory=list)
    """Wall time and peak memory of each stage."""

    def save(self, run: Path) -> None:
        """Write into a run directory, complete or not at all."""
        content = {**FORMAT, **self.plain(), "settings": self.settings.plain()}
        with new_file(run / MANIFEST) as temporary:
            temporary.write_text(json.dumps({"checksum": _checksum(content), **content}, indent=2) + "\n")

    @classmethod
    def load(cls, run: Path) -> Manifest:
        """Read and check the manifest of a run."""
        path = run / MANIFEST
        content = _read(path)
        if content is None:
            if not run.exists():
                raise InputError("no such folder", path=run)
            exists = path.exists()
            raise InputError("is damaged" if exists else "is no run of divea", path=path if exists else run)
        found = {key: content.pop(key, None) for key in FORMAT}
        if found != FORMAT:
            raise InputError(f"has format {found}, and this release reads {FORMAT}", path=path)
        try:
            manifest: Manifest = cls.checked(content, allow_unused=True)
        except InputError as error:
            raise InputError(f"is no manifest of this release ({error})", path=path) from None
        return manifest

    def differences(self, other: Manifest) -> Iterator[str]:
        """The differences from another manifest, one phrase each."""
        ours, theirs = self._compared(), other._compared()
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name):
                if name in {**self.task, **other.task}:
                    yield f"the {name}"
                else:
                    yield f"{name} {ours.get(name)!r}, now {theirs.get(name)!r}"

    def differs_in_settings_only(self, other: Manifest) -> bool:
        """Whether another manifest differs in settings only, so that it has the same task and device."""
        ours, theirs = self._compared(), other._compared()
        paths = {*flattened(self.settings.plain()), *flattened(other.settings.plain())} - {*self.task}
        return all(name in paths or ours.get(name) == theirs.get(name) for name in {**ours, **theirs})

    @property
    def identity(self) -> str:
        """A checksum of everything that decides the result."""
        return checksum(json.dumps(self._compared(), sort_keys=True))

    def _compared(self) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "device": self.device,
            "threads": self.threads,
            "memory": self.memory,
            "subtasks_per_job": self.subtasks_per_job,
        }
        if self.refines is not None:
            plain["the run before"] = self.refines
        return {**flattened(self.settings.plain()), **plain, **self.versions, **self.task}


def stored_manifest(run: Path) -> Manifest | None:
    """The manifest of a run; None if there is none, or a damaged one."""
    return None if _read(run / MANIFEST) is None else Manifest.load(run)


def library_versions() -> dict[str, str]:
    """Versions of the libraries that affect results: another release may round differently."""
    from importlib.metadata import version

    import divea

    return {"divea": divea.__version__, **{name: version(name) for name in ("torch", "numpy", "scipy")}}


def _read(path: Path) -> dict[str, Any] | None:
    try:
        require_regular(path)
        content = json.loads(path.read_text())
        is_valid = content.pop("checksum") == _checksum(content)
    except (OSError, InputError, ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None
    return content if is_valid else None


def _checksum(content: dict[str, Any]) -> str:
    """The checksum of everything but the stages."""
    return checksum(json.dumps({**content, "stages": []}, sort_keys=True))
