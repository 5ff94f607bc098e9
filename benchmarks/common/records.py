"""Records: figures in a JSON file, with everything that is needed to measure them again."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.common.figures import Figures, rounded
from divea.io import new_file
from divea.resources.machine import cores, total_memory
from divea.runs.manifest import library_versions

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "benchmarks" / "records"
PAGE = ROOT / "docs" / "notes" / "benchmarks.md"


def make_record(
    name: str,
    figures: Figures,
    *,
    arguments: Sequence[str],
    parameters: Mapping[str, Any],
    device: str,
    seconds: float,
    commit: str | None = None,
) -> dict[str, Any]:
    """Figures with everything that is needed to measure them again.

    Parameters
    ----------
    arguments
        The command line after `python -m benchmarks run`.
    device
        "cuda" if a GPU was used.
    seconds
        Wall time of the whole benchmark.
    commit
        The commit, where it cannot be found because there is no repository.
    """
    head, is_dirty = _commit()
    threads = os.environ.get("OMP_NUM_THREADS")
    command = shlex.join(["python", "-m", "benchmarks", "run", *(_portable(text) for text in arguments)])
    return {
        "benchmark": name,
        "commit": commit or head,
        "dirty": is_dirty,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": _machine(device),
        "command": f"OMP_NUM_THREADS={threads} {command}" if threads else command,
        "parameters": {key: _portable(value) for key, value in parameters.items()},
        "seconds": rounded(seconds),
        "figures": figures.plain(),
        "failures": figures.failures,
    }


def write_record(record: Mapping[str, Any], folder: Path, label: str | None = None) -> Path:
    """Write FOLDER/NAME.json, or NAME-LABEL.json."""
    path = folder / f"{record['benchmark']}{f'-{label}' if label else ''}.json"
    with new_file(path) as temporary:
        temporary.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return path


def _portable(value: Any) -> Any:
    """A value without the folder that the repository happens to be in."""
    if isinstance(value, (list, tuple)):
        return [_portable(item) for item in value]
    if not isinstance(value, (str, Path)):
        return value
    path = Path(value)
    if path.is_absolute() and path.is_relative_to(ROOT.parent):
        return os.path.relpath(path, ROOT)
    return str(value)


def _commit() -> tuple[str | None, bool | None]:
    """The commit, and whether anything but records differs from it; None where there is no repository."""
    ignored = [f":!{path.relative_to(ROOT)}" for path in (RECORDS, PAGE)]
    try:
        head = _git("rev-parse", "HEAD")
        changes = _git("--no-optional-locks", "status", "--porcelain", "--", ".", *ignored)
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head[:12], bool(changes)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _machine(device: str) -> dict[str, Any]:
    gpu = None
    if device == "cuda":
        import torch

        gpu = torch.cuda.get_device_name()
    return {
        "cpu": _cpu_model(),
        "cores": cores(),
        "memory": f"{total_memory() / 2**30:.0f} GiB",
        "gpu": gpu,
        "python": platform.python_version(),
        **library_versions(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if "model name" in line), platform.machine())
