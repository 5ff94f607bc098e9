"""The manifest of a run: everything that decides its result, so that it can be continued or made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from divea.alignment.settings import Settings
from divea.atomic import new_file
from divea.errors import InputError
from divea.run.checksums import text_checksum

NAME = "manifest.json"
FORMAT = {"format": "divea run", "version": 1}
_KINDS: dict[str, Any] = {
    "settings": dict,
    "device": str,
    "threads": int,
    "memory": int | None,
    "task": dict,
    "versions": dict,
    "folder": str | None,
    "stages": list,
}


@dataclass(frozen=True)
class Manifest:
    """What a run is. Two runs with equal manifests, `stages` and `folder` aside, give the same tables."""

    settings: Settings
    device: str
    threads: int
    """Of torch in a job: sums in another order differ in their last bits."""
    memory: int | None
    """Bytes that a job may take, None for no limit; it decides how a job is cut into batches and blocks."""
    task: dict[str, str]
    """Checksums of the parts of the task."""
    versions: dict[str, str]
    folder: str | None = None
    """The task folder as it was named, which explains ids in a file of gold; it decides nothing."""
    stages: list[dict[str, Any]] = field(default_factory=list)
    """Wall time and peak memory of each stage, as measured."""

    def save(self, run: Path) -> None:
        """Write into a run directory, whole or not at all."""
        content = {**FORMAT, **asdict(self)}
        with new_file(run / NAME) as aside:
            aside.write_text(json.dumps({"checksum": _checksum(content), **content}, indent=2) + "\n")

    @classmethod
    def load(cls, run: Path) -> Manifest:
        """Read and check; a manifest from elsewhere may hold anything."""
        path = run / NAME
        content = _read(path)
        if content is None:
            what = "is damaged" if path.exists() else "no run of divea align"
            raise InputError(what, path=path if path.exists() else run)
        if {key: content.pop(key, None) for key in FORMAT} != FORMAT:
            raise InputError(f"another format; this release reads {FORMAT}", path=path)
        for name, kind in _KINDS.items():
            if not isinstance(content.get(name), kind):
                raise InputError(f"no manifest of this release ({name})", path=path)
        try:
            return cls(**{**content, "settings": Settings.of(content["settings"], path)})
        except TypeError as error:
            raise InputError(f"no manifest of this release ({error})", path=path) from error

    def differences(self, other: Manifest) -> Iterator[str]:
        """What another manifest has otherwise, one phrase each."""
        ours, theirs = self._compared(), other._compared()
        for name in {**ours, **theirs}:
            if ours.get(name) != theirs.get(name):
                is_data = name in self.task
                yield f"the {name}" if is_data else f"{name} {ours.get(name)!r}, now {theirs.get(name)!r}"

    @property
    def identity(self) -> str:
        """A checksum of all that decides the result."""
        return text_checksum(json.dumps(self._compared(), sort_keys=True))

    def _compared(self) -> dict[str, Any]:
        plain = {"device": self.device, "threads": self.threads, "memory": self.memory}
        return {**asdict(self.settings), **plain, **self.versions, **self.task}


def stored_manifest(run: Path) -> Manifest | None:
    """The manifest of a run; None where there is none, or a damaged one."""
    return None if _read(run / NAME) is None else Manifest.load(run)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text())
        sound = content.pop("checksum") == _checksum(content)
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return None
    return content if sound else None


def _checksum(content: dict[str, Any]) -> str:
    """Of all but what stages cost."""
    return text_checksum(json.dumps({**content, "stages": []}, sort_keys=True))


def versions() -> dict[str, str]:
    """Of what computes: another release may round otherwise."""
    from importlib.metadata import version

    import divea

    return {"divea": divea.__version__, **{name: version(name) for name in ("torch", "numpy", "scipy")}}
